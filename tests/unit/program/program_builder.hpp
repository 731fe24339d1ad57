#pragma once
// Small rank classes by hand, for tests: declare buffers, events and transfers, then write blocks
// action by action. Nothing is checked here; that is the point.

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "sim/program/program.hpp"

namespace program_test {

using namespace program;

inline EventRef at(std::uint16_t event, int micro_batch_shift = 0) {
  return {event, 0, Index::constant, 0, static_cast<std::int8_t>(micro_batch_shift)};
}
inline EventRef at_layer(std::uint16_t event, int layer_shift = 0) {
  return {event, 0, Index::layer, static_cast<std::int8_t>(layer_shift), 0};
}
inline View whole(std::uint16_t buffer) { return {buffer}; }
inline View layered(std::uint16_t buffer, int layer_shift = 0, int micro_batch_shift = 0) {
  View v{buffer};
  v.index = Index::layer;
  v.layer_shift = static_cast<std::int16_t>(layer_shift);
  v.micro_batch_shift = static_cast<std::int8_t>(micro_batch_shift);
  return v;
}
inline View ranged(std::uint16_t buffer, Range range, std::int64_t offset = 0,
                   std::int64_t elements = 0) {
  View v{buffer};
  v.range = range;
  v.offset = offset;
  v.elements = elements;
  return v;
}

class Builder {
 public:
  RankClass k;

  explicit Builder(std::string name = "stage 0", int stage = 0) {
    k.name = std::move(name);
    k.stage = stage;
  }

  std::uint16_t buffer(std::string name, Term term, std::vector<std::int64_t> elements,
                       int extent = 1, int slots = 1, bool persistent = false,
                       core::DType type = core::DType::u8) {
    k.buffers.push_back({.name = std::move(name), .term = term, .type = type,
                         .elements = std::move(elements), .extent = extent, .slots = slots,
                         .persistent = persistent});
    return static_cast<std::uint16_t>(k.buffers.size() - 1);
  }
  std::uint16_t event(std::string name, int extent = 1, int slots = 1) {
    k.events.push_back({std::move(name), extent, slots});
    return static_cast<std::uint16_t>(k.events.size() - 1);
  }
  std::uint16_t transfer(const Transfer& t) {
    k.transfers.push_back(t);
    return static_cast<std::uint16_t>(k.transfers.size() - 1);
  }
  std::uint16_t op(models::OpKind kind) {
    models::Operator o;
    o.kind = kind;
    k.operators.push_back(o);
    return static_cast<std::uint16_t>(k.operators.size() - 1);
  }

  std::uint16_t block(std::string name) {
    const auto end = static_cast<std::uint32_t>(k.actions.size());
    k.blocks.push_back({std::move(name), end, end});
    return static_cast<std::uint16_t>(k.blocks.size() - 1);
  }
  // Appends to the last block.
  Builder& act(ActionKind kind, std::initializer_list<View> args, Stream stream = Stream::compute,
               std::uint16_t op = kNone) {
    Action a;
    a.kind = kind;
    a.stream = stream;
    a.op = op;
    a.arg_count = static_cast<std::uint8_t>(args.size());
    a.first_arg = static_cast<std::uint32_t>(k.views.size());
    a.first_wait = static_cast<std::uint32_t>(k.waits.size());
    k.views.insert(k.views.end(), args);
    k.actions.push_back(a);
    k.blocks.back().last = static_cast<std::uint32_t>(k.actions.size());
    return *this;
  }
  Builder& alloc(const View& v) { return act(ActionKind::alloc, {v}); }
  Builder& free(const View& v) { return act(ActionKind::free, {v}); }
  // The following three amend the last action.
  Builder& wait(const EventRef& on, bool may_precede = false) {
    k.waits.push_back({on, may_precede});
    ++k.actions.back().wait_count;
    return *this;
  }
  Builder& signal(const EventRef& event) {
    k.signals.push_back(event);
    k.actions.back().signal = static_cast<std::uint16_t>(k.signals.size() - 1);
    return *this;
  }
  Builder& flag(ActionFlag f) {
    k.actions.back().flags |= f;
    return *this;
  }

  static Call call(std::uint16_t block, int layer = 0) {
    return {block, static_cast<std::uint16_t>(layer), 0};
  }
  Builder& schedule(std::int64_t micro_batches, std::int64_t warm_up) {
    k.schedule = {micro_batches, warm_up};
    return *this;
  }
};

inline Program program_of(std::vector<RankClass> classes, const Mesh& mesh = {}) {
  Program p;
  p.classes = std::move(classes);
  p.mesh = mesh;
  return p;
}

}  // namespace program_test
