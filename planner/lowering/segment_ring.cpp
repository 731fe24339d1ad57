// context_method=ring [ring-attention]: keys and values pass round the context ranks, one block (a
// rank's rows) at a time, on a stream of their own, while queries attend to the block before. Step
// s takes the block of the rank s places before this one.
//
// Forward takes steps 0, 1, ..., c - 1, in that order: each merges its block into the output and
// the log-sum-exp of the steps before. Backward takes 1, ..., c - 1, and its own block last:
// gradients of a block start at the rank after its owner and visit ascending ranks, each of which
// adds its part, until the owner adds its own, which is a ring's reduce-scatter. Keys go round
// again in backward. So the c - 1 blocks of each pass move as many bytes as context_method=gather
// does.
//
// Two buffers of keys take turns: one is read and passed on while the other fills. Queries' sums
// (the output, in backward dq) stand in the statistics' type until the last step.
#include <algorithm>

#include "planner/lowering/segment_emitter.hpp"
#include "sim/program/arguments.hpp"

namespace planner::lowering {

using program::EventRef;
using program::Wait;
using models::ops::Kernel;

// A step's work: a part of the scores as large as the others' (sequence.hpp), the queries and one
// block of keys; sums of earlier steps are read besides.
static models::Operator step_of(const models::Operator& op, int step, int steps) {
  models::Operator one = op;
  one.ring_step = step;
  one.ring_steps = steps;
  one.keys = op.rows;
  one.flops_forward = op.flops_forward * (1.0 / steps);
  one.flops_input_gradient = op.flops_input_gradient * (1.0 / steps);
  if (step > 0) one.elements_forward += op.rows * (op.n + op.heads);
  if (step != 1) one.elements_backward += op.rows * op.n;
  return one;
}

void SegmentEmitter::declare_ring(const Op& op) {
  const auto steps = static_cast<int>(stage_.strategy->context);
  ring_.blocks = std::min(2, steps - 1);
  program::Buffer b;
  b.term = program::Term::communication;
  b.type = stage_.recipe.activation;
  b.elements = {2 * op.kv_heads * op.head_dim * op.rows * stage_.samples};
  const auto declare = [&](const char* name, int extent) {
    program::Buffer block = b;
    block.name = segment_.name + name;
    block.extent = extent;
    return builder_.buffer(std::move(block));
  };
  ring_.keys = declare(".ring_keys", ring_.blocks);
  ring_.parts = declare(".ring_gradients", ring_.blocks);
  ring_.came = declare(".ring_received", 1);
  if (stage_.recipe.statistic != stage_.recipe.activation) {
    b.type = stage_.recipe.statistic;
    b.elements = {op.n * op.rows * stage_.samples};
    ring_.sum = declare(".ring_sum", 1);
  }
  const auto event = [&](const char* name, int extent = 1) {
    return builder_.event(segment_.name + name, extent);
  };
  ring_.may = event(".ring_may");
  ring_.arrived = event(".ring_arrived", 2);
  ring_.used = event(".ring_used");
  ring_.added = event(".ring_added");
  ring_.returned = event(".ring_returned");
  ring_.transfer = builder_.transfer(
      over_context(program::Collective::send, program::Algorithm::ring));
  for (int s = 0; s < steps; ++s) ring_.steps.push_back(builder_.op(step_of(op, s, steps)));
}

View SegmentEmitter::ring_keys(int step) const {
  return constant_view(ring_.keys, (step - 1) % ring_.blocks);
}

EventRef SegmentEmitter::ring_arrived(int step) const {
  return {.event = ring_.arrived, .instance = static_cast<std::uint16_t>((step - 1) % 2)};
}

void SegmentEmitter::ring_shift(View from, View into, std::vector<Wait> waits, EventRef signal) {
  builder_.emit({.kind = ActionKind::collective, .stream = Stream::context, .args = {from, into},
                 .op = ring_.transfer, .waits = std::move(waits), .signal = &signal});
}

// The block of step `step` comes; the first is what the rank before has in its rows of qkv. Its
// buffer was read two steps before: in backward the gradients of that step, which this stream sent,
// have waited for it.
void SegmentEmitter::pass_keys(int step, View qkv, bool backward) {
  std::vector<Wait> waits;
  if (step == 1) waits = {{single_event(ring_.may), false}};
  if (step > 2 && !backward) waits = {{single_event(ring_.used), false}};
  ring_shift(step == 1 ? ClassBuilder::whole(qkv) : ring_keys(step - 1), ring_keys(step),
             std::move(waits), ring_arrived(step));
}

void SegmentEmitter::start_ring(View qkv, bool backward) {
  if (ring_.sum != program::kNone) builder_.alloc(constant_view(ring_.sum));
  for (int i = 0; i < ring_.blocks; ++i) builder_.alloc(constant_view(ring_.keys, i));
  for (int i = 0; i < ring_.blocks && backward; ++i)
    builder_.alloc(constant_view(ring_.parts, i));
  if (backward) builder_.alloc(constant_view(ring_.came));
  const EventRef may = single_event(ring_.may);
  builder_.fence(Stream::compute, {}, &may);
  pass_keys(1, qkv, backward);
}

void SegmentEmitter::end_ring(bool backward) {
  if (backward) builder_.free(constant_view(ring_.came));
  for (int i = 0; i < ring_.blocks && backward; ++i)
    builder_.free(constant_view(ring_.parts, i));
  for (int i = 0; i < ring_.blocks; ++i) builder_.free(constant_view(ring_.keys, i));
  if (ring_.sum != program::kNone) builder_.free(constant_view(ring_.sum));
}

SegmentEmitter::Given SegmentEmitter::ring_sum() const {
  if (ring_.sum == program::kNone) return {};
  return {{"sum", constant_view(ring_.sum)}};
}

Emit SegmentEmitter::ring_step(int step, Kernel kernel, const Given& given) const {
  const std::uint16_t op = ring_.steps[static_cast<std::size_t>(step)];
  return {.kind = program::kind_of(kernel),
          .args = arguments(builder_.target().operators[op], kernel, given),
          .op = op};
}

void SegmentEmitter::ring_forward(const Op& op) {
  const View qkv = tensor_view(op.inputs[0]);
  const auto steps = static_cast<int>(ring_.steps.size());
  const EventRef used = single_event(ring_.used);
  start_ring(qkv, false);
  for (int s = 0; s < steps; ++s) {
    if (s > 0 && s + 1 < steps) pass_keys(s + 1, qkv, false);
    Given given = ring_sum();
    if (s > 0) given.emplace_back("keys", ring_keys(s));
    Emit e = ring_step(s, Kernel::forward, given);
    if (s > 0) {
      e.waits = {{ring_arrived(s), false}};
      e.signal = &used;
    }
    builder_.emit(e);
  }
  end_ring(false);
}

void SegmentEmitter::ring_backward(const Op& op, View dy, View d_qkv) {
  const View qkv = tensor_view(op.inputs[0]), came = constant_view(ring_.came);
  const auto steps = static_cast<int>(ring_.steps.size());
  const EventRef used = single_event(ring_.used), added = single_event(ring_.added),
                 returned = single_event(ring_.returned);
  const auto gradient = [&](int step, const Given& keys) {
    Given given = ring_sum();
    given.insert(given.end(), {{"d_out", dy}, {"d_qkv", d_qkv}});
    given.insert(given.end(), keys.begin(), keys.end());
    return ring_step(step, Kernel::input_gradient, given);
  };
  start_ring(qkv, true);
  for (int s = 1; s < steps; ++s) {
    if (s + 1 < steps) pass_keys(s + 1, qkv, true);
    const View part = constant_view(ring_.parts, (s - 1) % ring_.blocks);
    Emit e = gradient(s, {{"d_keys", part}, {"keys", ring_keys(s)}});
    e.waits = {{ring_arrived(s), false}};
    e.signal = &used;
    builder_.emit(e);
    if (s > 1)
      builder_.emit({.kind = ActionKind::accumulate, .args = {came, part},
                     .waits = {{returned, false}}, .signal = &added});
    ring_shift(part, came, {{s > 1 ? added : used, false}}, returned);
  }
  builder_.emit(gradient(0, {}));
  builder_.emit({.kind = ActionKind::accumulate, .args = {came, d_qkv},
                 .op = ring_.steps.front(), .waits = {{returned, false}}});
  end_ring(true);
}

}  // namespace planner::lowering
