#pragma once
// ClassBuilder: appends buffers, events, actions and blocks to one RankClass. Straight bookkeeping;
// the rules of what to emit are its callers'. Not thread-safe.

#include <initializer_list>
#include <span>
#include <string>
#include <vector>

#include "sim/program/program.hpp"

namespace planner::lowering {

using program::ActionKind;
using program::Stream;
using program::View;

// One action before it is packed.
struct Emit {
  ActionKind kind{};
  Stream stream = Stream::compute;
  std::vector<View> args{};
  std::uint16_t op = program::kNone;
  std::uint8_t flags = 0;
  std::vector<program::Wait> waits{};
  const program::EventRef* signal = nullptr;
};

class ClassBuilder {
 public:
  explicit ClassBuilder(program::RankClass& target) : class_(target) {}

  std::uint16_t buffer(program::Buffer buffer);
  std::uint16_t event(std::string name, int extent, int slots = 1);
  std::uint16_t op(models::Operator op);
  std::uint16_t transfer(const program::Transfer& transfer);

  // A block is what is emitted between begin and end; end returns its index. An empty block is
  // kNone: the caller does not call it.
  void begin(std::string name);
  std::uint16_t end();

  void emit(const Emit& action);
  void alloc(View view) { emit({.kind = ActionKind::alloc, .args = {whole(view)}}); }
  void free(View view, std::uint8_t flags = 0) {
    emit({.kind = ActionKind::free, .args = {whole(view)}, .flags = flags});
  }
  void fence(Stream stream, std::vector<program::Wait> waits, const program::EventRef* signal,
             std::uint8_t flags = 0) {
    emit({.kind = ActionKind::fence, .stream = stream, .flags = flags, .waits = std::move(waits),
          .signal = signal});
  }

  program::RankClass& target() { return class_; }

  // The same instance, all of it.
  static View whole(View view) {
    view.range = program::Range::whole;
    view.offset = view.elements = 0;
    return view;
  }

 private:
  program::RankClass& class_;
  std::string name_;
  std::uint32_t first_ = 0;
};

inline View constant_view(std::uint16_t buffer, int instance = 0) {
  View v;
  v.buffer = buffer;
  v.instance = static_cast<std::uint16_t>(instance);
  return v;
}
inline View layer_view(std::uint16_t buffer, int shift = 0) {
  View v;
  v.buffer = buffer;
  v.index = program::Index::layer;
  v.layer_shift = static_cast<std::int16_t>(shift);
  return v;
}
inline View ranged(View view, program::Range range, std::int64_t offset = 0,
                   std::int64_t elements = 0) {
  view.range = range;
  view.offset = offset;
  view.elements = elements;
  return view;
}
inline View previous_micro_batch(View view) {
  view.micro_batch_shift = -1;
  return view;
}
inline program::EventRef layer_event(std::uint16_t event) {
  return {.event = event, .index = program::Index::layer};
}
inline program::Transfer over(program::Group group, program::Collective collective,
                              program::Algorithm algorithm, program::Traffic what,
                              core::DType wire_type) {
  program::Transfer t;
  t.collective = collective;
  t.algorithm = algorithm;
  t.what = what;
  t.group = group;
  t.wire_type = wire_type;
  return t;
}
inline program::EventRef single_event(std::uint16_t event) { return {.event = event}; }

}  // namespace planner::lowering
