#include "sim/program/access.hpp"

#include "core/check.hpp"

namespace program {
namespace {

using models::OpKind;

// All arguments from `first` on.
std::uint32_t from(std::size_t first, const Action& a) {
  const std::uint32_t all = a.arg_count >= 32 ? ~0u : (1u << a.arg_count) - 1;
  return first >= 32 ? 0 : all & ~((1u << first) - 1);
}

// Keys of another rank's block come last and are read alone.
std::uint32_t but_keys(const models::Operator& op, const Action& a, std::uint32_t writes) {
  return op.ring_step > 0 ? writes & ~(1u << (a.arg_count - 1u)) : writes;
}

std::uint32_t forward_writes(const models::Operator& op, const Action& a) {
  if (op.kind == OpKind::attention && op.ring_steps > 0) return but_keys(op, a, from(1, a));
  if (op.kind == OpKind::attention)    // keys of other ranks, behind the outputs, are read
    return ((1u << op.outputs.size()) - 1u) << 1u;
  const bool in_place = op.kind == OpKind::cross_entropy || op.kind == OpKind::squared_error;
  return from(op.inputs.size() + op.parameters.size(), a) | (in_place ? 1u : 0u);
}

std::uint32_t input_gradient_writes(const models::Operator& op, const Action& a) {
  switch (op.kind) {
    case OpKind::linear:
    case OpKind::dense:
    case OpKind::expert_linear:
    case OpKind::convolution:
    case OpKind::gelu: return from(2, a);
    case OpKind::layer_norm: return from(5, a);
    case OpKind::attention: return but_keys(op, a, from(2 + op.outputs.size(), a));
    case OpKind::lora_up: return from(3, a);
    case OpKind::rope: return from(0, a);
    default: return from(1 + op.saved.size() + op.parameters.size(), a);
  }
}

std::uint32_t weight_gradient_writes(OpKind kind, const Action& a) {
  switch (kind) {
    case OpKind::dense: return from(3, a) | 1u;  // dy becomes dz in place
    case OpKind::position_embedding:
    case OpKind::bias_add: return from(1, a);
    default: return from(2, a);
  }
}

}  // namespace

std::uint32_t written_args(const RankClass& k, const Action& a) {
  const bool has_operator = a.kind == ActionKind::forward || a.kind == ActionKind::input_gradient ||
                            a.kind == ActionKind::weight_gradient;
  PLANNER_CHECK(!has_operator || a.op < k.operators.size(), "a kernel names its operator");
  switch (a.kind) {
    case ActionKind::alloc:
    case ActionKind::free:
    case ActionKind::fence:
    case ActionKind::send:
    case ActionKind::push:
    case ActionKind::serve_pull: return 0;
    case ActionKind::load:
    case ActionKind::zero:
    case ActionKind::receive:
    case ActionKind::pull: return 1;
    case ActionKind::cast:
    case ActionKind::dequantise:
    case ActionKind::copy:
    case ActionKind::accumulate: return 2;
    case ActionKind::optimizer: return 1u | from(2, a);
    case ActionKind::collective:
      if (k.transfers[a.op].collective == Collective::reduce_scatter) return from(0, a);
      return from(a.arg_count - std::size_t{1}, a);
    case ActionKind::serve_push: return from(a.arg_count - std::size_t{1}, a);
    case ActionKind::forward: return forward_writes(k.operators[a.op], a);
    case ActionKind::input_gradient: return input_gradient_writes(k.operators[a.op], a);
    case ActionKind::weight_gradient: return weight_gradient_writes(k.operators[a.op].kind, a);
  }
  return 0;
}

bool adds_gradients(const Action& a) {
  return a.kind == ActionKind::weight_gradient || a.kind == ActionKind::input_gradient ||
         a.kind == ActionKind::accumulate;
}

}  // namespace program
