// Backward of operators with one action for all gradients, and of arbitrary graphs, where readers
// of a tensor come in any order: every gradient there has storage of its own, which each reader
// adds to.
#include <algorithm>

#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"
#include "sim/program/arguments.hpp"

namespace planner::lowering {

using models::TensorIndex;
using models::ops::Argument;
using models::ops::Kernel;
using models::ops::Signature;
using models::ops::Source;

// Inputs whose gradients the operator's one backward action makes, and what its schema calls those.
std::vector<SegmentEmitter::Target> SegmentEmitter::joint_targets(const Op& op) const {
  std::vector<Target> targets;
  const Signature& made = models::ops::signature(program::schema_of(op), Kernel::input_gradient);
  for (const Argument& a : made.all()) {
    if (a.source != Source::gradient_of_input) continue;
    const std::size_t end = a.many ? op.inputs.size() : a.index + std::size_t{1};
    for (std::size_t i = a.index; i < end; ++i)
      if (!a.optional || needs_gradient(op.inputs[i]))
        targets.push_back({a.name, op.inputs[i], a.many});
  }
  return targets;
}

// One action makes the gradients of the inputs and of the parameters. All of the inputs' are
// written, or all are added to: where an action would do both, the latter are written apart and
// added after it. A gradient that the kernel makes and nobody needs is dropped after it; of a join
// it is written apart, too.
void SegmentEmitter::backward_joint(const Op& op, int dy) {
  const std::vector<Target> targets = joint_targets(op);
  const auto has = [&](const Target& to) { return storage_of(to.input) >= 0; };
  const auto wanted = [&](const Target& to) { return to.joins || needs_gradient(to.input); };
  if (std::ranges::none_of(targets, wanted) &&
      std::ranges::none_of(op.parameters, [&](auto p) { return trained(p); }))
    return consume(dy);
  const bool accumulate = !targets.empty() && std::ranges::all_of(targets, has);
  const models::ops::Schema& schema = models::ops::schema(op.kind);
  std::string_view outputs = schema.outputs;
  const std::string d_result = "d_" + std::string(models::ops::next_word(outputs));
  Given given{{d_result, view_of(dy)}};
  std::vector<std::pair<View, TensorIndex>> apart;  // what is written, and what it is added to
  std::vector<int> dropped;
  for (const Target& to : targets) {
    const bool needed = needs_gradient(to.input);
    if ((!needed && to.joins) || (has(to) && !accumulate)) {
      std::uint16_t& part = part_buffers_[static_cast<std::size_t>(to.input)];
      apart.emplace_back(gradient_buffer(part, to.input, ".part_d_"), to.input);
      builder_.alloc(apart.back().first);
      given.emplace_back(to.name, apart.back().first);
      continue;
    }
    bool adds = false;
    const int dx = gradient_target(to.input, &adds);
    given.emplace_back(to.name, view_of(dx));
    if (!needed) dropped.push_back(dx);
  }
  emit_backward(Kernel::input_gradient, op, given, accumulate);
  for (const auto& [from, x] : apart) {
    if (needs_gradient(x))
      builder_.emit({.kind = ActionKind::accumulate, .args = {from, view_of(storage_of(x))}});
    builder_.free(from);
  }
  for (const int dx : dropped) consume(dx);
  consume(dy);
}

// The gradient of the input takes the place of the result's where nothing else needs either.
void SegmentEmitter::backward_elementwise(const Op& op, int dy) {
  const TensorIndex x = op.inputs[0];
  if (!needs_gradient(x)) return consume(dy);
  const GradientStorage& s = storages_[static_cast<std::size_t>(dy)];
  const View d = s.view;
  const bool in_place = s.pending == 1 && storage_of(x) < 0 && x != segment_.input;
  bool accumulate = false;
  if (in_place) alias_gradient(x, dy);
  const int dx = in_place ? dy : gradient_target(x, &accumulate);
  emit_backward(Kernel::input_gradient, op, {{"d_y", d}, {"d_x", view_of(dx)}}, accumulate);
  consume(dy);
}

// An addition: one input takes dy over, the other gets a copy, since either may be added to before
// the other is read.
void SegmentEmitter::backward_sum(const Op& op, int dy) {
  const View d = view_of(dy);
  bool taken = false;
  for (TensorIndex t : op.inputs) {
    if (!needs_gradient(t)) continue;
    const int there = storage_of(t);
    if (there < 0 && !taken && t != segment_.input) {
      alias_gradient(t, dy);
      taken = true;
      continue;
    }
    if (there < 0) alias_gradient(t, new_storage(t));
    const View into = view_of(storage_of(t));
    builder_.emit({.kind = there < 0 ? ActionKind::cast : ActionKind::accumulate,
                   .args = {d, into}});
  }
  consume(dy);
}

}  // namespace planner::lowering
