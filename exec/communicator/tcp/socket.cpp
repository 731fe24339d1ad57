#include "exec/communicator/tcp/socket.hpp"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

namespace exec::tcp {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kLook = 100ms;       // between looks at signals
constexpr auto kConnectWithin = 2s;   // of one address
constexpr int kBacklog = 4096;        // ranks come at one time; the system may hold fewer

using Addresses = std::unique_ptr<addrinfo, void (*)(addrinfo*)>;

// Numbers of IPv4 first: what a cluster's names most often mean.
Addresses addresses_of(const std::string& host, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  const int code = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (code == EAI_SYSTEM) throw SocketError(host, errno);
  if (code != 0) throw std::runtime_error(host + ": " + ::gai_strerror(code));
  return {found, ::freeaddrinfo};
}

bool is_loopback(const sockaddr& address) {
  if (address.sa_family == AF_INET)
    return ntohl(reinterpret_cast<const sockaddr_in&>(address).sin_addr.s_addr) >> 24 == 127;
  return address.sa_family == AF_INET6 &&
         IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
}

Address numbers(const sockaddr_storage& address, socklen_t size) {
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  const int code =
      ::getnameinfo(reinterpret_cast<const sockaddr*>(&address), size, host.data(), host.size(),
                    port.data(), port.size(), NI_NUMERICHOST | NI_NUMERICSERV);
  if (code != 0) throw std::runtime_error(std::string("an address: ") + ::gai_strerror(code));
  return {host.data(), std::atoi(port.data())};
}

Socket make_socket(int family) {
  Socket socket(::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket.open()) throw SocketError("a socket", errno);
  return socket;
}

Socket connect_one(const addrinfo& address, const std::string& name, const Wait& wait) {
  Socket socket = make_socket(address.ai_family);
  if (::connect(socket.get(), address.ai_addr, address.ai_addrlen) != 0) {
    if (errno != EINPROGRESS) throw SocketError(name, errno);
    const Wait shorter{std::min(wait.until, Clock::now() + kConnectWithin), wait.signal};
    if (!wait_for(socket.get(), POLLOUT, shorter)) throw SocketError(name, ETIMEDOUT);
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(socket.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error != 0) throw SocketError(name, error);
  }
  prepare(socket.get());
  return socket;
}

}  // namespace

SocketError::SocketError(const std::string& what, int error)
    : std::runtime_error(what + ": " + std::strerror(error)), error_(error) {}

Socket& Socket::operator=(Socket&& other) noexcept {
  if (this != &other) {
    close();
    fd_ = std::exchange(other.fd_, -1);
  }
  return *this;
}

void Socket::close() {
  if (fd_ >= 0) ::close(fd_);
  fd_ = -1;
}

void check_signal(const Wait& wait) {
  if (const int signal = signal_at(wait.signal); signal != 0) throw Interrupted(signal);
}

bool wait_for(int fd, short events, const Wait& wait) {
  for (;;) {
    check_signal(wait);
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(wait.until - Clock::now());
    if (left.count() <= 0) return false;
    pollfd watched{fd, events, 0};
    const int ready = ::poll(&watched, 1, static_cast<int>(std::min(left, kLook).count()));
    if (ready < 0 && errno != EINTR) throw SocketError("poll", errno);
    if (ready > 0) return true;
  }
}

void prepare(int fd) {
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK);
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);  // of a listener: no harm
}

Socket listen_at(const std::string& host, int port) {
  const Addresses found = addresses_of(host, port);
  sockaddr_storage address{};
  const auto size = found->ai_addrlen;
  std::memcpy(&address, found->ai_addr, size);
  if (!is_loopback(*found->ai_addr)) {
    if (found->ai_family == AF_INET)
      reinterpret_cast<sockaddr_in&>(address).sin_addr.s_addr = htonl(INADDR_ANY);
    else
      reinterpret_cast<sockaddr_in6&>(address).sin6_addr = in6addr_any;
  }
  Socket socket = make_socket(found->ai_family);
  // A port that connections of an earlier run still hold in TIME_WAIT may be listened at.
  const int on = 1;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      ::listen(socket.get(), kBacklog) != 0)
    throw SocketError(host + " port " + std::to_string(port), errno);
  return socket;
}

Socket accept_from(const Socket& listener) {
  Socket socket(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.open()) prepare(socket.get());
  return socket;
}

Socket connect_to(const std::string& host, int port, const Wait& wait) {
  const Addresses found = addresses_of(host, port);
  const std::string name = host + " port " + std::to_string(port);
  for (const addrinfo* one = found.get();; one = one->ai_next) {
    try {
      return connect_one(*one, name, wait);
    } catch (const SocketError&) {
      if (one->ai_next == nullptr) throw;
    }
  }
}

Address own_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw SocketError("getsockname", errno);
  return numbers(address, size);
}

Address peer_address(const Socket& socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(socket.get(), reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw SocketError("getpeername", errno);
  return numbers(address, size);
}

void send_all(const Socket& socket, std::span<const std::byte> bytes, const Wait& wait) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno != EAGAIN && errno != EINTR) throw SocketError("sending", errno);
    if (!wait_for(socket.get(), POLLOUT, wait)) throw SocketError("sending", ETIMEDOUT);
  }
}

bool receive_all(const Socket& socket, std::span<std::byte> bytes, const Wait& wait) {
  const std::size_t all = bytes.size();
  while (!bytes.empty()) {
    const ssize_t got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    if (got > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(got));
      continue;
    }
    if (got == 0 && bytes.size() == all) return false;
    if (got == 0) throw SocketError("receiving", ECONNRESET);
    if (errno != EAGAIN && errno != EINTR) throw SocketError("receiving", errno);
    if (!wait_for(socket.get(), POLLIN, wait)) throw SocketError("receiving", ETIMEDOUT);
  }
  return true;
}

bool is_gone(const Socket& socket) {
  std::byte one{};
  const ssize_t got = ::recv(socket.get(), &one, 1, MSG_PEEK | MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR);
}

}  // namespace exec::tcp
