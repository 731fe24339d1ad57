#pragma once
// Transport: ordered, buffered messages between the ranks of one group, with a header that says
// which call a message belongs to. The algorithms of message_communicator.hpp are written over it.
// Thread-safety: one thread at a time per transport.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "core/dtype.hpp"
#include "core/units.hpp"
#include "exec/communicator/library_collectives.hpp"
#include "exec/communicator/message_memory.hpp"
#include "sim/program/collective.hpp"

namespace exec {

enum class CallKind : std::uint8_t {
  all_reduce, reduce_scatter, all_gather, broadcast, exchange, ring_shift, barrier, send, push,
  reply
};

// Which call a message is part of. Framing: never counted as wire bytes.
struct Header {
  CallKind kind{};
  program::Algorithm algorithm = program::Algorithm::direct;
  program::ReduceOp op = program::ReduceOp::sum;
  core::DType type = core::DType::u8;
  program::Traffic what{};
  std::int64_t n = 0;         // elements of the whole vector, unpadded
  std::int64_t label = 0;     // tag of a send, key of a push or reply, root of a broadcast
  std::int64_t sequence = 0;  // of the group's collective calls; 0 for the others
  friend bool operator==(const Header&, const Header&) = default;
};

// "all_reduce(ring, sum) of 10 f32 for gradients, call 3"
std::string to_text(const Header& header);

// Messages of different lanes between the same two ranks do not wait for each other.
struct Lane {
  enum class Kind : std::uint8_t { collective, point_to_point, push, reply };
  Kind kind = Kind::collective;
  std::int64_t tag = 0;
  friend auto operator<=>(const Lane&, const Lane&) = default;
};

struct Message {
  Header header;
  std::shared_ptr<std::byte[]> bytes;  // of the heap, or of the memory that made it
  std::size_t size = 0;      // bytes that carry the message
  std::size_t capacity = 0;  // bytes allocated
  bool lent = false;         // the bytes are the sender's own: read them, and drop the message
};

struct Peek {
  int peer;
  Header header;
};

class Transport {
 public:
  virtual ~Transport() = default;

  virtual int size() const = 0;
  virtual int index() const = 0;
  virtual int rank_of(int index) const = 0;
  virtual bool emulated_links() const = 0;

  // Copies data and `zeros` zero bytes into a message; returns without the receiver. A message to
  // oneself is allowed and is not wire.
  virtual void send(int peer, Lane lane, const Header& header, std::span<const std::byte> data,
                    std::size_t zeros) = 0;
  // As send without zeros, but the receiver may read `data` itself: it must stay as it is until
  // settle() or recall().
  virtual void lend(int peer, Lane lane, const Header& header, std::span<const std::byte> data) {
    send(peer, lane, header, data, 0);
  }
  // Waits until nobody reads what was lent. Throws Aborted.
  virtual void settle() {}
  // The same when something failed: what nobody has taken yet nobody will.
  virtual void recall() noexcept {}
  // The oldest message of the lane from that peer; waits for it. Throws Aborted.
  virtual Message receive(int peer, Lane lane) = 0;
  // Waits for a message of the lane from anyone; leaves the first to arrive in place.
  virtual Peek wait_any(Lane lane) = 0;
  // Gives a message's memory back for the next sender.
  virtual void recycle(Message&& message) = 0;

  // The carrier's own collectives over this group, if they are wanted.
  virtual LibraryCollectives* library() { return nullptr; }
  // What moves the bytes of buffers and messages.
  virtual MessageMemory& memory() { return host_message_memory(); }

  // Payload bytes that left this rank so far.
  virtual core::Bytes sent() const = 0;
  // Ends every rank of the world with this cause, unless one ended it before.
  virtual void abort(const std::string& message) = 0;
};

}  // namespace exec
