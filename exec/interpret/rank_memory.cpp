#include "exec/interpret/rank_memory.hpp"

#include "core/check.hpp"

namespace exec {

using program::Buffer;

RankMemory::RankMemory(const program::RankClass& rank_class, int part, const Reserve& reserve,
                       const Reserve& reserve_host, std::int64_t steps)
    : class_(rank_class), part_(part) {
  range_bytes_ =
      static_cast<std::size_t>(program::replay(rank_class, {.steps = steps}).reserved.value());
  base_ = reserve(range_bytes_);
  program::Arena host;
  for (const Buffer& b : class_.buffers)
    for (int instance = 0; b.host && instance < b.extent * b.slots; ++instance)
      host.allocate(b.instance_bytes(instance / b.slots));
  host_bytes_ = static_cast<std::size_t>(host.reserved().value());
  if (host_bytes_ > 0) host_base_ = reserve_host(host_bytes_);
  for (const Buffer& b : class_.buffers) {
    first_.push_back(places_.size());
    places_.resize(places_.size() + static_cast<std::size_t>(b.extent * b.slots), kAbsent);
  }
  for (std::size_t i = 0; i < class_.buffers.size(); ++i)
    if (const Buffer& b = class_.buffers[i]; b.persistent)
      for (int instance = 0; instance < b.extent * b.slots; ++instance)
        place(static_cast<std::uint16_t>(i), instance, b.instance_bytes(instance / b.slots));
}

program::Place& RankMemory::place_of(std::uint16_t buffer, int instance) {
  return places_[first_[buffer] + static_cast<std::size_t>(instance)];
}
const program::Place& RankMemory::place_of(std::uint16_t buffer, int instance) const {
  return places_[first_[buffer] + static_cast<std::size_t>(instance)];
}

void RankMemory::place(std::uint16_t buffer, int instance, core::Bytes bytes) {
  program::Place& at = place_of(buffer, instance);
  PLANNER_CHECK(at == kAbsent, "allocated twice: " + class_.buffers[buffer].name);
  if (class_.buffers[buffer].host) {
    at = host_arena_.allocate(bytes);
    return;
  }
  at = arena_.allocate(bytes);
  PLANNER_CHECK(static_cast<std::size_t>(arena_.reserved().value()) <= range_bytes_,
                "the arena outgrew its prediction at " + class_.buffers[buffer].name);
  const Buffer& b = class_.buffers[buffer];
  ledger_.allocate(b.term_of(instance % b.slots), bytes);
}

void RankMemory::allocate(const program::View& view, const program::Call& call) {
  const Buffer& b = class_.buffers[view.buffer];
  place(view.buffer, program::instance_of(b, view, call),
        b.instance_bytes(program::layer_index(view, call)));
}

void RankMemory::free(const program::View& view, const program::Call& call) {
  const Buffer& b = class_.buffers[view.buffer];
  program::Place& at = place_of(view.buffer, program::instance_of(b, view, call));
  PLANNER_CHECK(at != kAbsent, "freed while absent: " + b.name);
  arena_.free(at);
  at = kAbsent;
  ledger_.free(b.term, b.instance_bytes(program::layer_index(view, call)));
}

Operand RankMemory::resolve(const program::View& view, const program::Call& call) const {
  const Buffer& b = class_.buffers[view.buffer];
  const program::Place& at = place_of(view.buffer, program::instance_of(b, view, call));
  PLANNER_CHECK(at != kAbsent, "used while absent: " + b.name);
  const program::ResolvedRange range = program::resolve(class_, view, call, part_);
  std::byte* const base = b.host ? host_base_ : base_;
  return {base + at.offset + core::bytes_of(range.offset, b.type).value(), range.elements, b.type,
          b.f8 ? &*b.f8 : nullptr};
}

Operand RankMemory::persistent(std::uint16_t buffer, int layer, int slot) const {
  const Buffer& b = class_.buffers[buffer];
  PLANNER_CHECK(b.persistent && slot < b.slots, "not a persistent instance: " + b.name);
  std::byte* const base = b.host ? host_base_ : base_;
  const program::Place& at = place_of(buffer, layer * b.slots + slot);
  return {base + at.offset, b.instance_elements(layer), b.type};
}

}  // namespace exec
