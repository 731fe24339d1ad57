// Sequence parallelism [korthikanti2022] in a segment: the residual stream holds this rank's rows;
// matrices divided over the tensor ranks read all rows, gathered, and their results are summed and
// scattered. What one direction gathers the other scatters.
#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

using models::OpKind;
using models::TensorIndex;

// Gathered rows that backward reads are gathered again, from rows that are kept.
void SegmentEmitter::keep_gathered_inputs() {
  if (!stage_.training() || kind_ != SegmentKind::layer) return;
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Op& op = segment_.graph[order_[i]];
    if (op.kind != OpKind::sequence_gather || !kept_[root_of(op.outputs[0])]) continue;
    if (!op.saved.empty()) continue;  // a narrow copy of them
    saved_[i].push_back(op.inputs[0]);
    kept_[root_of(op.inputs[0])] = true;
  }
}

std::uint16_t SegmentEmitter::product_of(const Op& gather, bool trains) const {
  for (std::size_t i = 0; i < order_.size(); ++i) {
    const Op& op = segment_.graph[order_[i]];
    if (op.kind != OpKind::linear || root_of(op.inputs[0]) != root_of(gather.outputs[0])) continue;
    if (!trains || trained(op.parameters[0])) return op_index_[i];
  }
  return program::kNone;
}

void SegmentEmitter::emit_rows(program::Collective collective, View rows, View all,
                               std::uint16_t beside) {
  program::Transfer t =
      over(program::Group::tensor, collective, program::Algorithm::ring,
           program::Traffic::sequence, builder_.target().buffers[all.buffer].type);
  t.overlapped = stage_.strategy->tp_overlap;
  t.beside = beside;
  builder_.emit({.kind = ActionKind::collective, .args = {rows, all}, .op = builder_.transfer(t)});
}

// Each rank has a part of the gradient of all rows; this rank's rows are summed.
void SegmentEmitter::backward_gather(const Op& op, int dy) {
  const TensorIndex x = op.inputs[0];
  if (!needs_gradient(x)) return consume(dy);
  const View all = view_of(dy);
  const std::uint16_t beside = product_of(op, true);
  const int existing = storage_of(x);
  if (existing < 0) {
    bool accumulate = false;
    const int dx = gradient_target(x, &accumulate);
    emit_rows(program::Collective::reduce_scatter, view_of(dx), all, beside);
    return consume(dy);
  }
  // Apart from what is there, which may have the buffer of x's gradient.
  const auto at = static_cast<std::size_t>(x);
  const bool taken = view_of(existing).buffer == d_buffers_[at];
  View rows;
  if (taken) {
    rows = gradient_buffer(part_buffers_[at], x, ".part_d_");
    builder_.alloc(rows);
  } else {
    rows = view_of(new_storage(x));
  }
  emit_rows(program::Collective::reduce_scatter, rows, all, beside);
  builder_.emit({.kind = ActionKind::accumulate, .args = {rows, view_of(existing)}});
  builder_.free(rows);
  consume(dy);
}

void SegmentEmitter::backward_scatter(const Op& op, int dy) {
  const TensorIndex x = op.inputs[0];
  if (!needs_gradient(x)) return consume(dy);
  bool accumulate = false;
  const int dx = gradient_target(x, &accumulate);
  PLANNER_CHECK(!accumulate, "scattered rows have one reader");
  emit_rows(program::Collective::all_gather, view_of(dy), view_of(dx));
  consume(dy);
}

}  // namespace planner::lowering
