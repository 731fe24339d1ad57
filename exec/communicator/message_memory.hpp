#pragma once
// MessageMemory: where messages lie and who moves their bytes. On the host that is the heap and the
// calling thread; a device keeps them in its own memory and works in the order of one stream, so
// that a call may return before its bytes have moved. Buffers of a communicator and its messages
// lie in the same memory. Thread-safety: one thread at a time per object.

#include <cstddef>
#include <cstdint>

#include "core/dtype.hpp"
#include "sim/program/collective.hpp"

namespace exec {

struct Message;

class MessageMemory {
 public:
  virtual ~MessageMemory() = default;

  // The ranges may overlap.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual void zero(std::byte* to, std::size_t bytes) = 0;
  // As combine() of reduce.hpp.
  virtual void combine(const std::byte* left, const std::byte* right, std::byte* out,
                       std::int64_t n, core::DType type, program::ReduceOp op) = 0;

  // Whether messages are made here; else they are made on the heap, and nothing below is called.
  virtual bool makes_messages() const { return false; }
  virtual Message blank(std::size_t size);
  // The sender has written it; the receiver is about to use it; nobody needs it any more.
  virtual void sent(Message& message);
  virtual void received(Message& message);
  virtual void recycle(Message&& message);
};

// The heap and the calling thread; stateless.
MessageMemory& host_message_memory();

}  // namespace exec
