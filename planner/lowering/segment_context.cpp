// Context parallelism in a segment: a rank holds its rows of the sequence, and attention reads keys
// and values of all. They are gathered before the core and, in backward, before it again, where
// their gradients take their place, to be summed and scattered after it. Rings that pass them on in
// turn move the same bytes. Which rows a rank has: sim/program/sequence.hpp; the cost is that of an
// even division of the scores, which those runs of rows make.
#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

void SegmentEmitter::declare_context() {
  if (stage_.strategy->context == 1) return;
  for (auto v : order_) {
    const Op& op = segment_.graph[v];
    if (op.kind != models::OpKind::attention) continue;
    program::Buffer b;
    b.name = segment_.name + ".keys";
    b.term = program::Term::communication;
    b.type = stage_.recipe.activation;
    b.elements = {2 * op.kv_heads * op.head_dim * op.keys * stage_.samples};
    keys_ = builder_.buffer(std::move(b));
  }
}

void SegmentEmitter::emit_keys(program::Collective collective, View own) {
  program::Transfer t;
  t.collective = collective;
  t.algorithm = program::Algorithm::ring;
  t.what = program::Traffic::context;
  t.group = program::Group::context;
  t.wire_type = stage_.recipe.activation;
  builder_.emit({.kind = ActionKind::collective,
                 .args = {own, ClassBuilder::whole(constant_view(keys_))},
                 .op = builder_.transfer(t)});
}

void SegmentEmitter::gather_keys(View qkv) {
  if (keys_ == program::kNone) return;
  builder_.alloc(constant_view(keys_));
  emit_keys(program::Collective::all_gather, qkv);
}

void SegmentEmitter::scatter_keys(View d_qkv) {
  if (keys_ == program::kNone) return;
  emit_keys(program::Collective::reduce_scatter, d_qkv);
  builder_.free(constant_view(keys_));
}

}  // namespace planner::lowering
