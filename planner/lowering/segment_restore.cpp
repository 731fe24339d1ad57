// What a layer keeps for its backward pass, less what it makes again there: each dropped tensor
// just before the first backward operator that reads it, with what it takes to make it.
//
// checkpoint=selective [korthikanti2022]: the attention core keeps q, k and v alone; its output and
// log-sum-exp (scores, where a kind stores them) are dropped. Sequence parallelism does the same
// with gathered rows, always: each rank keeps its own.
//
// checkpoint=selective_op [torchtitan]: a layer keeps what its attention core reads and makes, and
// half of what its activation reads (every second product), in a tensor of its own that the
// activation writes; norms, the other half, the activation
// and, where no collective made it, the residual stream between its branches are made again, all at
// once, before the first backward operator that reads one of them, as torch's checkpoints do.
//
// checkpoint=pointwise [deepseekv3, 3.2.3]: a layer keeps what its products read and make, less
// what norms and activations make.
//
// checkpoint=modules: less what the operators of the modules make (models/modules.hpp).
#include <algorithm>

#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

using models::OpKind;
using models::TensorIndex;

bool SegmentEmitter::feeds_activation(const Op& op) const {
  const auto reads = [&](auto v) {
    const Op& reader = segment_.graph[v];
    return models::ops::is_activation(reader.kind) &&
           root_of(reader.inputs[0]) == root_of(op.outputs[0]);
  };
  return op.kind == OpKind::linear && std::ranges::any_of(order_, reads);
}

// The sum between the branches, and the product that it adds to the input.
bool SegmentEmitter::makes_middle(const Op& op) const {
  if (stage_.strategy->tensor > 1 || op.outputs.empty()) return false;
  return root_of(op.outputs[0]) != root_of(segment_.output) && is_added(op);
}

// A norm behind a branch [olmo2]: the addition to the residual stream takes its result's place, so
// that to make it again would be to make the sum again.
bool SegmentEmitter::is_added(const Op& op) const {
  const auto adds = [&](auto v) {
    const Op& sum = segment_.graph[v];
    return sum.kind == OpKind::add && root_of(sum.outputs[0]) == root_of(op.outputs[0]);
  };
  return std::ranges::any_of(order_, adds);
}

// Whether what the operator makes is dropped by the forward pass, and made with the others again.
bool SegmentEmitter::is_core(const Op& op) const {
  const Checkpoint checkpoint = stage_.strategy->checkpoint;
  const bool norm = op.kind == OpKind::layer_norm || op.kind == OpKind::rms_norm;
  const bool added = norm && is_added(op);
  if (checkpoint == Checkpoint::selective_op)
    return (norm && !added) || op.kind == OpKind::sequence_gather ||
           models::ops::is_activation(op.kind) ||
           feeds_activation(op) || makes_middle(op);
  if (op.kind == OpKind::sequence_gather) return checkpoint != Checkpoint::selective;
  return !added && (op.modules & stage_.strategy->made_again()) != 0;
}

// Whether core operators alone write the storage; what passes it on writes nothing.
bool SegmentEmitter::makes_alone(std::size_t root) const {
  return std::ranges::all_of(order_, [&](auto v) {
    const Op& op = segment_.graph[v];
    const bool writes = std::ranges::any_of(
        op.outputs, [&](TensorIndex t) { return root_of(t) == root; });
    return !writes || op.kind == OpKind::tensor_copy || is_core(op);
  });
}

void SegmentEmitter::find_dropped() {
  dropped_.assign(roots_.size(), false);
  restored_.assign(roots_.size(), false);
  if (!stage_.training() || kind_ != SegmentKind::layer) return;
  const Checkpoint checkpoint = stage_.strategy->checkpoint;
  for (auto v : order_) {
    const Op& op = segment_.graph[v];
    const bool drops = op.kind == OpKind::sequence_gather ||
                       (drops_within_layers(checkpoint) && is_core(op));
    if (!drops) continue;
    for (TensorIndex t : op.outputs) {
      const bool rows = op.kind == OpKind::sequence_gather && t != op.outputs.front();
      if (rows) continue;  // codes of a rank's own rows, from which all are gathered again
      const bool half = checkpoint == Checkpoint::selective_op &&
                        models::ops::is_activation(op.kind) &&
                        segment_.tensors[static_cast<std::size_t>(t)].role ==
                            models::TensorRole::bytes;
      const bool boundary = (segment_.input >= 0 && root_of(t) == root_of(segment_.input)) ||
                            (segment_.output >= 0 && root_of(t) == root_of(segment_.output));
      const bool whole = checkpoint != Checkpoint::modules || makes_alone(root_of(t));
      dropped_[root_of(t)] = kept_[root_of(t)] && !half && !boundary && whole;
    }
  }
  if (checkpoint == Checkpoint::modules) keep_what_is_read_again();
}

// What core operators read to make dropped tensors again, dropped itself or not, stays until the
// first of them has had its backward pass.
void SegmentEmitter::keep_what_is_read_again() {
  const std::vector<bool> selected = select_core(dropped_);
  std::vector<bool> made(roots_.size(), false);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (!selected[i]) continue;
    const Op& op = segment_.graph[order_[i]];
    if (copy_read_again(op) != models::kNoTensor) continue;  // kept for its own backward pass
    for (TensorIndex t : op.inputs) {
      const std::size_t r = root_of(t);
      if (made[r] && !dropped_[r]) continue;
      kept_[r] = true;
      if (std::ranges::count(saved_[i], t) == 0) saved_[i].push_back(t);
    }
    for (TensorIndex t : op.outputs) made[root_of(t)] = true;
  }
}

bool SegmentEmitter::by_need() const {
  return stage_.strategy->checkpoint != Checkpoint::selective_op;
}

TensorIndex SegmentEmitter::copy_read_again(const Op& op) const {
  if (!models::ops::is_gated(op.kind) || op.saved.empty()) return models::kNoTensor;
  return op.saved[0] == op.inputs[0] ? models::kNoTensor : op.saved[0];
}

void SegmentEmitter::restore_for(std::size_t position) {
  for (TensorIndex t : saved_[position]) {
    const std::size_t r = root_of(t);
    if (!dropped_[r] || restored_[r]) continue;
    if (by_need() && is_deferred(segment_.graph[order_[position]]) && gather_to_come(t) != nullptr)
      continue;                        // for the weight gradients
    const auto makes = [&](auto v) {
      return std::ranges::count(segment_.graph[v].outputs, static_cast<TensorIndex>(r)) > 0;
    };
    const Op& producer = segment_.graph[*std::ranges::find_if(order_, makes)];
    if (is_core(producer)) {
      std::vector<bool> wanted(roots_.size(), false);
      wanted[r] = true;
      restore_core(by_need() ? std::move(wanted) : dropped_);
      continue;
    }
    restored_[r] = true;
    builder_.alloc(tensor_view(t));
    restore_rows(producer, t);
  }
}

// What a rank keeps of the rows that it gathers: its own, or a narrow copy of them.
TensorIndex SegmentEmitter::own_rows(const Op& gather) {
  return gather.saved.empty() ? gather.inputs[0] : gather.saved.front();
}

// Gathers the rows that a product reads again. The transfer may overlap the product's own backward
// pass.
void SegmentEmitter::restore_rows(const Op& gather, TensorIndex all) {
  emit_rows(program::Collective::all_gather, tensor_view(own_rows(gather)), tensor_view(all),
            product_of(gather));
}

// The product before an activation, of which selective_op keeps half: the latter columns.
void SegmentEmitter::declare_halved() {
  for (auto v : order_) {
    const models::Operator& whole = segment_.graph[v];
    const bool halves = stage_.strategy->checkpoint == Checkpoint::selective_op &&
                        kind_ == SegmentKind::layer && feeds_activation(whole) &&
                        whole.n % 2 == 0;
    halved_.push_back(program::kNone);
    if (!halves) continue;
    models::Operator half = whole;
    half.n /= 2;
    halved_.back() = builder_.op(std::move(half));
  }
}

// What the activation that reads the operator's product kept of it.
View SegmentEmitter::kept_half(const Op& op) const {
  const auto reads = [&](auto v) {
    const Op& reader = segment_.graph[v];
    return !reader.inputs.empty() && root_of(reader.inputs[0]) == root_of(op.outputs[0]);
  };
  return tensor_view(segment_.graph[*std::ranges::find_if(order_, reads)].outputs.back());
}

// Core operators that make what is wanted, and what these read in turn, but for what is there.
std::vector<bool> SegmentEmitter::select_core(std::vector<bool> wanted) const {
  std::vector<bool> selected(order_.size(), false);
  for (std::size_t i = order_.size(); i-- > 0;) {
    const Op& op = segment_.graph[order_[i]];
    if (!is_core(op)) continue;
    selected[i] = std::ranges::any_of(op.outputs, [&](TensorIndex t) {
      return wanted[root_of(t)] && !restored_[root_of(t)];
    });
    if (!selected[i]) continue;
    if (copy_read_again(op) != models::kNoTensor) continue;
    for (TensorIndex t : op.inputs) wanted[root_of(t)] = true;
  }
  return selected;
}

void SegmentEmitter::restore_core(std::vector<bool> wanted) {
  const std::vector<bool> selected = select_core(std::move(wanted));
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
      const bool there = kept_[root_of(t)] && !dropped_[root_of(t)];
      if (restored_[root_of(t)] || there) continue;
      made[root_of(t)] = restored_[root_of(t)] = true;
      builder_.alloc(tensor_view(t));
    }
    restores_ = true;
    if (op.kind == OpKind::sequence_gather && by_need()) restore_rows(op, op.outputs[0]);
    else emit_forward(op, halved_[i]);
    restores_ = false;
    for (std::size_t r = 0; r < roots_.size(); ++r)
      if (made[r] && !dropped_[r] && last[r] == i) {
        restored_[r] = false;
        builder_.free(tensor_view(static_cast<TensorIndex>(r)));
      }
  }
}

}  // namespace planner::lowering
