// checkpoint=selective [korthikanti2022]: the attention core keeps q, k and v alone. What it makes
// (its output and log-sum-exp; scores, where a kind stores them) is dropped by the forward pass and
// made again, one layer at a time, when backward first asks for it. Sequence parallelism does the
// same with gathered rows, always: each rank keeps its own.
#include <algorithm>

#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

using models::OpKind;
using models::TensorIndex;

static bool is_attention_core(OpKind kind) { return kind == OpKind::attention; }

void SegmentEmitter::find_dropped() {
  dropped_.assign(roots_.size(), false);
  restored_.assign(roots_.size(), false);
  if (!stage_.training() || kind_ != SegmentKind::layer) return;
  const bool selective = stage_.strategy->checkpoint == Checkpoint::selective;
  for (auto v : order_) {
    const Op& op = segment_.graph[v];
    const bool drops = op.kind == OpKind::sequence_gather ||
                       (selective && is_attention_core(op.kind));
    if (!drops) continue;
    for (TensorIndex t : op.outputs) dropped_[root_of(t)] = kept_[root_of(t)];
  }
}

void SegmentEmitter::restore_for(std::size_t position) {
  for (TensorIndex t : saved_[position]) {
    const std::size_t r = root_of(t);
    if (!dropped_[r] || restored_[r]) continue;
    const auto makes = [&](auto v) {
      return std::ranges::count(segment_.graph[v].outputs, static_cast<TensorIndex>(r)) > 0;
    };
    const Op& producer = segment_.graph[*std::ranges::find_if(order_, makes)];
    if (is_attention_core(producer.kind)) {
      restore_core();
      continue;
    }
    restored_[r] = true;
    builder_.alloc(tensor_view(t));
    emit_forward(producer);
  }
}

// Core operators whose results backward reads, and what these read in turn.
std::vector<bool> SegmentEmitter::select_core() const {
  std::vector<bool> selected(order_.size(), false), wanted = dropped_;  // gathers are not core
  for (std::size_t i = order_.size(); i-- > 0;) {
    const Op& op = segment_.graph[order_[i]];
    if (!is_attention_core(op.kind)) continue;
    selected[i] =
        std::ranges::any_of(op.outputs, [&](TensorIndex t) { return wanted[root_of(t)]; });
    if (!selected[i]) continue;
    for (TensorIndex t : op.inputs) wanted[root_of(t)] = true;
  }
  return selected;
}

void SegmentEmitter::restore_core() {
  const std::vector<bool> selected = select_core();
  std::vector<std::size_t> last(roots_.size(), 0);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (!selected[i]) continue;
    for (TensorIndex t : segment_.graph[order_[i]].inputs) last[root_of(t)] = i;
    for (TensorIndex t : segment_.graph[order_[i]].outputs) last[root_of(t)] = i;
  }
  std::vector<bool> made(roots_.size(), false);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (!selected[i]) continue;
    const Op& op = segment_.graph[order_[i]];
    for (TensorIndex t : op.outputs) {
      if (made[root_of(t)]) continue;
      made[root_of(t)] = restored_[root_of(t)] = true;
      builder_.alloc(tensor_view(t));
    }
    emit_forward(op);
    for (std::size_t r = 0; r < roots_.size(); ++r)
      if (made[r] && !dropped_[r] && last[r] == i)
        builder_.free(tensor_view(static_cast<TensorIndex>(r)));
  }
}

}  // namespace planner::lowering
