// Backward half of SegmentEmitter.
#include <algorithm>

#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"

namespace planner::lowering {

using models::OpKind;
using models::TensorIndex;
using models::ops::Gradient;
using models::ops::Kernel;

// A tensor needs a gradient when something trained lies before it.
void SegmentEmitter::find_needs_gradient(bool input_needs) {
  needs_gradient_.assign(roots_.size(), false);
  if (segment_.input >= 0 && kind_ != SegmentKind::prologue)
    needs_gradient_[static_cast<std::size_t>(segment_.input)] = input_needs;
  for (auto v : order_) {
    const Op& op = segment_.graph[v];
    // What another part made, some trained operator there made.
    const bool needs = op.kind == OpKind::cut_receive ||
                       std::ranges::any_of(op.parameters, [&](auto p) { return trained(p); }) ||
                       std::ranges::any_of(op.inputs, [&](auto t) { return needs_gradient(t); });
    for (TensorIndex t : op.outputs) {
      const auto& tensor = segment_.tensors[static_cast<std::size_t>(t)];
      needs_gradient_[static_cast<std::size_t>(t)] =
          needs && tensor.role != models::TensorRole::tokens &&
          tensor.role != models::TensorRole::mask;
    }
  }
}

static Gradient gradient_of(const models::Operator& op) {
  return models::ops::schema(op.kind).gradient;
}

// Whether the gradient of t becomes the gradient of the segment's input: along a residual stream,
// by additions (first input) and identities.
bool SegmentEmitter::leads_to_input(TensorIndex t) const {
  if (!segment_.shares_gradients) return t == segment_.input;
  for (auto at = order_.rbegin(); at != order_.rend() && t != segment_.input; ++at) {
    const Op& op = segment_.graph[*at];
    const Gradient rule = gradient_of(op);
    const bool hands_on = rule == Gradient::sum || rule == Gradient::passes;
    if (hands_on && op.outputs[0] == t) t = op.inputs[0];
  }
  return t == segment_.input;
}

bool SegmentEmitter::gradient_in_place() const {
  return !order_.empty() && leads_to_input(segment_.output);
}

// Gradients of a split layer may have to wait for its weight gradients.
View SegmentEmitter::gradient_buffer(std::uint16_t& buffer, TensorIndex t, const char* prefix) {
  if (buffer == program::kNone) {
    const models::Tensor& tensor = segment_.tensors[static_cast<std::size_t>(t)];
    program::Buffer b;
    b.name = segment_.name + prefix + tensor.name;
    const bool sums = tensor.role == models::TensorRole::sums;
    b.term = sums || gradient_is_sent(t) ? program::Term::communication
                                         : program::Term::activations;
    const bool statistic = sums || tensor.role == models::TensorRole::statistic;
    b.type = statistic ? type_of(tensor) : stage_.recipe.activation;
    b.elements = {elements_of(tensor)};
    b.extent = splits_ ? extent_ : 1;
    b.slots = splits_ ? slots_ : 1;
    buffer = builder_.buffer(std::move(b));
  }
  return splits_ ? layer_view(buffer) : constant_view(buffer);
}

int SegmentEmitter::new_storage(TensorIndex t) {
  View view;
  if (!input_gradient_placed_ && leads_to_input(t)) {
    view = boundary_.d_input;
    input_gradient_placed_ = true;
  } else {
    view = gradient_buffer(d_buffers_[static_cast<std::size_t>(t)], t, ".d_");
  }
  builder_.alloc(view);
  storages_.push_back({view, 0});
  return static_cast<int>(storages_.size()) - 1;
}

void SegmentEmitter::alias_gradient(TensorIndex t, int storage) {
  gradient_of_[static_cast<std::size_t>(t)] = storage;
  ++storages_[static_cast<std::size_t>(storage)].pending;
}

int SegmentEmitter::gradient_target(TensorIndex t, bool* accumulate) {
  const int existing = storage_of(t);
  *accumulate = existing >= 0;
  if (existing >= 0) {
    PLANNER_CHECK(storages_[static_cast<std::size_t>(existing)].pending == 1,
                  "a gradient would be overwritten before all its readers ran");
    return existing;
  }
  alias_gradient(t, new_storage(t));
  return storage_of(t);
}

// One reader of the storage is done; the last one frees it, unless it now is the input's gradient.
void SegmentEmitter::consume(int storage) {
  GradientStorage& s = storages_[static_cast<std::size_t>(storage)];
  if (--s.pending == 0) builder_.free(s.view);
}

// Products: weight gradient first, so that the kept input can go before the input's gradient comes.
void SegmentEmitter::backward_gemm(const Op& op, int dy) {
  const View d = view_of(dy);
  const TensorIndex x = op.inputs[0];
  const bool later = is_deferred(op);
  const bool handed_over = later && defer(op, dy);
  const bool trains_now = trained(op.parameters[0]) && !later;
  const F8Gradient f8 = cast_gradient(op, d, trains_now, needs_gradient(x));
  if (trains_now && f8.by_columns.buffer != program::kNone) {
    weight_gradient_in_f8(op, d, f8.by_columns);
  } else if (trains_now) {
    Given given{{"d_y", d}};
    // The derivative of the identity reads nothing, and its output is not kept.
    if (op.kind == OpKind::dense && op.activation == models::Activation::identity)
      given.emplace_back("y", d);
    emit_backward(Kernel::weight_gradient, op, given);
  }
  free_kept_after_backward(position_of(op));
  if (needs_gradient(x)) {
    bool accumulate = false;
    const int dx = gradient_target(x, &accumulate);
    if (f8.by_rows.buffer != program::kNone) {
      input_gradient_in_f8(op, f8.by_rows, view_of(dx), accumulate);
    } else {
      decode(op);
      emit_backward(Kernel::input_gradient, op, {{"d_y", d}, {"d_x", view_of(dx)}}, accumulate);
      release_decoded(op);
    }
  }
  if (!handed_over) consume(dy);
}

// dy is the gradient of both inputs; where one has some already, dy is added to it.
void SegmentEmitter::backward_add(const Op& op, int dy) {
  for (TensorIndex t : op.inputs) {
    if (!needs_gradient(t)) continue;
    if (storage_of(t) < 0) {
      alias_gradient(t, dy);
      continue;
    }
    builder_.emit(
        {.kind = ActionKind::accumulate, .args = {view_of(dy), view_of(storage_of(t))}});
  }
  consume(dy);
}

// The gradient of the output is the input's; where the input has one already, it is added.
void SegmentEmitter::backward_identity(const Op& op, int dy) {
  const TensorIndex x = op.inputs[0];
  if (!needs_gradient(x)) return consume(dy);
  if (storage_of(x) < 0) {
    alias_gradient(x, dy);
  } else {
    bool accumulate = false;
    const int dx = gradient_target(x, &accumulate);
    builder_.emit({.kind = ActionKind::accumulate, .args = {view_of(dy), view_of(dx)}});
  }
  consume(dy);
}

void SegmentEmitter::backward_transfer(const Op& op, int dy) {
  switch (op.kind) {
    case OpKind::sequence_gather: return backward_gather(op, dy);
    case OpKind::sequence_scatter: return backward_scatter(op, dy);
    case OpKind::expert_exchange: return backward_exchange(op, dy);
    case OpKind::head_exchange:
    case OpKind::row_exchange: return backward_heads(op, dy);
    case OpKind::key_gather: return backward_shared_keys(op, dy);
    case OpKind::sample_gather:
    case OpKind::sample_scatter:
    case OpKind::to_columns:
    case OpKind::to_samples: return backward_move(op, dy);
    default: PLANNER_CHECK(false, "a transfer without a counterpart: " + op.name);
  }
}

void SegmentEmitter::backward_attention(const Op& op, int dy) {
  const TensorIndex x = op.inputs[0];
  bool accumulate = false;
  const int dx = gradient_target(x, &accumulate);
  PLANNER_CHECK(!accumulate, "attention overwrites its input's gradient");
  const View d_out = view_of(dy), d_qkv = view_of(dx);
  if (!ring_.steps.empty()) {
    ring_backward(op, d_out, d_qkv);
    return consume(dy);
  }
  Given given{{"d_out", d_out}, {"d_qkv", d_qkv}};
  if (keys_ != program::kNone) given.emplace_back("keys", constant_view(keys_));
  gather_keys(tensor_view(x));
  emit_backward(Kernel::input_gradient, op, given);
  scatter_keys(d_qkv);
  consume(dy);
}

void SegmentEmitter::backward_adapter(const Op& op, int dy) {
  bool accumulate = false;
  const int du = gradient_target(op.inputs[1], &accumulate);
  emit_backward(Kernel::input_gradient, op, {{"d_y", view_of(dy)}, {"d_u", view_of(du)}},
                accumulate);
  if (needs_gradient(op.inputs[0])) alias_gradient(op.inputs[0], dy);
  consume(dy);
}

// The rule is the schema's.
void SegmentEmitter::backward_operator(const Op& op) {
  if (op.kind == OpKind::cut_send) return backward_cut_send(op);
  if (op.kind == OpKind::cut_receive) return backward_cut_receive(op);
  const int dy = op.outputs.empty() ? -1 : storage_of(op.outputs[0]);
  if (dy < 0) return;
  const models::ops::Schema& schema = models::ops::schema(op.kind);
  const Given d_y{{"d_y", view_of(dy)}};
  const auto weight_gradient = [&] {
    if (!schema.weight_gradient.empty() && trained(op.parameters[0]))
      emit_backward(Kernel::weight_gradient, op, d_y);
  };
  switch (schema.gradient) {
    case Gradient::none: return;
    case Gradient::transfer: return backward_transfer(op, dy);
    case Gradient::product: return backward_gemm(op, dy);
    case Gradient::sum:
      return segment_.shares_gradients ? backward_add(op, dy) : backward_sum(op, dy);
    case Gradient::passes:  // of f the gradients of the ranks' parts add up
      if (op.kind == OpKind::tensor_copy) emit_reduction(op, view_of(dy));
      if (op.kind == OpKind::data_reduce && needs_gradient(op.inputs[0]))
        emit_data_reduction(view_of(dy));
      [[fallthrough]];
    case Gradient::embeds:
      weight_gradient();
      return backward_identity(op, dy);
    case Gradient::turns:
      emit_backward(Kernel::input_gradient, op, d_y);
      return backward_identity(op, dy);
    case Gradient::lookup:
      weight_gradient();
      return consume(dy);
    case Gradient::joint: return backward_joint(op, dy);
    case Gradient::elementwise: return backward_elementwise(op, dy);
    case Gradient::attention: return backward_attention(op, dy);
    case Gradient::adapter: return backward_adapter(op, dy);
  }
}

// From the last operator to the first. GEMMs free between their two halves, unless nothing reads
// what they made.
void SegmentEmitter::backward_operators(std::size_t end) {
  for (std::size_t i = end; i-- > 0;) {
    const Op& op = segment_.graph[order_[i]];
    const bool frees_itself =
        gradient_of(op) == Gradient::product && storage_of(op.outputs[0]) >= 0;
    restore_for(i);
    backward_operator(op);
    if (!frees_itself) free_kept_after_backward(i);
  }
  finish_cut();
}

// Frees the kept tensors whose last backward reader stands at this position (the first forward
// operator that keeps them).
void SegmentEmitter::free_kept_after_backward(std::size_t position) {
  for (TensorIndex t : saved_[position]) {
    const std::size_t r = root_of(t);
    if (!kept_[r] || read_later(r)) continue;
    const auto reads = [&](const std::vector<TensorIndex>& saved) {
      return std::ranges::any_of(saved, [&](TensorIndex s) { return root_of(s) == r; });
    };
    const auto first = std::ranges::find_if(saved_, reads) - saved_.begin();
    if (static_cast<std::size_t>(first) != position) continue;
    const bool is_input = kind_ != SegmentKind::prologue && segment_.input >= 0 &&
                          root_of(segment_.input) == r;
    const bool is_output = segment_.output >= 0 && root_of(segment_.output) == r;
    if ((is_input && !boundary_.free_input) || (is_output && !boundary_.free_output)) continue;
    builder_.free(tensor_view(t));
  }
}

void SegmentEmitter::start_backward(const Boundary& boundary) {
  boundary_ = boundary;
  find_needs_gradient(boundary.input_needs_gradient);
  gradient_of_.assign(roots_.size(), -1);
  storages_.clear();
  deferred_.clear();
  restored_.assign(roots_.size(), false);
  input_gradient_placed_ = false;
}

void SegmentEmitter::backward(const Boundary& boundary) {
  start_backward(boundary);
  if (segment_.output >= 0) {
    storages_.push_back({boundary_.d_output, 0});
    alias_gradient(segment_.output, 0);
    input_gradient_placed_ = gradient_in_place();
  }
  backward_operators(order_.size());
}

void SegmentEmitter::forward_and_backward(Boundary boundary) {
  PLANNER_CHECK(!order_.empty() && is_loss(segment_.graph[order_.back()]),
                "an epilogue without a loss has no backward");
  if (is_chunked()) return forward_and_backward_in_chunks(boundary);
  const Op& loss = segment_.graph[order_.back()];
  const bool in_input = root_of(loss.inputs[0]) == root_of(segment_.input);
  if (in_input) {
    // The loss overwrites what it reads: give it a copy, which then is the gradient.
    builder_.alloc(boundary.d_input);
    builder_.emit({.kind = ActionKind::cast, .args = {boundary.input, boundary.d_input}});
    if (boundary.free_input) builder_.free(boundary.input);
    boundary.input = boundary.d_input;
    boundary.free_input = false;
    forward(ForwardMode::keep, boundary);
    return;
  }
  forward_of_losses(boundary);
  start_backward_of_losses(boundary);
  backward_operators(order_.size());
}

// Losses before the head that is taken in chunks: all, but for that head's. Their logits become
// their gradients, which forward must not free.
std::vector<TensorIndex> SegmentEmitter::whole_logits() const {
  std::vector<TensorIndex> all;
  for (std::size_t i = 0; i < head_; ++i) {
    const Op& op = segment_.graph[order_[i]];
    if (is_loss(op)) all.push_back(op.inputs[0]);
  }
  return all;
}

void SegmentEmitter::forward_of_losses(const Boundary& boundary) {
  for (const TensorIndex logits : whole_logits()) kept_[root_of(logits)] = true;
  forward(ForwardMode::keep, boundary);
  for (const TensorIndex logits : whole_logits()) kept_[root_of(logits)] = false;
}

void SegmentEmitter::start_backward_of_losses(const Boundary& boundary) {
  start_backward(boundary);
  for (const TensorIndex logits : whole_logits()) {
    storages_.push_back({tensor_view(logits), 0});
    alias_gradient(logits, static_cast<int>(storages_.size()) - 1);
  }
}

}  // namespace planner::lowering
