// Expert parallelism in a segment [gshard]: each of the expert ranks holds some experts of a layer.
// Copies of tokens go to the ranks of their experts and come back, in backward their gradients: the
// exchange is its own counterpart. Routing is balanced, so every pair of ranks exchanges as much.
#include <algorithm>

#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

using models::TensorIndex;

// Whether its rows go from the tokens' rank to the experts', in the direction of the forward pass.
bool SegmentEmitter::goes_to_experts(const Op& exchange) const {
  return std::ranges::any_of(order_, [&](auto v) {
    const Op& op = segment_.graph[v];
    return op.kind == models::OpKind::dispatch &&
           root_of(op.outputs[0]) == root_of(exchange.inputs[0]);
  });
}

void SegmentEmitter::emit_exchange(View out, View in, bool to_experts) {
  program::Transfer t =
      over(program::Group::expert, program::Collective::exchange, program::Algorithm::pairwise,
           program::Traffic::expert, builder_.target().buffers[in.buffer].type);
  if (to_experts && stage_.policy.dispatch_f8) t.wire_type = core::DType::f8;
  t.overlapped = stage_.strategy->expert_overlap;
  t.once = stage_.strategy->expert_dispatch == ExpertDispatch::deepep;
  builder_.emit({.kind = ActionKind::collective, .args = {out, in}, .op = builder_.transfer(t)});
}

bool SegmentEmitter::gradient_is_sent(TensorIndex t) const {
  for (auto v : order_) {
    const Op& op = segment_.graph[v];
    if (op.kind == models::OpKind::expert_exchange && op.outputs[0] == t) return true;
  }
  return false;
}

void SegmentEmitter::backward_exchange(const Op& op, int dy) {
  const TensorIndex x = op.inputs[0];
  if (!needs_gradient(x)) return consume(dy);
  bool accumulate = false;
  const int dx = gradient_target(x, &accumulate);
  PLANNER_CHECK(!accumulate, "exchanged rows have one reader");
  emit_exchange(view_of(dy), view_of(dx), !goes_to_experts(op));
  consume(dy);
}

}  // namespace planner::lowering
