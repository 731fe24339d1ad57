#include "exec/communicator/message_memory.hpp"

#include <cstring>

#include "core/check.hpp"
#include "exec/communicator/reduce.hpp"
#include "exec/communicator/transport.hpp"

namespace exec {
namespace {

class HostMessageMemory final : public MessageMemory {
 public:
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    if (bytes > 0) std::memmove(to, from, bytes);
  }
  void zero(std::byte* to, std::size_t bytes) override {
    if (bytes > 0) std::memset(to, 0, bytes);
  }
  void combine(const std::byte* left, const std::byte* right, std::byte* out, std::int64_t n,
               core::DType type, program::ReduceOp op) override {
    exec::combine(left, right, out, n, type, op);
  }
};

}  // namespace

Message MessageMemory::blank(std::size_t) {
  PLANNER_CHECK(false, "this memory makes no messages");
  return {};
}
void MessageMemory::sent(Message&) {}
void MessageMemory::received(Message&) {}
void MessageMemory::recycle(Message&&) {}

MessageMemory& host_message_memory() {
  static HostMessageMemory memory;
  return memory;
}

}  // namespace exec
