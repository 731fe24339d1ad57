#pragma once
// Schemas of mixtures of experts. Included by schemas.hpp.

#include "models/ops/op_kind.hpp"
#include "models/ops/schema.hpp"

namespace models::ops {

// ---- mixtures of experts

// gates of each row's k chosen experts; places: of its k copies among all, by expert. Gates are a
// softmax of the chosen logits, or by Operator::router: softmax over all, or sigmoid, of the chosen
// ones; divided by their sum or not; times a factor. All but the first read the logits again.
// Routing is balanced here (routing_window): a bias that only ranks experts, and groups that limit
// the choice [deepseekv3], change who is chosen and not how many rows an expert gets. They are not
// in the graph.
inline constexpr Schema top_k{
    .kind = OpKind::top_k,
    .inputs = "logits", .outputs = "gates places",
    .keeps = "gates places logits?",
    .input_gradient = "d_gates gates places logits? -> d_logits",
    .gradient = Gradient::joint, .divides = kSample | kRow,
    .work = {.by = WorkOf::routing}};

// y[rows k,n] = x's rows, by place
inline constexpr Schema dispatch{
    .kind = OpKind::dispatch,
    .inputs = "x places", .outputs = "y",
    .keeps = "places",
    .input_gradient = "d_y places -> d_x",
    .gradient = Gradient::joint, .divides = kSample | kRow | kOut,
    .work = {.by = WorkOf::dispatching}};

// y[rows,n] = sum over k of gate x, or of x alone where rows were weighed on their way in
inline constexpr Schema combine{
    .kind = OpKind::combine,
    .inputs = "x gates places", .outputs = "y",
    .keeps = "x gates places",
    .input_gradient = "d_y x gates places -> d_x d_gates",
    .gradient = Gradient::joint, .divides = kSample | kRow | kOut,
    .work = {.by = WorkOf::combining}};

// y[rows,n] = sigmoid(gate[row]) x: of a shared expert [qwen2-moe]; or gate[row] x: of what goes to
// a token's one expert [llama4]
inline constexpr Schema row_gate{
    .kind = OpKind::row_gate,
    .inputs = "x gate", .outputs = "y",
    .keeps = "x gate",
    .input_gradient = "d_y x gate -> d_x d_gate",
    .gradient = Gradient::joint, .divides = kSample | kRow | kOut,
    .work = {.by = WorkOf::pointwise, .flops_forward = 1, .flops_backward = 3,
             .moved_forward = 2, .moved_backward = 3}};

}  // namespace models::ops
