#include "planner/lowering/segment_emitter.hpp"

#include <algorithm>
#include <utility>

#include "core/check.hpp"

namespace planner::lowering {

using models::OpKind;
using models::TensorIndex;
using models::TensorRole;

SegmentEmitter::SegmentEmitter(ClassBuilder& builder, const Stage& stage,
                               const models::Segment& segment, SegmentKind kind,
                               const std::vector<ParameterPlace>& places,
                               const StateBuffers& state, int slots, int extent)
    : builder_(builder), stage_(stage), segment_(segment), kind_(kind), places_(places),
      state_(state), order_(models::topological_order(segment)),
      splits_(stage.split_backward() && kind == SegmentKind::layer), slots_(slots),
      extent_(extent), copies_(segment.tensors.size(), program::kNone) {
  roots_.resize(segment.tensors.size());
  for (std::size_t t = 0; t < roots_.size(); ++t) {
    roots_[t] = t;
    while (segment.tensors[roots_[t]].in_place_of >= 0)
      roots_[t] = static_cast<std::size_t>(segment.tensors[roots_[t]].in_place_of);
  }
  find_kept();
  find_f8();
  find_dropped();
  find_chunked();
  declare_buffers(slots, extent);
  declare_decoded();
  declare_context();
  declare_shared_keys();
  for (std::size_t i = 0; i < order_.size(); ++i) op_index_.push_back(builder_.op(operator_at(i)));
  declare_halved();
}

bool is_loss(const models::Operator& op) {
  return models::ops::index_in(models::ops::schema(op.kind).beside, "loss") >= 0;
}

void SegmentEmitter::find_kept() {
  kept_.assign(roots_.size(), false);
  produced_.assign(roots_.size(), false);
  for (auto v : order_) {
    const Op& op = segment_.graph[v];
    // What a loss keeps is its own gradient by then; its storage is the gradient's.
    for (TensorIndex t : op.saved)
      if (!is_loss(op)) kept_[root_of(t)] = true;
    for (TensorIndex t : op.outputs) produced_[root_of(t)] = true;
    saved_.push_back(op.saved);
  }
  keep_gathered_inputs();
}

void SegmentEmitter::declare_buffers(int slots, int extent) {
  buffers_.assign(roots_.size(), program::kNone);
  d_buffers_.assign(roots_.size(), program::kNone);
  part_buffers_.assign(roots_.size(), program::kNone);
  const std::string prefix = segment_.name + ".";
  for (std::size_t t = 0; t < roots_.size(); ++t) {
    if (roots_[t] != t) continue;
    const models::Tensor& tensor = segment_.tensors[t];
    const bool is_input = segment_.input >= 0 && root_of(segment_.input) == t;
    const bool is_output = segment_.output >= 0 && root_of(segment_.output) == t;
    if (is_output || (is_input && kind_ != SegmentKind::prologue)) continue;  // boundary's
    program::Buffer b;
    b.name = prefix + tensor.name;
    const bool logits =
        tensor.role == TensorRole::logits || tensor.role == TensorRole::logits_bytes;
    const bool sent = tensor.role == TensorRole::sent || tensor.role == TensorRole::sums;
    b.term = logits ? program::Term::logits
             : sent ? program::Term::communication
                    : program::Term::activations;
    b.type = type_of(tensor);
    const std::int64_t parts = chunked_[t] ? chunks_ : 1;
    b.elements = {parts > 1 ? (tensor.per_sample + parts - 1) / parts * stage_.samples
                            : elements_of(tensor)};
    b.extent = extent;
    b.slots = slots;
    buffers_[t] = builder_.buffer(std::move(b));
  }
}

core::DType SegmentEmitter::type_of(const models::Tensor& tensor) const {
  switch (tensor.role) {
    case TensorRole::statistic: return stage_.recipe.statistic;
    case TensorRole::sums: return core::DType::f64;
    case TensorRole::tokens: return core::DType::i32;
    case TensorRole::mask:
    case TensorRole::bytes:
    case TensorRole::logits_bytes: return core::DType::u8;
    default: return stage_.recipe.activation;
  }
}

std::int64_t SegmentEmitter::elements_of(const models::Tensor& tensor) const {
  return tensor.per_sample * (tensor.role == TensorRole::sums ? 1 : stage_.samples);
}

View SegmentEmitter::tensor_view(TensorIndex t) const {
  const std::size_t root = root_of(t);
  if (buffers_[root] == program::kNone) {
    const bool is_output = segment_.output >= 0 && root_of(segment_.output) == root;
    return is_output ? boundary_.output : boundary_.input;
  }
  return kind_ == SegmentKind::layer ? layer_view(buffers_[root]) : constant_view(buffers_[root]);
}

// The unit's copy in a call of its layer, which counts further groups of units behind the layers.
View SegmentEmitter::unit_view(std::uint16_t buffer, const ParameterPlace& at) const {
  if (kind_ != SegmentKind::layer) return constant_view(buffer, at.unit);
  return layer_view(buffer, at.unit_shift);
}

View SegmentEmitter::flat_view(std::uint16_t buffer, const ParameterPlace& at,
                               std::int64_t elements) const {
  View view = constant_view(buffer);
  view.layer_shift = static_cast<std::int16_t>(at.unit_shift);
  const bool layer = kind_ == SegmentKind::layer;
  return ranged(view, layer ? program::Range::layer_parameters : program::Range::fixed, at.offset,
                elements);
}

View SegmentEmitter::weight_view(models::ParameterIndex p) const {
  const ParameterPlace& at = places_[static_cast<std::size_t>(p)];
  const std::int64_t n = segment_.parameters[static_cast<std::size_t>(p)].elements;
  if (at.quantised) return decoded_view(p);
  if (!at.trained) return frozen_view(at, n);
  if (stage_.materialises())
    return ranged(unit_view(at.f8 ? state_.unit_f8 : state_.unit_weights, at),
                  program::Range::fixed, at.unit_offset, n);
  return flat_view(at.f8 ? state_.f8 : state_.weights, at, n);
}

View SegmentEmitter::frozen_view(const ParameterPlace& at, std::int64_t elements) const {
  const bool layer = kind_ == SegmentKind::layer;
  using program::Range;
  if (stage_.sharded_weights())
    return ranged(unit_view(state_.unit_frozen, at), Range::fixed, at.unit_offset, elements);
  return ranged(constant_view(state_.frozen), layer ? Range::frozen_layer_parameters : Range::fixed,
                at.offset, elements);
}

View SegmentEmitter::gradient_view(models::ParameterIndex p) const {
  const ParameterPlace& at = places_[static_cast<std::size_t>(p)];
  const std::int64_t n = segment_.parameters[static_cast<std::size_t>(p)].elements;
  PLANNER_CHECK(at.trained, "gradient of a frozen parameter");
  if (stage_.sharded_gradients())
    return ranged(unit_view(state_.unit_gradients, at), program::Range::fixed, at.unit_offset, n);
  return flat_view(state_.gradients, at, n);
}

// Operators to run. recompute: those whose results backward reads, and what these read in turn.
std::vector<bool> SegmentEmitter::select(ForwardMode mode) const {
  std::vector<bool> selected(order_.size(), true);
  std::fill(selected.begin() + static_cast<std::ptrdiff_t>(head_), selected.end(), false);
  if (mode != ForwardMode::recompute) return selected;
  std::vector<bool> wanted = kept_;
  if (segment_.input >= 0) wanted[root_of(segment_.input)] = false;
  // A kept output is still there: it is the boundary that the next segment was computed from.
  if (segment_.output >= 0) wanted[root_of(segment_.output)] = false;
  for (std::size_t i = order_.size(); i-- > 0;) {
    const Op& op = segment_.graph[order_[i]];
    selected[i] =
        std::ranges::any_of(op.outputs, [&](TensorIndex t) { return wanted[root_of(t)]; });
    if (selected[i])
      for (TensorIndex t : op.inputs) wanted[root_of(t)] = true;
  }
  return selected;
}

void SegmentEmitter::load(TensorIndex t) {
  using program::Input;
  const models::Tensor& tensor = segment_.tensors[static_cast<std::size_t>(t)];
  const bool tokens = tensor.role == TensorRole::tokens;
  const bool epilogue = kind_ == SegmentKind::epilogue;
  const Input input = epilogue ? (tokens ? Input::targets : Input::feature_targets)
                      : !tokens                ? Input::features
                      : t == segment_.input    ? Input::tokens
                      : segment_.shares_gradients
                          ? Input::types
                          : Input::targets;  // further inputs of a graph stand behind the first
  builder_.emit({.kind = ActionKind::load, .args = {ClassBuilder::whole(tensor_view(t))},
                 .op = program::Load{input, static_cast<int>(tensor.ahead)}.op()});
}

void SegmentEmitter::forward(ForwardMode mode, const Boundary& boundary) {
  boundary_ = boundary;
  const std::vector<bool> selected = select(mode);
  const bool keep = mode != ForwardMode::drop;
  const std::size_t input = segment_.input >= 0 ? root_of(segment_.input) : roots_.size();
  const bool loads_input = kind_ == SegmentKind::prologue && segment_.input >= 0;

  std::vector<std::size_t> last(roots_.size(), 0);
  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (!selected[i]) continue;
    const Op& op = segment_.graph[order_[i]];
    for (TensorIndex t : op.inputs) last[root_of(t)] = i;
    for (TensorIndex t : op.outputs) last[root_of(t)] = i;
  }
  // Roots by the operator that uses them last: those of one in their order.
  const std::size_t none = roots_.size();
  std::vector<std::size_t> first_of(order_.size(), none), next_of(roots_.size(), none);
  for (std::size_t r = roots_.size(); !order_.empty() && r-- > 0;)
    next_of[r] = std::exchange(first_of[last[r]], r);
  std::vector<bool> alive(roots_.size(), false);
  if (input < roots_.size() && !loads_input) alive[input] = true;
  const auto make_alive = [&](TensorIndex t) {
    if (alive[root_of(t)]) return;
    alive[root_of(t)] = true;
    builder_.alloc(tensor_view(t));
    if (!produced_[root_of(t)]) load(t);
  };
  if (order_.empty() && loads_input) make_alive(segment_.input);  // a chain's features

  for (std::size_t i = 0; i < order_.size(); ++i) {
    if (!selected[i]) continue;
    const Op& op = segment_.graph[order_[i]];
    for (TensorIndex t : op.inputs) make_alive(t);
    for (TensorIndex t : op.outputs) make_alive(t);
    emit_forward(op);
    for (std::size_t r = first_of[i]; r != none; r = next_of[r]) {
      if (!alive[r]) continue;
      const bool is_output = segment_.output >= 0 && root_of(segment_.output) == r;
      const bool is_boundary_input = r == input && !loads_input;
      const bool held = keep && kept_[r] && !dropped_[r];
      // Recomputed for what else its operator writes, an output that nothing reads goes at once.
      const bool passed_on = is_output && (mode != ForwardMode::recompute || kept_[r]);
      if (passed_on || held || (is_boundary_input && !boundary_.free_input)) continue;
      alive[r] = false;
      builder_.free(tensor_view(static_cast<TensorIndex>(r)));
    }
  }
}

void SegmentEmitter::emit_reduction(const Op& op, View view) {
  program::Transfer t =
      over(program::Group::tensor, program::Collective::all_reduce, program::Algorithm::ring,
           op.loss_traffic ? program::Traffic::loss : program::Traffic::tensor,
           builder_.target().buffers[view.buffer].type);
  t.reduce = op.reduce_max ? program::ReduceOp::max : program::ReduceOp::sum;
  t.overlapped = stage_.strategy->tp_overlap && !op.loss_traffic;
  builder_.emit({.kind = ActionKind::collective, .args = {view}, .op = builder_.transfer(t)});
}

// One data rank's sums are all that there are.
void SegmentEmitter::emit_data_reduction(View sums) {
  if (stage_.strategy->data_ranks() == 1) return;
  const program::Transfer t =
      over(program::Group::data, program::Collective::all_reduce, program::Algorithm::ring,
           program::Traffic::statistics, core::DType::f64);
  builder_.emit({.kind = ActionKind::collective, .args = {sums}, .op = builder_.transfer(t)});
}

void SegmentEmitter::emit_forward(const Op& op, std::uint16_t instead) {
  if (op.kind == OpKind::tensor_copy) return;  // identity forward
  if (op.kind == OpKind::tensor_reduce) return emit_reduction(op, tensor_view(op.inputs[0]));
  if (op.kind == OpKind::data_reduce) return emit_data_reduction(tensor_view(op.inputs[0]));
  if (op.kind == OpKind::sequence_gather)
    return emit_rows(program::Collective::all_gather, tensor_view(op.inputs[0]),
                     tensor_view(op.outputs[0]));
  if (op.kind == OpKind::sequence_scatter)
    return emit_rows(program::Collective::reduce_scatter, tensor_view(op.outputs[0]),
                     tensor_view(op.inputs[0]));
  if (op.kind == OpKind::expert_exchange)
    return emit_exchange(tensor_view(op.inputs[0]), tensor_view(op.outputs[0]),
                         goes_to_experts(op));
  if (moves_between_splits(op))
    return emit_move(op, tensor_view(op.inputs[0]), tensor_view(op.outputs[0]), true);
  const bool crosses = op.kind == OpKind::cut_send || op.kind == OpKind::cut_receive ||
                       op.kind == OpKind::cut_sent;
  if (crosses) return forward_cut(op);
  if (op.kind == OpKind::head_exchange || op.kind == OpKind::row_exchange)
    return emit_heads(op, tensor_view(op.inputs[0]), tensor_view(op.outputs[0]), true);
  if (op.kind == OpKind::key_gather)
    return emit_shared_keys(tensor_view(op.inputs[0]), tensor_view(op.outputs[0]), op, true);
  if (op.kind == OpKind::attention && !ring_.steps.empty()) return ring_forward(op);
  decode(op);
  if (op.kind == OpKind::attention) gather_keys(tensor_view(op.inputs[0]));
  Given given;
  if (is_loss(op)) given.emplace_back("loss", constant_view(state_.loss));
  if (op.kind == OpKind::attention && keys_ != program::kNone)
    given.emplace_back("keys", constant_view(keys_));
  const TensorIndex copy = restores_ ? copy_read_again(op) : models::kNoTensor;
  if (copy != models::kNoTensor) given.emplace_back("x", tensor_view(copy));
  if (instead != program::kNone) given.emplace_back("half", kept_half(op));
  const std::uint16_t index = instead != program::kNone ? instead : index_of(op);
  if (in_f8(op)) return forward_in_f8(op, index, std::move(given));
  builder_.emit({.kind = ActionKind::forward,
                 .args = arguments(op, models::ops::Kernel::forward, given),
                 .op = index});
  if (op.kind == OpKind::attention && keys_ != program::kNone)
    builder_.free(constant_view(keys_));
  release_decoded(op);
}

std::vector<std::uint16_t> SegmentEmitter::kept_buffers() const {
  std::vector<std::uint16_t> kept;
  for (std::size_t r = 0; r < roots_.size(); ++r) {
    if (!kept_[r] || dropped_[r] || buffers_[r] == program::kNone) continue;
    if (builder_.target().buffers[buffers_[r]].term == program::Term::activations)
      kept.push_back(buffers_[r]);
  }
  return kept;
}

bool SegmentEmitter::trains() const {
  return std::ranges::any_of(segment_.parameters, [](const auto& p) { return p.trainable; });
}

}  // namespace planner::lowering
