#pragma once
// The operators: a kind, its formula, and its schema (schema.hpp; README.md has the notation). All
// readers follow these declarations: the builders of graphs, the lowering, the checker, the costs,
// and the kernels of both backends. rows = samples x tokens; matrices are [out, in], row-major.

#include "models/ops/op_kind.hpp"
#include "models/ops/schema.hpp"
#include "models/ops/schemas_attention.hpp"
#include "models/ops/schemas_experts.hpp"
#include "models/ops/schemas_images.hpp"

namespace models::ops {

// ---- embeddings

// y[rows,h] = wte[token]; rows of another rank's part of the vocabulary are 0.
inline constexpr Schema token_embedding{
    .kind = OpKind::token_embedding,
    .inputs = "tokens", .parameters = "wte", .outputs = "y",
    .keeps = "tokens?",
    .weight_gradient = "d_y tokens -> d_wte",
    .gradient = Gradient::lookup, .divides = kSample | kRow | kOut | kVocabulary,
    .work = {.by = WorkOf::lookup}};

// y = x + wpe[position]
inline constexpr Schema position_embedding{
    .kind = OpKind::position_embedding,
    .inputs = "x", .parameters = "wpe", .outputs = "y",
    .weight_gradient = "d_y -> d_wpe",
    .in_place = "y=x",
    .gradient = Gradient::embeds, .divides = kSample | kRow | kOut,
    .work = {.by = WorkOf::table_rows}};

// y = x + wtt[type]
inline constexpr Schema type_embedding{
    .kind = OpKind::type_embedding,
    .inputs = "x types", .parameters = "wtt", .outputs = "y",
    .keeps = "types?",
    .weight_gradient = "d_y types -> d_wtt",
    .in_place = "y=x",
    .gradient = Gradient::embeds, .divides = kSample | kRow | kOut,
    .work = {.by = WorkOf::table_rows}};

// ---- norms

// y = (x - mean) rstd gamma + beta
inline constexpr Schema layer_norm{
    .kind = OpKind::layer_norm,
    .inputs = "x", .parameters = "gamma beta?", .outputs = "y mean rstd",
    .keeps = "x mean rstd",
    .input_gradient = "d_y x mean rstd gamma -> d_x d_gamma? d_beta?",
    .gradient = Gradient::joint, .divides = kSample | kRow,
    .work = {.by = WorkOf::layer_norm}};

// y = x rstd (offset + gamma): offset 0, or 1 [gemma]. `copies` are what a framework keeps of a
// norm made of several kernels.
inline constexpr Schema rms_norm{
    .kind = OpKind::rms_norm,
    .inputs = "x", .parameters = "gamma", .outputs = "y rstd copies?",
    .keeps = "x rstd copies?",
    .input_gradient = "d_y x rstd copies? gamma -> d_x d_gamma?",
    .gradient = Gradient::joint, .divides = kSample | kRow,
    .work = {.by = WorkOf::rms_norm}};

// Each head of q and of k by an RMS norm of its own, v as it is. Without gammas: by 1 [llama4].
inline constexpr Schema qk_norm{
    .kind = OpKind::qk_norm,
    .inputs = "qkv", .parameters = "q_gamma? k_gamma?", .outputs = "y rstd",
    .keeps = "qkv rstd",
    .input_gradient = "d_y qkv rstd q_gamma? k_gamma? -> d_qkv d_q_gamma? d_k_gamma?",
    .gradient = Gradient::joint, .divides = kSample | kRow | kHead,
    .work = {.by = WorkOf::head_norm}};

// Queries and keys by one RMS norm each over the whole width of their heads, of all tensor ranks
// together [olmo2]. Two operators, between which the ranks' sums are added: sums[rows, 2], of the
// squares of q and of k; then the norm, which leaves v as it is.
inline constexpr Schema square_sums{
    .kind = OpKind::square_sums,
    .inputs = "qkv", .outputs = "sums",
    .keeps = "qkv",
    .input_gradient = "d_sums qkv -> d_qkv",
    .gradient = Gradient::joint, .divides = kSample | kRow | kHead,
    .work = {.by = WorkOf::square_sums}};
inline constexpr Schema width_norm{
    .kind = OpKind::width_norm,
    .inputs = "qkv sums", .parameters = "q_gamma k_gamma", .outputs = "y",
    .keeps = "qkv sums",
    .input_gradient = "d_y qkv sums q_gamma k_gamma -> d_qkv d_sums d_q_gamma? d_k_gamma?",
    .gradient = Gradient::joint, .divides = kSample | kRow | kHead,
    .work = {.by = WorkOf::width_norm}};

// ---- products

// y = x W^T (+ b). Keeps x when W is trained; or the operator that makes x also makes a copy of it
// in fewer bits, and that copy is kept. A product of which half was kept makes the other half.
// Operands may be codes of 8 bits. Then d_b sums `summed`, which is d_y before its cast.
inline constexpr Schema linear{
    .kind = OpKind::linear,
    .inputs = "x", .parameters = "w b?", .outputs = "y", .beside = "<- half?",
    .beside_gradient = "summed?",
    .keeps = "x?",
    .input_gradient = "d_y w -> d_x",
    .weight_gradient = "d_y x summed? -> d_w d_b?",
    .gradient = Gradient::product, .divides = kSample | kRow | kOut | kIn,
    .work = {.by = WorkOf::product}};

// y = act(x W^T + b). The weight gradient comes first: it turns d_y into d_y act'(y) in place. Of
// the identity, which reads no y, d_y stands in its place.
inline constexpr Schema dense{
    .kind = OpKind::dense,
    .inputs = "x", .parameters = "w b?", .outputs = "y",
    .keeps = "x y?",
    .input_gradient = "d_y w -> d_x",
    .weight_gradient = "d_y! y x -> d_w d_b?",
    .in_place = "d_y=y",
    .gradient = Gradient::product, .divides = kSample | kRow | kOut,
    .work = {.by = WorkOf::dense}};

// y = base + scale u B^T, a block of columns of y for each group
inline constexpr Schema lora_up{
    .kind = OpKind::lora_up,
    .inputs = "base u", .parameters = "B", .outputs = "y",
    .keeps = "u",
    .input_gradient = "d_y u B -> d_u d_B",
    .in_place = "y=base",
    .gradient = Gradient::adapter, .divides = kSample | kRow | kOut,
    .work = {.by = WorkOf::adapter}};

// y = x W^T (+ b) of each row's expert; rows lie by rank of origin, then by expert. Tensor ranks
// that divide the columns of x each add the bias to some columns of y, so that their sum has it
// once.
inline constexpr Schema expert_linear{
    .kind = OpKind::expert_linear,
    .inputs = "x", .parameters = "w b?", .outputs = "y",
    .beside_gradient = "summed?",
    .keeps = "x?",
    .input_gradient = "d_y w -> d_x",
    .weight_gradient = "d_y x summed? -> d_w d_b?",
    .gradient = Gradient::product, .divides = kSample | kRow | kOut | kIn | kExpert,
    .work = {.by = WorkOf::expert_product}};

// y = x * W (+ b): rows are places of the result, k a window's inputs
inline constexpr Schema convolution{
    .kind = OpKind::convolution,
    .inputs = "x", .parameters = "w b?", .outputs = "y",
    .keeps = "x?",
    .input_gradient = "d_y w -> d_x",
    .weight_gradient = "d_y x -> d_w d_b?",
    .gradient = Gradient::product, .divides = kSample | kOut | kIn,
    .work = {.by = WorkOf::convolution}};

// ---- elementwise. FLOPs count the arithmetic of the formula, an exp or tanh as one.

// One input, one result of its size, and a gradient from what it keeps: x or y.
constexpr Schema unary(OpKind kind, std::string_view outputs, std::string_view keeps,
                       std::string_view input_gradient, Work work) {
  return {.kind = kind,
          .inputs = "x", .outputs = outputs,
          .keeps = keeps,
          .input_gradient = input_gradient,
          .in_place = "y=x d_x=d_y",
          .gradient = Gradient::elementwise,
          .divides = kSample | kRow | kOut,
          .work = work};
}

// The tanh form is 0.5 x (1 + tanh(c (x + 0.044715 x^3))); its gradient computes the tanh again
// (6), then its derivative. `half` is what checkpoint=selective_op keeps of x: its latter columns.
inline constexpr Schema gelu =
    unary(OpKind::gelu, "y half?", "x half?", "d_y x -> d_x",
          {.by = WorkOf::pointwise, .flops_forward = 9, .flops_backward = 18,
           .moved_forward = 2, .moved_backward = 3});

// y = max(x, 0)
inline constexpr Schema relu =
    unary(OpKind::relu, "y", "y", "d_y y -> d_x",
          {.by = WorkOf::pointwise, .flops_forward = 1, .flops_backward = 1,
           .moved_forward = 2, .moved_backward = 3});

// y = x mask / (1 - p), p = 1/2
inline constexpr Schema dropout =
    unary(OpKind::dropout, "y mask", "mask", "d_y mask -> d_x",
          {.by = WorkOf::pointwise, .flops_forward = 2, .flops_backward = 2,
           .moved_forward = 2, .moved_backward = 2, .masks = 1});

// y = max(x, 0)^2
inline constexpr Schema relu_squared =
    unary(OpKind::relu_squared, "y half?", "x half?", "d_y x -> d_x",
          {.by = WorkOf::pointwise, .flops_forward = 2, .flops_backward = 3,
           .moved_forward = 2, .moved_backward = 3});

// y = cap tanh(x / cap). The gradient computes the tanh again (2), then 1 - tanh^2 and d_y of it.
inline constexpr Schema soft_cap =
    unary(OpKind::soft_cap, "y", "x", "d_y x -> d_x",
          {.by = WorkOf::pointwise, .flops_forward = 3, .flops_backward = 5,
           .moved_forward = 2, .moved_backward = 3});

// y = factor x. Keeps nothing.
inline constexpr Schema scale{
    .kind = OpKind::scale,
    .inputs = "x", .outputs = "y",
    .input_gradient = "d_y -> d_x",
    .in_place = "y=x d_x=d_y",
    .gradient = Gradient::elementwise, .divides = kSample | kRow | kOut | kVocabulary,
    .work = {.by = WorkOf::pointwise, .flops_forward = 1, .flops_backward = 1,
             .moved_forward = 2, .moved_backward = 2}};

// y = act(gate) up of x = [gate, up]. `half` as of gelu.
constexpr Schema gated(OpKind kind, double flops_forward, double flops_backward) {
  return {.kind = kind,
          .inputs = "x", .outputs = "y half?",
          .keeps = "x half?",
          .input_gradient = "d_y x half? -> d_x",
          .gradient = Gradient::joint, .divides = kSample | kRow | kOut,
          .work = {.by = WorkOf::pointwise, .flops_forward = flops_forward,
                   .flops_backward = flops_backward, .moved_forward = 3, .moved_backward = 5}};
}
// silu: exp, + 1, divide, multiply 4; gate times up 1. Backward: the sigmoid again 3, silu 1, d_up
// 1, derivative 4, d_gate 1.
inline constexpr Schema swiglu = gated(OpKind::swiglu, 5, 10);
// The tanh form of gelu 9, its derivative 18, of which the function is a part.
inline constexpr Schema geglu = gated(OpKind::geglu, 10, 21);
// (up + 1) gate sigmoid(1.702 gate), gate at most 7, up between -7 and 7 [gpt-oss]: clamps 3, the
// factor 1, silu 4, up + 1 and the product 2. Backward: those again, derivatives and their zeros.
inline constexpr Schema clamped_swiglu = gated(OpKind::clamped_swiglu, 10, 19);

// y = a + b. Of a residual stream a is kept by a norm, so y takes the place of b, the branch.
inline constexpr Schema add{
    .kind = OpKind::add,
    .inputs = "a b", .outputs = "y",
    .in_place = "y=b",
    .gradient = Gradient::sum, .divides = kSample | kRow | kOut,
    .work = {.by = WorkOf::pointwise, .flops_forward = 1, .flops_backward = 1,
             .moved_forward = 3, .moved_backward = 3}};

// y = x + b: the bias of a row-parallel product, after the reduction
inline constexpr Schema bias_add{
    .kind = OpKind::bias_add,
    .inputs = "x", .parameters = "b", .outputs = "y",
    .weight_gradient = "d_y -> d_b",
    .in_place = "y=x",
    .gradient = Gradient::passes, .divides = kSample | kRow | kOut,
    .work = {.by = WorkOf::bias}};

// y[rows,n] = the inputs side by side. There is a d_x of every input, needed or not.
inline constexpr Schema concat{
    .kind = OpKind::concat,
    .inputs = "x*", .outputs = "y",
    .input_gradient = "d_y -> d_x*",
    .gradient = Gradient::joint, .divides = kSample | kRow,
    .work = {.by = WorkOf::pointwise, .moved_forward = 2, .moved_backward = 2}};

// y = columns [first, first + n) of each row of x, which is kept for the layer that begins with it
inline constexpr Schema slice{
    .kind = OpKind::slice,
    .inputs = "x", .outputs = "y",
    .keeps = "x",
    .input_gradient = "d_y -> d_x",
    .gradient = Gradient::joint, .divides = kSample,
    .work = {.by = WorkOf::pointwise, .moved_forward = 2, .moved_backward = 2}};

// y = first row of each sample
inline constexpr Schema first_token{
    .kind = OpKind::first_token,
    .inputs = "x", .outputs = "y",
    .input_gradient = "d_y -> d_x",
    .gradient = Gradient::joint, .divides = kSample | kOut,
    .work = {.by = WorkOf::pointwise, .moved_forward = 2, .moved_backward = 2}};

// ---- losses: the logits (or y) become their own gradient in place

// row maximum of the local logits
inline constexpr Schema softmax_max{
    .kind = OpKind::softmax_max,
    .inputs = "logits", .outputs = "max",
    .divides = kSample | kRow | kVocabulary,
    .work = {.by = WorkOf::pointwise, .flops_forward = 1, .moved_forward = 1, .statistics = 1}};

// sum of exp, and the target's logit (0 if the target is another rank's)
inline constexpr Schema softmax_sum{
    .kind = OpKind::softmax_sum,
    .inputs = "logits max targets", .outputs = "sums",
    .divides = kSample | kRow | kVocabulary,
    .work = {.by = WorkOf::pointwise, .flops_forward = 3, .moved_forward = 1, .statistics = 3,
             .tokens = 1}};

// loss += ... `copies` are wider copies of logits that a framework keeps.
inline constexpr Schema cross_entropy{
    .kind = OpKind::cross_entropy,
    .inputs = "logits! max sums targets", .outputs = "copies?", .beside = "-> loss",
    .keeps = "logits copies?",
    .divides = kSample | kRow | kVocabulary,
    .work = {.by = WorkOf::pointwise, .flops_forward = 5, .moved_forward = 2, .statistics = 3,
             .tokens = 1}};

// loss += 1/2 scale |y - target|^2
inline constexpr Schema squared_error{
    .kind = OpKind::squared_error,
    .inputs = "y! target", .beside = "-> loss",
    .keeps = "y",
    .divides = kSample | kRow,
    .work = {.by = WorkOf::pointwise, .flops_forward = 4, .moved_forward = 3}};

// ---- transfers: their actions are collectives and messages, not kernels

constexpr Schema transfer(OpKind kind, Gradient gradient = Gradient::transfer,
                          std::string_view in_place = {}) {
  return {.kind = kind, .inputs = "x", .outputs = "y", .in_place = in_place, .gradient = gradient};
}
// [megatron] f: the identity forward, a sum of the gradients backward; g: a sum (or maximum)
// forward, the identity backward.
inline constexpr Schema tensor_copy = transfer(OpKind::tensor_copy, Gradient::passes, "y=x");
inline constexpr Schema tensor_reduce = transfer(OpKind::tensor_reduce, Gradient::passes, "y=x");
// Sums over the data ranks, forward and of the gradients backward.
inline constexpr Schema data_reduce = transfer(OpKind::data_reduce, Gradient::passes, "y=x");
// All rows of the tensor ranks' x, gathered again for backward; this rank's rows of their sum.
inline constexpr Schema sequence_gather = transfer(OpKind::sequence_gather);
inline constexpr Schema sequence_scatter = transfer(OpKind::sequence_scatter);
// What the expert ranks' x hold for this one; backward: the same of d_y.
inline constexpr Schema expert_exchange = transfer(OpKind::expert_exchange);
// All rows of some heads of qkv; all heads of some rows of attention's output. Each is the other's
// backward.
inline constexpr Schema head_exchange = transfer(OpKind::head_exchange);
inline constexpr Schema row_exchange = transfer(OpKind::row_exchange);
// Tensor ranks that share a key head each make some of its columns. x has this rank's queries and
// its columns of k and v; y has the queries, and whole heads of k and v, gathered from the ranks.
// Backward sums the ranks' gradients of each column.
inline constexpr Schema key_gather = transfer(OpKind::key_gather);
// Between ranks that divide operators (models/splits.hpp). x of all of them, whose backward sums
// and scatters; of their sums this rank's samples; this rank's columns of all their samples, and
// back.
inline constexpr Schema sample_gather = transfer(OpKind::sample_gather);
inline constexpr Schema sample_scatter = transfer(OpKind::sample_scatter);
inline constexpr Schema to_columns = transfer(OpKind::to_columns);
inline constexpr Schema to_samples = transfer(OpKind::to_samples);
// x goes to the other part of a cut graph, y comes from it; backward their gradients go the other
// way. cut_sent: all that was sent has arrived.
inline constexpr Schema cut_send{
    .kind = OpKind::cut_send, .inputs = "x", .gradient = Gradient::transfer};
inline constexpr Schema cut_receive{
    .kind = OpKind::cut_receive, .outputs = "y", .gradient = Gradient::transfer};
inline constexpr Schema cut_sent{.kind = OpKind::cut_sent};

// By kind; then the other forms of a kind.
inline constexpr std::array kSchemas{
    &token_embedding, &position_embedding, &layer_norm, &linear, &lora_up, &attention, &gelu, &add,
    &bias_add, &dense, &tensor_copy, &tensor_reduce, &softmax_max, &softmax_sum, &cross_entropy,
    &squared_error, &rms_norm, &rope, &swiglu, &type_embedding, &first_token, &top_k, &dispatch,
    &expert_exchange, &expert_linear, &combine, &sequence_gather, &sequence_scatter, &qk_norm,
    &relu, &convolution, &max_pool, &average_pool, &local_response_norm, &dropout, &concat,
    &cut_send, &cut_receive, &cut_sent, &head_exchange, &row_exchange, &scale, &soft_cap,
    &relu_squared, &geglu, &clamped_swiglu, &row_gate, &latent_join, &square_sums, &width_norm,
    &sample_gather, &sample_scatter, &to_columns, &to_samples, &key_gather, &batch_norm,
    &channel_sums, &channel_norm, &data_reduce, &slice,
    &ring_own, &ring_block};

constexpr const Schema& schema(OpKind kind) { return *kSchemas[static_cast<std::size_t>(kind)]; }

// What an operator made by unary() keeps of its own input and result, x or y; empty of others.
constexpr std::string_view kept_of_unary(OpKind kind) {
  const Schema& s = schema(kind);
  if (s.gradient != Gradient::elementwise) return {};
  std::string_view keeps = s.keeps;
  const std::string_view first = next_word(keeps);
  return first == "x" || first == "y" ? first : std::string_view{};
}
constexpr bool is_unary(OpKind kind) { return !kept_of_unary(kind).empty(); }

// Whether it is the activation of a feed-forward, of which checkpoint=selective_op keeps half.
constexpr bool is_activation(OpKind kind) { return index_in(schema(kind).outputs, "half") >= 0; }
// Of those, a gate's function times the other half of its input.
constexpr bool is_gated(OpKind kind) {
  return is_activation(kind) && schema(kind).gradient == Gradient::joint;
}

}  // namespace models::ops
