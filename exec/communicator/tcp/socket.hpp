#pragma once
// Sockets of TCP: made, connected and read whole with a deadline. All are closed by exec and do not
// block. Problems are SocketError, in the system's words. Thread-safe: the descriptors are all the
// state there is.

#include <chrono>
#include <atomic>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

namespace exec::tcp {

using Clock = std::chrono::steady_clock;
using Time = Clock::time_point;

class SocketError : public std::runtime_error {
 public:
  SocketError(const std::string& what, int error);
  int error() const { return error_; }  // errno

 private:
  int error_;
};
// A signal came while this process waited.
class Interrupted : public std::runtime_error {
 public:
  explicit Interrupted(int signal) : std::runtime_error("interrupted"), signal_(signal) {}
  int signal() const { return signal_; }

 private:
  int signal_;
};

class Socket {
 public:
  Socket() = default;
  explicit Socket(int fd) : fd_(fd) {}
  Socket(Socket&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Socket& operator=(Socket&& other) noexcept;
  ~Socket() { close(); }
  int get() const { return fd_; }
  bool open() const { return fd_ >= 0; }
  void close();
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_ = -1;
};

struct Address {
  std::string host;  // numbers
  int port = 0;
};

// Until when to wait, and what ends it before.
struct Wait {
  Time until;
  const std::atomic<int>* signal = nullptr;
};
// One of the descriptors is ready, or a look at it is due; false: the time is over. Throws
// Interrupted.
bool wait_for(int fd, short events, const Wait& wait);
void check_signal(const Wait& wait);
// What a signal handler has set, perhaps on another thread; 0: nothing.
inline int signal_at(const std::atomic<int>* signal) {
  return signal != nullptr ? signal->load(std::memory_order_relaxed) : 0;
}

// Listens where `host` says; port 0: any. Loopback addresses are heard by this machine alone, all
// others at every port of the machine.
Socket listen_at(const std::string& host, int port);
// A connection that waits, or none. Ready to read and write, small messages at once.
Socket accept_from(const Socket& listener);
// Tries every address that the name has. Throws SocketError; ECONNREFUSED and the like are worth
// another try.
Socket connect_to(const std::string& host, int port, const Wait& wait);
// As `fd` was opened by somebody else.
void prepare(int fd);

Address own_address(const Socket& socket);
Address peer_address(const Socket& socket);

void send_all(const Socket& socket, std::span<const std::byte> bytes, const Wait& wait);
// False: the other end closed before the first byte.
bool receive_all(const Socket& socket, std::span<std::byte> bytes, const Wait& wait);
// The other end is gone, without reading anything.
bool is_gone(const Socket& socket);

}  // namespace exec::tcp
