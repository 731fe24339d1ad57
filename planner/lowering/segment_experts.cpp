// Expert parallelism in a segment [gshard]: each of the expert ranks holds some experts of a layer.
// Copies of tokens go to the ranks of their experts and come back, in backward their gradients: the
// exchange is its own counterpart. Routing is balanced, so every pair of ranks exchanges as much.
#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

using models::TensorIndex;

void SegmentEmitter::emit_exchange(View out, View in) {
  program::Transfer t =
      over(program::Group::expert, program::Collective::exchange, program::Algorithm::pairwise,
           program::Traffic::expert, builder_.target().buffers[in.buffer].type);
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
  emit_exchange(view_of(dy), view_of(dx));
  consume(dy);
}

}  // namespace planner::lowering
