// Context parallelism in a segment: a rank holds its rows of the sequence, and attention reads keys
// and values of all. context_method=gather: they are gathered before the core and, in backward,
// before it again, where their gradients take their place, to be summed and scattered after it.
// ring: segment_ring.cpp. exchange [ulysses]: the graph says where rows of all heads become all
// rows of some heads, and back; the core is that of one rank. Which rows a rank has:
// sim/program/sequence.hpp; the cost is that of an even division of the scores, which those runs of
// rows make.
#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

void SegmentEmitter::declare_context() {
  if (stage_.strategy->context == 1) return;
  for (auto v : order_) {
    const Op& op = segment_.graph[v];
    if (op.kind != models::OpKind::attention) continue;
    if (stage_.strategy->context_method == ContextMethod::ring) return declare_ring(op);
    if (op.keys == op.rows) return;    // exchange: heads are divided
    if (keys_ != program::kNone) return;  // of several, one at a time
    program::Buffer b;
    b.name = segment_.name + ".keys";
    b.term = program::Term::communication;
    b.type = stage_.recipe.activation;
    b.elements = {2 * op.kv_heads * op.head_dim * op.keys * stage_.samples};
    keys_ = builder_.buffer(std::move(b));
  }
}

program::Transfer SegmentEmitter::over_context(program::Collective collective,
                                               program::Algorithm algorithm) const {
  return over(program::Group::context, collective, algorithm, program::Traffic::context,
              stage_.recipe.activation);
}

void SegmentEmitter::emit_keys(program::Collective collective, View own) {
  const program::Transfer t = over_context(collective, program::Algorithm::ring);
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

// Rows to heads forward and heads to rows backward, or the other way round.
void SegmentEmitter::emit_heads(const Op& op, View from, View into, bool forward) {
  const bool qkv = op.kind == models::OpKind::head_exchange;
  program::Transfer t =
      over_context(program::Collective::exchange, program::Algorithm::pairwise);
  t.columns = op.heads * op.head_dim;
  t.key_columns = qkv ? op.kv_heads * op.head_dim : 0;
  t.to_heads = qkv == forward;
  builder_.emit({.kind = ActionKind::collective, .args = {from, into}, .op = builder_.transfer(t)});
}

void SegmentEmitter::backward_heads(const Op& op, int dy) {
  const models::TensorIndex x = op.inputs[0];
  bool accumulate = false;
  const int dx = gradient_target(x, &accumulate);
  PLANNER_CHECK(!accumulate, "exchanged heads have one reader");
  emit_heads(op, view_of(dy), view_of(dx), false);
  consume(dy);
}

}  // namespace planner::lowering
