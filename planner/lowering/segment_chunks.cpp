// loss_chunks: the head and its loss, one chunk of the micro-batch's tokens after the other. A
// chunk is a run of rows, [i T / n, (i + 1) T / n) of T tokens: its logits are made, become their
// own gradient, give their part of the gradients of the head's weight and of its input, and go,
// before the next chunk's are made [liger]. So 1 / n of the logits are there at a time, for the
// input of the head beside its gradient.
//
// Everything of a chunk happens in the epilogue's one block, in the backward pass of its
// micro-batch: nothing is kept between passes, and the loss's scale (1 / tokens of the global
// batch) is in the gradient from the start, so gradients need no scaling afterwards. Chunks add to
// the weight's gradient in ascending order.
//
// Rows are gathered (sequence parallelism) before the first chunk, and the gradient of the input is
// reduced or scattered after the last; the reductions of the softmax are a chunk's.
#include <algorithm>

#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

using models::OpKind;
using models::TensorIndex;
using models::ops::Kernel;

void SegmentEmitter::find_chunked() {
  head_ = order_.size();
  chunked_.assign(roots_.size(), false);
  if (kind_ != SegmentKind::epilogue || !stage_.training()) return;
  chunks_ = stage_.strategy->loss_chunks;
  if (chunks_ == 1) return;
  const TensorIndex logits = segment_.graph[order_.back()].inputs[0];
  const auto makes_logits = [&](auto v) {
    const Op& op = segment_.graph[v];
    return op.kind == OpKind::linear && op.outputs[0] == logits;
  };
  head_ = static_cast<std::size_t>(std::ranges::find_if(order_, makes_logits) - order_.begin());
  PLANNER_CHECK(is_chunked(), "loss_chunks of a loss without a head");
  for (std::size_t i = head_; i < order_.size(); ++i)
    for (TensorIndex t : segment_.graph[order_[i]].outputs) chunked_[root_of(t)] = true;
}

// The operator, or its share of one chunk.
models::Operator SegmentEmitter::operator_at(std::size_t position) const {
  Op op = segment_.graph[order_[position]];
  if (position < head_) return op;
  PLANNER_CHECK(op.rows % chunks_ == 0, "chunks of unequally many tokens");
  const double share = 1.0 / static_cast<double>(chunks_);
  op.parts = chunks_;
  op.rows /= chunks_;
  op.flops_forward = op.flops_forward * share;
  op.flops_input_gradient = op.flops_input_gradient * share;
  op.flops_weight_gradient = op.flops_weight_gradient * share;
  op.elements_forward /= chunks_;
  op.elements_backward /= chunks_;
  return op;
}

View SegmentEmitter::chunk_view(TensorIndex t, View whole) const {
  const std::int64_t n = segment_.tensors[root_of(t)].per_sample / chunks_ * stage_.samples;
  return ranged(whole, program::Range::fixed, chunk_ * n, n);
}

// What the chunk under way reads of a tensor that is there whole.
View SegmentEmitter::input_view(TensorIndex t) const {
  const View whole = tensor_view(t);
  return chunk_ >= 0 && !chunked_[root_of(t)] ? chunk_view(t, whole) : whole;
}

void SegmentEmitter::emit_chunk(int dx) {
  const Op& head = segment_.graph[order_[head_]];
  const TensorIndex x = head.inputs[0], logits = head.outputs[0];
  for (std::size_t i = head_; i < order_.size(); ++i) {
    const Op& op = segment_.graph[order_[i]];
    for (TensorIndex t : op.outputs)
      if (root_of(t) == static_cast<std::size_t>(t)) builder_.alloc(tensor_view(t));
    emit_forward(op);
  }
  for (std::size_t r = 0; r < roots_.size(); ++r)
    if (chunked_[r] && roots_[r] == r && r != root_of(logits))
      builder_.free(tensor_view(static_cast<TensorIndex>(r)));
  const View d = tensor_view(logits);  // by now their own gradient
  if (trained(head.parameters[0])) emit_backward(Kernel::weight_gradient, head, {{"d_y", d}});
  if (dx >= 0) {
    decode(head);
    emit_backward(Kernel::input_gradient, head,
                  {{"d_y", d}, {"d_x", chunk_view(x, view_of(dx))}});
    release_decoded(head);
  }
  builder_.free(d);
}

// saved: for the head's weight gradient, as other operators' inputs are.
void SegmentEmitter::free_head_input(bool saved) {
  if (saved) return free_kept_after_backward(head_);
  const TensorIndex x = segment_.graph[order_[head_]].inputs[0];
  const bool is_boundary = segment_.input >= 0 && root_of(segment_.input) == root_of(x);
  if (!is_boundary || boundary_.free_input) builder_.free(tensor_view(x));
}

void SegmentEmitter::forward_and_backward_in_chunks(const Boundary& boundary) {
  const Op& head = segment_.graph[order_[head_]];
  const TensorIndex x = head.inputs[0], targets = segment_.graph[order_.back()].inputs.back();
  const bool saved = kept_[root_of(x)];
  kept_[root_of(x)] = true;            // for the chunks to come, trained or not
  forward_of_losses(boundary);         // of those before the head, whole
  kept_[root_of(x)] = saved;
  start_backward_of_losses(boundary);
  builder_.alloc(tensor_view(targets));
  load(targets);
  int dx = -1;
  if (needs_gradient(x)) {
    bool accumulate = false;
    dx = gradient_target(x, &accumulate);
    PLANNER_CHECK(!accumulate, "the head's input has one reader");
  }
  for (chunk_ = 0; chunk_ < chunks_; ++chunk_) emit_chunk(dx);
  chunk_ = -1;
  builder_.free(tensor_view(targets));
  free_head_input(saved);
  backward_operators(head_);
}

}  // namespace planner::lowering
