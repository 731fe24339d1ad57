#include "planner/lowering/rescale.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner {
namespace {

// Inference keeps no pass in flight.
program::RankSchedule schedule_at(const program::RankClass& k, const Strategy& to) {
  if (k.last_backward.empty()) return {.micro_batches = to.grad_accum};
  return schedule_of(to, k.stage, to.grad_accum);
}

// Buffers whose size is per sample: activations, logits, and what ranks send each other of them.
std::vector<bool> scaled_buffers(const program::RankClass& k) {
  std::vector<bool> scaled(k.buffers.size());
  for (std::size_t i = 0; i < k.buffers.size(); ++i)
    scaled[i] = k.buffers[i].term == program::Term::activations ||
                k.buffers[i].term == program::Term::logits;
  for (const program::Action& a : k.actions) {
    using program::ActionKind, program::Traffic;
    const bool computes =
        a.kind == ActionKind::forward || a.kind == ActionKind::input_gradient;
    const auto scale_args = [&] {
      for (std::uint32_t i = 0; i < a.arg_count; ++i) {
        const std::uint16_t buffer = k.views[a.first_arg + i].buffer;
        if (buffer == program::kNone) continue;  // an argument that is left out
        PLANNER_CHECK(buffer < scaled.size(), "a view of a buffer that the class has");
        scaled[buffer] = true;
      }
    };
    if (computes && k.operators[a.op].kind == models::OpKind::attention)  // it has no weights
      scale_args();
    const bool message = a.kind == ActionKind::send || a.kind == ActionKind::receive;
    const auto rows = [&](Traffic t) {
      return t == Traffic::expert || t == Traffic::context || t == Traffic::split;
    };
    if (message || (a.kind == ActionKind::collective && rows(k.transfers[a.op].what))) scale_args();
  }
  if (k.loss_buffer != program::kNone) scaled[k.loss_buffer] = false;
  return scaled;
}

// Several slots are those of the forward passes in flight; everything else has one.
void set_slots(program::RankClass& k, int in_flight) {
  const auto set = [&](auto& thing) { thing.slots = thing.slots > 1 ? in_flight : 1; };
  for (std::size_t i = 0; i < k.buffers.size(); ++i) {
    const bool versions = i == k.weights_buffer && !k.schedule.flushes;
    if (versions) k.buffers[i].share = k.schedule.micro_batches;
    else set(k.buffers[i]);
  }
  std::ranges::for_each(k.events, set);
}

}  // namespace

bool rescale(program::Program& program, const Strategy& to) {
  if (!to.shares.empty() || program.classes.front().replicas > 0) return false;
  Strategy before = to;
  before.grad_accum = program.classes.front().schedule.micro_batches;
  if (receives_ahead(before) != receives_ahead(to)) return false;
  for (const program::RankClass& k : program.classes) {
    const program::RankSchedule schedule = schedule_at(k, to);
    if (k.schedule.slots() == 1 && schedule.slots() > 1) return false;
  }
  const std::int64_t from = program.samples;
  const auto scale = [&](std::int64_t& n) { n = n / from * to.micro_batch; };
  const auto scale_buffer = [&](program::Buffer& b) {
    if (!b.f8) return std::ranges::for_each(b.elements, scale), void();
    b.f8->groups = to.micro_batch;     // a scale of the whole matrix stays one
    b.elements = {b.f8->bytes().value()};
  };
  for (program::RankClass& k : program.classes) {
    k.schedule = schedule_at(k, to);
    set_slots(k, static_cast<int>(k.schedule.slots()));
    const std::vector<bool> scaled = scaled_buffers(k);
    for (std::size_t i = 0; i < k.buffers.size(); ++i)
      if (scaled[i]) scale_buffer(k.buffers[i]);
    for (program::View& v : k.views) {
      if (v.buffer == program::kNone || v.range != program::Range::fixed) continue;
      PLANNER_CHECK(v.buffer < scaled.size(), "a view of a buffer that the class has");
      if (!scaled[v.buffer]) continue;
      scale(v.offset);
      scale(v.elements);
    }
  }
  program.samples = to.micro_batch;
  return true;
}

}  // namespace planner
