// Backward of operators without a rule of their own, and of arbitrary graphs, where readers of a
// tensor come in any order: every gradient there has storage of its own, added to by each reader.
#include <algorithm>

#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

using models::TensorIndex;

// One action makes the gradients of the inputs and of the parameters: {dy, saved..., parameters...,
// dx..., d_parameters...}. All are written, or all are added to: where an action would do both, the
// latter are written apart and added after it. A join has a dx of every input, so that its kernel
// knows which is which: one that nobody needs is written apart, too, and dropped.
void SegmentEmitter::backward_plain(const Op& op, int dy) {
  std::vector<View> args{storages_[static_cast<std::size_t>(dy)].view};
  for (TensorIndex t : op.saved) args.push_back(tensor_view(t));
  for (auto p : op.parameters) args.push_back(weight_view(p));
  const std::size_t reads = args.size();
  std::size_t wanted = 0, there = 0;
  const auto needed = [&](TensorIndex x) { return needs_gradient_[static_cast<std::size_t>(x)]; };
  const bool joins = op.kind == models::OpKind::concat;
  for (TensorIndex x : op.inputs) {
    if (!needed(x) && !joins) continue;
    ++wanted;
    there += storage_of(x) >= 0 ? 1 : 0;
  }
  const bool accumulate = there > 0 && there == wanted;
  std::vector<std::pair<View, TensorIndex>> apart;  // what is written, and what it is added to
  for (TensorIndex x : op.inputs) {
    if (!needed(x) && !joins) continue;
    if (!needed(x) || (storage_of(x) >= 0 && !accumulate)) {
      std::uint16_t& part = part_buffers_[static_cast<std::size_t>(x)];
      apart.emplace_back(gradient_buffer(part, x, ".part_d_"), x);
      builder_.alloc(apart.back().first);
      args.push_back(apart.back().first);
      continue;
    }
    bool adds = false;
    const int dx = gradient_target(x, &adds);
    args.push_back(storages_[static_cast<std::size_t>(dx)].view);
  }
  for (auto p : op.parameters)
    if (trained(p)) args.push_back(gradient_view(p));
  if (args.size() > reads)
    emit_backward(ActionKind::input_gradient, op, std::move(args), accumulate);
  for (const auto& [from, x] : apart) {
    if (needed(x))
      builder_.emit(
          {.kind = ActionKind::accumulate,
           .args = {from, storages_[static_cast<std::size_t>(storage_of(x))].view}});
    builder_.free(from);
  }
  consume(dy);
}

// {dy, what the operator keeps, dx}; dx takes dy's place where nothing else needs either.
void SegmentEmitter::backward_elementwise(const Op& op, int dy) {
  const TensorIndex x = op.inputs[0];
  if (!needs_gradient_[static_cast<std::size_t>(x)]) return consume(dy);
  const GradientStorage& s = storages_[static_cast<std::size_t>(dy)];
  const View d = s.view;
  const bool in_place = s.pending == 1 && storage_of(x) < 0 && x != segment_.input;
  bool accumulate = false;
  if (in_place) alias_gradient(x, dy);
  const int dx = in_place ? dy : gradient_target(x, &accumulate);
  emit_backward(ActionKind::input_gradient, op,
                {d, tensor_view(op.saved[0]), storages_[static_cast<std::size_t>(dx)].view},
                accumulate);
  consume(dy);
}

// An addition: one input takes dy over, the other gets a copy, since either may be added to before
// the other is read.
void SegmentEmitter::backward_sum(const Op& op, int dy) {
  const View d = storages_[static_cast<std::size_t>(dy)].view;
  bool taken = false;
  for (TensorIndex t : op.inputs) {
    if (!needs_gradient_[static_cast<std::size_t>(t)]) continue;
    const int there = storage_of(t);
    if (there < 0 && !taken && t != segment_.input) {
      alias_gradient(t, dy);
      taken = true;
      continue;
    }
    if (there < 0) alias_gradient(t, new_storage(t));
    const View into = storages_[static_cast<std::size_t>(storage_of(t))].view;
    builder_.emit({.kind = there < 0 ? ActionKind::cast : ActionKind::accumulate,
                   .args = {d, into}});
  }
  consume(dy);
}

}  // namespace planner::lowering
