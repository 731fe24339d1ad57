#include "sim/cost/launches.hpp"

#include <algorithm>

namespace cost {
namespace {

using models::OpKind;
using models::Operator;

// A sum over rows is made in strips, which a second kernel adds up.
constexpr std::int64_t kColumnSums = 2;

// Whether its parameters are trained.
bool trains(const Operator& op) { return op.flops_weight_gradient.value() > 0; }
std::int64_t activations(const Operator& op) {
  return op.activation == models::Activation::identity ? 0 : 1;
}

// Products of an expert's matrix: one of all experts of an origin where each has as many rows.
std::int64_t expert_products(const Operator& op) {
  const std::int64_t each = op.rows / op.origins;
  return op.origins * (each % op.groups == 0 ? 1 : std::min(op.groups, each));
}
std::int64_t biases(const Operator& op) { return op.parameters.size() > 1 ? 1 : 0; }

std::int64_t forward(const Operator& op) {
  switch (op.kind) {
    case OpKind::expert_linear: return expert_products(op) + biases(op);
    case OpKind::concat: return std::ssize(op.inputs);
    case OpKind::qk_norm: return 2;                 // the values pass by
    case OpKind::lora_up: return op.groups;
    case OpKind::dense: return 1 + activations(op);
    case OpKind::cross_entropy: return 2;           // gradients of the logits; the loss
    default: return 1;
  }
}

std::int64_t input_gradient(const Operator& op) {
  switch (op.kind) {
    case OpKind::layer_norm:
    case OpKind::rms_norm: return trains(op) ? 2 : 1;  // strips of the sums come with the rows
    case OpKind::qk_norm: return trains(op) ? 2 + 2 * kColumnSums : 2;
    case OpKind::width_norm: return trains(op) ? 1 + 2 * kColumnSums : 1;
    case OpKind::expert_linear: return expert_products(op);
    case OpKind::concat: return std::ssize(op.inputs);
    case OpKind::lora_up: return 2 * op.groups;
    case OpKind::attention:                         // sinks; a sum of each row; queries; keys
      return (op.parameters.empty() || !trains(op) ? 0 : 1) + 3;
    default: return 1;
  }
}

std::int64_t weight_gradient(const Operator& op) {
  switch (op.kind) {
    case OpKind::token_embedding:
    case OpKind::type_embedding: return 3;          // order of the rows; pieces; their sums
    case OpKind::expert_linear: return expert_products(op) + biases(op);
    case OpKind::linear: return op.parameters.size() > 1 ? 1 + kColumnSums : 1;
    case OpKind::dense: return 1 + kColumnSums + activations(op);
    case OpKind::bias_add: return kColumnSums;
    default: return 1;
  }
}

}  // namespace

std::int64_t launches(const Operator& op, program::ActionKind kind) {
  switch (kind) {
    case program::ActionKind::forward: return forward(op);
    case program::ActionKind::input_gradient: return input_gradient(op);
    case program::ActionKind::weight_gradient: return weight_gradient(op);
    default: return 1;
  }
}

bool has_kernels(const Operator& op) {
  switch (op.kind) {
    case OpKind::convolution:
    case OpKind::max_pool:
    case OpKind::average_pool:
    case OpKind::local_response_norm:
    case OpKind::dropout:
    case OpKind::cut_send:
    case OpKind::cut_receive:
    case OpKind::cut_sent:
    case OpKind::batch_norm:
    case OpKind::channel_sums:
    case OpKind::channel_norm:
    case OpKind::slice: return false;
    case OpKind::rope: return op.origins == 1;
    case OpKind::attention: {
      constexpr std::int64_t kWidest = 256, kMostSloped = 128;  // of heads, and with linear biases
      const bool stores = op.outputs.size() > 2;
      return std::max(op.head_dim, op.value_dim) <= kWidest && !stores && op.origins == 1 &&
             (!op.alibi || op.heads <= kMostSloped);
    }
    default: return true;
  }
}

bool meets_other_ranks(const Operator& op) {
  return op.ring_steps > 0 || op.keys != op.rows / op.origins;
}

bool asks_no_library(const Operator& op) {
  return meets_other_ranks(op) || op.chunk_keys > 0 || op.soft_cap != 0 || op.alibi;
}

bool on_vectors(const Operator& op) {
  constexpr std::int64_t kWidest = 128;  // heads of tensor_attention.cu
  return asks_no_library(op) && std::max(op.head_dim, op.value_dim) > kWidest;
}

static std::int64_t largest_divisor(std::int64_t of, std::int64_t at_most) {
  std::int64_t d = std::min(of, at_most);
  while (of % d != 0) --d;
  return d;
}

AttentionParts largest_parts(std::int64_t samples, std::int64_t kv_heads, std::int64_t at_most) {
  if (at_most >= kv_heads) return {largest_divisor(samples, at_most / kv_heads), kv_heads};
  return {1, largest_divisor(kv_heads, at_most)};
}

// How much more than 2 bytes the library keeps is not known: what is planned has a sixty-fourth and
// 2 MiB to spare.
BackwardCalls backward_calls(const Operator& op, std::int64_t samples, core::Bytes most) {
  constexpr std::int64_t kKeys = 128, kSpareShare = 64, kSpare = 2 << 20;
  const std::int64_t group = op.heads / op.kv_heads;
  const std::int64_t of_keys = 2 * op.rows * op.keys * group;
  const std::int64_t fit = (most.value() - 1) / of_keys;
  if (fit <= 0) return {};
  const AttentionParts part = largest_parts(samples, op.kv_heads, fit);
  const std::int64_t calls = samples / part.samples * (op.kv_heads / part.kv_heads);
  if (calls > kMostBackwardCalls) return {};
  const std::int64_t units = part.samples * part.kv_heads, taken = units * of_keys;
  return {calls, units * group * ((op.keys + kKeys - 1) / kKeys),
          std::min(most, core::Bytes(taken + taken / kSpareShare + kSpare))};
}

AttentionKernel attention_kernel(const Operator& op, bool forward, std::int64_t samples,
                                 const Machine& machine) {
  if (machine.attention_workspace.value() == 0) return {};
  if (asks_no_library(op)) return {.own = true};
  if (forward) return {};
  const BackwardCalls found = backward_calls(op, samples, machine.attention_workspace);
  return {.own = found.calls == 0, .blocks = found.blocks};
}

core::Bytes workspace_of(std::span<const Operator> operators, std::int64_t samples,
                         const AttentionRoom& room) {
  core::Bytes all = room.always;
  if (room.most <= room.always) return all;
  for (const Operator& op : operators) {
    const bool asks = op.kind == OpKind::attention && has_kernels(op) && !asks_no_library(op);
    if (asks) all = std::max(all, backward_calls(op, samples, room.most).workspace);
  }
  return all;
}

}  // namespace cost
