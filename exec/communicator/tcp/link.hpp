#pragma once
// Link: one connection to another rank, after they have met: records with a head and a body, in
// order. Any thread sends; what the socket does not take at once waits here for the progress
// thread, which alone receives. The sizes that a head may claim are bounded by its kind.

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <stdexcept>

#include "exec/communicator/spares.hpp"
#include "exec/communicator/tcp/socket.hpp"

namespace exec::tcp {

enum class RecordKind : std::uint32_t {
  data = 1,   // a message, its frame at its end
  text,       // to rank 0: what this rank tells all
  texts,      // from rank 0: what all have told
  beat,       // I live
  failure,    // to rank 0: a cause
  verdict,    // from rank 0: the cause
  bye         // nothing follows, and the end of the connection is no failure
};

// The longest body of a kind.
std::size_t most_bytes(RecordKind kind);

struct RecordHead {
  RecordKind kind{};
  std::uint32_t unused = 0;
  std::uint64_t size = 0;
};

struct Record {
  RecordKind kind{};
  Message body;
};

// The other side sent what is no record of this program.
class BadRecord : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class Link {
 public:
  Link(Socket socket, Spares& spares) : socket_(std::move(socket)), spares_(spares) {}

  int fd() const { return socket_.get(); }
  // Buffered. True: some of it waits until the socket can take more, and did not before.
  bool send(RecordKind kind, Message&& body);
  // The socket can take more: true while there is more to give.
  bool flush();
  bool has_unsent() const;

  // Progress thread: hands over what has come whole. False: the other end has closed, or failed.
  // Throws BadRecord.
  bool receive(const std::function<void(Record&&)>& whole);

  // Progress thread's notes.
  bool said_bye = false;   // the other end
  bool gone = false;       // receive() was false
  Time heard{Clock::now()};

 private:
  struct Outgoing {
    RecordHead head;
    Message body;
    std::size_t sent = 0;  // bytes of both
  };
  bool write_some(Outgoing& out);
  bool read_some(std::byte* to, std::size_t most, std::size_t& got);

  Socket socket_;
  Spares& spares_;
  mutable std::mutex mutex_;  // guards outgoing_
  std::deque<Outgoing> outgoing_;
  RecordHead head_{};
  std::size_t head_got_ = 0, body_got_ = 0;
  Message body_;
};

}  // namespace exec::tcp
