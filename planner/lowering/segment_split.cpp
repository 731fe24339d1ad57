// Split backward passes [zero-bubble]: linear operators make their input gradients at once and
// their weight gradients, which nothing waits for, in a later pass. Until then live the operator's
// input and the gradient of its output: in the storage it has where nobody else uses that any more,
// else (the residual stream, which earlier operators add to) in a copy. All else, whose weight
// gradients cost little, stays whole.
#include <algorithm>

#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

// Whether the storage itself waits; else a copy does.
bool SegmentEmitter::defer(const Op& op, int dy) {
  const GradientStorage& s = storages_[static_cast<std::size_t>(dy)];
  const bool borrowed = s.view.buffer == boundary_.d_input.buffer ||
                        s.view.buffer == boundary_.d_output.buffer;
  if (s.pending == 1 && !borrowed) {
    deferred_.push_back({&op, s.view});
    return true;
  }
  const models::TensorIndex y = op.outputs[0];
  const View copy = gradient_buffer(copies_[static_cast<std::size_t>(y)], y, ".kept_d_");
  builder_.alloc(copy);
  builder_.emit({.kind = ActionKind::cast, .args = {s.view, copy}});
  deferred_.push_back({&op, copy});
  return false;
}

bool SegmentEmitter::is_deferred(const Op& op) const {
  return splits_ && op.kind == models::OpKind::linear && trained(op.parameters[0]);
}

// The sequence parallel gather that makes t, where t is not there: dropped by the forward pass, and
// not gathered again so far.
const SegmentEmitter::Op* SegmentEmitter::gather_to_come(models::TensorIndex t) const {
  const std::size_t root = root_of(t);
  if (!dropped_[root] || restored_[root]) return nullptr;
  const auto makes = [&](auto v) {
    const Op& op = segment_.graph[v];
    return op.kind == models::OpKind::sequence_gather && root_of(op.outputs[0]) == root;
  };
  const auto found = std::ranges::find_if(order_, makes);
  return found == order_.end() ? nullptr : &segment_.graph[*found];
}

bool SegmentEmitter::read_later(std::size_t root, std::size_t from) const {
  return std::any_of(deferred_.begin() + static_cast<std::ptrdiff_t>(from), deferred_.end(),
                     [&](const Deferred& d) {
                       const models::TensorIndex x = d.op->saved.front();
                       const Op* const gather = gather_to_come(x);
                       return root_of(x) == root ||
                              (gather != nullptr && root_of(own_rows(*gather)) == root);
                     });
}

bool SegmentEmitter::is_boundary_input(std::size_t root) const {
  return root == root_of(segment_.input) && !boundary_.free_input;
}

// Rows that the input gradients did not read are gathered here, once for all products of them.
void SegmentEmitter::weight_gradients() {
  for (std::size_t i = 0; i < deferred_.size(); ++i) {
    const auto& [op, dy] = deferred_[i];
    const models::TensorIndex x = op->saved.front();
    const std::size_t r = root_of(x);
    PLANNER_CHECK(kept_[r], "a weight gradient reads what was not kept");
    if (const Op* const gather = gather_to_come(x)) {
      const models::TensorIndex rows = own_rows(*gather);
      restored_[r] = true;
      builder_.alloc(tensor_view(x));
      restore_rows(*gather, x);
      if (!read_later(root_of(rows), i) && !is_boundary_input(root_of(rows)))
        builder_.free(tensor_view(rows));
    }
    if (const F8Gradient f8 = cast_gradient(*op, dy, true, false); in_f8(*op))
      weight_gradient_in_f8(*op, dy, f8.by_columns);
    else
      emit_backward(models::ops::Kernel::weight_gradient, *op, {{"d_y", dy}});
    builder_.free(dy);
    if (!read_later(r, i + 1) && !is_boundary_input(r)) builder_.free(tensor_view(x));
  }
}

}  // namespace planner::lowering
