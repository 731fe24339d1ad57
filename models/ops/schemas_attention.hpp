#pragma once
// Schemas of attention and of what makes queries, keys and values ready for it. Included by
// schemas.hpp.

#include "models/ops/op_kind.hpp"
#include "models/ops/schema.hpp"

namespace models::ops {

// ---- attention: softmax(scale q k^T) v, scale 1 / sqrt(d) unless the operator says another.
// Queries see keys up to their own place (causal), of a window the last so many, of chunks those of
// their own chunk. soft_cap: scores become cap tanh(score / cap) [gemma2]. sinks[heads]: a logit of
// each head that takes part in the softmax and has no value [gpt-oss]. Values may be narrower than
// queries and keys [deepseekv2].

constexpr Schema attends(std::string_view beside, std::string_view input_gradient,
                         std::string_view parameters = {}) {
  return {.kind = OpKind::attention,
          .inputs = "qkv", .parameters = parameters, .outputs = "out lse probabilities?",
          .beside = beside,
          .keeps = "qkv out lse probabilities?",
          .input_gradient = input_gradient,
          .gradient = Gradient::attention,
          .divides = kSample | kRow | kHead,
          .work = {.by = WorkOf::attention}};
}
// Where context ranks divide the rows, `keys` are the keys and values of all of them, in ascending
// positions, [samples, keys, (k, v)]. The input gradient overwrites them with what this rank adds
// to their gradients. A kind that stores its scores keeps `probabilities`, [samples, heads, rows,
// keys].
inline constexpr Schema attention =
    attends("<- keys?", "d_out qkv out lse probabilities? sinks? -> d_qkv keys? d_sinks?",
            "sinks?");
// The steps of a ring: keys come block by block. The first step finds its own keys in qkv. `sum`
// collects the queries' results, and in backward their gradients, in the statistics' type; where
// activations have that type, out and d_qkv serve as the sum. The last step writes out.
inline constexpr Schema ring_own =
    attends("-> sum?", "d_out qkv out lse probabilities? -> d_qkv sum?");
// The other steps merge the block of another rank. The gradients of its keys are summed as a ring's
// reduce-scatter does.
inline constexpr Schema ring_block =
    attends("-> sum? <- keys", "d_out qkv out lse probabilities? -> d_qkv sum? d_keys <- keys");

// Rotates q and k of qkv by position; backward turns the gradient back. A pair (a, b) becomes
// (a cos - b sin, a sin + b cos): 6 operations for two elements.
inline constexpr Schema rope{
    .kind = OpKind::rope,
    .inputs = "qkv", .outputs = "y copies?",
    .keeps = "copies?",
    .input_gradient = "d_y!",
    .in_place = "y=qkv",
    .gradient = Gradient::turns, .divides = kSample | kRow | kHead,
    .work = {.by = WorkOf::pointwise, .flops_forward = 3, .flops_backward = 3,
             .moved_forward = 2, .moved_backward = 2}};

// Of latent attention [deepseekv2]: a row of queries, keys and values of `heads` heads, from the
// queries q[rows, heads (rotated, plain)], kv[rows, heads (plain, value)] and the rotated part of
// the keys, k_rope[rows, rotated], which all heads share. Turning is left to rope.
inline constexpr Schema latent_join{
    .kind = OpKind::latent_join,
    .inputs = "q kv k_rope", .outputs = "qkv",
    .input_gradient = "d_qkv -> d_q d_kv d_k_rope",
    .gradient = Gradient::joint, .divides = kSample | kRow | kHead,
    .work = {.by = WorkOf::pointwise, .flops_backward = 1, .moved_forward = 2,
             .moved_backward = 2}};

}  // namespace models::ops
