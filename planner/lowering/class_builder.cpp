#include "planner/lowering/class_builder.hpp"

#include "core/check.hpp"

namespace planner::lowering {

std::uint16_t ClassBuilder::buffer(program::Buffer buffer) {
  PLANNER_CHECK(class_.buffers.size() < program::kNone, "too many buffers");
  class_.buffers.push_back(std::move(buffer));
  return static_cast<std::uint16_t>(class_.buffers.size() - 1);
}

std::uint16_t ClassBuilder::event(std::string name, int extent, int slots) {
  class_.events.push_back({std::move(name), extent, slots});
  return static_cast<std::uint16_t>(class_.events.size() - 1);
}

std::uint16_t ClassBuilder::op(models::Operator op) {
  class_.operators.push_back(std::move(op));
  return static_cast<std::uint16_t>(class_.operators.size() - 1);
}

std::uint16_t ClassBuilder::transfer(const program::Transfer& transfer) {
  class_.transfers.push_back(transfer);
  return static_cast<std::uint16_t>(class_.transfers.size() - 1);
}

void ClassBuilder::begin(std::string name) {
  name_ = std::move(name);
  first_ = static_cast<std::uint32_t>(class_.actions.size());
}

std::uint16_t ClassBuilder::end() {
  const auto last = static_cast<std::uint32_t>(class_.actions.size());
  if (last == first_) return program::kNone;
  class_.blocks.push_back({std::move(name_), first_, last});
  return static_cast<std::uint16_t>(class_.blocks.size() - 1);
}

void ClassBuilder::emit(const Emit& e) {
  program::Action a;
  a.kind = e.kind;
  a.stream = e.stream;
  a.flags = e.flags;
  a.op = e.op;
  a.arg_count = static_cast<std::uint8_t>(e.args.size());
  a.first_arg = static_cast<std::uint32_t>(class_.views.size());
  class_.views.insert(class_.views.end(), e.args.begin(), e.args.end());
  a.wait_count = static_cast<std::uint8_t>(e.waits.size());
  a.first_wait = static_cast<std::uint32_t>(class_.waits.size());
  class_.waits.insert(class_.waits.end(), e.waits.begin(), e.waits.end());
  if (e.signal != nullptr) {
    a.signal = static_cast<std::uint16_t>(class_.signals.size());
    class_.signals.push_back(*e.signal);
  }
  class_.actions.push_back(a);
}

}  // namespace planner::lowering
