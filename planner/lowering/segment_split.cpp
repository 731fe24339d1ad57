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

bool SegmentEmitter::read_later(std::size_t root, std::size_t from) const {
  return std::any_of(deferred_.begin() + static_cast<std::ptrdiff_t>(from), deferred_.end(),
                     [&](const Deferred& d) { return root_of(d.op->saved.front()) == root; });
}

void SegmentEmitter::weight_gradients() {
  for (std::size_t i = 0; i < deferred_.size(); ++i) {
    const auto& [op, dy] = deferred_[i];
    const models::TensorIndex x = op->saved.front();
    const std::size_t r = root_of(x);
    PLANNER_CHECK(kept_[r], "a weight gradient reads what was not kept");
    emit_backward(models::ops::Kernel::weight_gradient, *op, {{"d_y", dy}});
    builder_.free(dy);
    if (read_later(r, i + 1)) continue;
    if (r == root_of(segment_.input) && !boundary_.free_input) continue;
    builder_.free(tensor_view(x));
  }
}

}  // namespace planner::lowering
