// More tensor ranks than key heads: neighbouring ranks share a key head. Each rank makes an equal
// part of the columns of its keys and values. The parts of all ranks are gathered, and each rank
// takes those of its own head. In the backward pass each rank has a gradient of the whole head,
// from its own queries; these are summed and scattered. Weights and their gradients are divided
// like those of any other matrix.
#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

using program::Collective;

void SegmentEmitter::declare_shared_keys() {
  for (auto v : order_) {
    const Op& op = segment_.graph[v];
    if (op.kind != models::OpKind::key_gather || shared_keys_ != program::kNone) continue;
    program::Buffer b;
    b.name = segment_.name + ".shared_keys";
    b.term = program::Term::activations;
    b.type = stage_.recipe.activation;
    b.elements = {stage_.strategy->tensor * op.k * op.rows * stage_.samples};
    shared_keys_ = builder_.buffer(std::move(b));
  }
}

// narrow: with this rank's columns of keys and values. whole: with one head of each.
void SegmentEmitter::emit_shared_keys(View narrow, View whole, const Op& op, bool forward) {
  program::Transfer t =
      over(program::Group::tensor, forward ? Collective::all_gather : Collective::reduce_scatter,
           program::Algorithm::ring, program::Traffic::tensor, stage_.recipe.activation);
  t.columns = op.heads * op.head_dim;
  t.key_columns = op.k / 2;
  const View all = constant_view(shared_keys_);
  builder_.alloc(all);
  builder_.emit({.kind = ActionKind::collective,
                 .args = {forward ? narrow : whole, forward ? whole : narrow,
                          ClassBuilder::whole(all)},
                 .op = builder_.transfer(t)});
  builder_.free(all);
}

void SegmentEmitter::backward_shared_keys(const Op& op, int dy) {
  bool accumulate = false;
  const int dx = gradient_target(op.inputs[0], &accumulate);
  PLANNER_CHECK(!accumulate, "shared keys have one reader");
  emit_shared_keys(view_of(dx), view_of(dy), op, false);
  consume(dy);
}

}  // namespace planner::lowering
