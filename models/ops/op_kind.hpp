#pragma once
// The kinds of operators. Each has a schema (schemas.hpp).

#include <cstdint>

namespace models {

// In the order in which Programs number them.
enum class OpKind : std::uint8_t {
  token_embedding, position_embedding, layer_norm, linear, lora_up, attention, gelu, add, bias_add,
  dense, tensor_copy, tensor_reduce, softmax_max, softmax_sum, cross_entropy, squared_error,
  rms_norm, rope, swiglu, type_embedding, first_token, top_k, dispatch, expert_exchange,
  expert_linear, combine, sequence_gather, sequence_scatter, qk_norm, relu, convolution, max_pool,
  average_pool, local_response_norm, dropout, concat, cut_send, cut_receive, cut_sent,
  head_exchange, row_exchange, scale, soft_cap, relu_squared, geglu, clamped_swiglu, row_gate,
  latent_join, square_sums, width_norm, sample_gather, sample_scatter, to_columns, to_samples,
  key_gather, batch_norm, channel_sums, channel_norm, data_reduce, slice,
};

}  // namespace models
