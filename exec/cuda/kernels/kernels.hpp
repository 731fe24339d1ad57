#pragma once
// The kernels of the CUDA backend: each function launches what its twin of exec/host/kernels.hpp
// computes, with the same arguments and shapes, on a queue. Activations and the weights beside them
// have one type (f64, f32, bf16, f16); arithmetic is in f32, of f64 in f64; row statistics have the
// arithmetic's type; gradients of parameters may have any of the four, and are added to. Each
// result is rounded once, to nearest even. Every order of summation is fixed: the same inputs give
// the same bits. Queues are used by one thread at a time.

#include <span>
#include <vector>

#include "exec/cuda/kernels/queue.hpp"
#include "exec/host/decoder.hpp"
#include "exec/host/experts.hpp"
#include "exec/host/graphs.hpp"
#include "exec/host/kernels.hpp"
#include "exec/host/optimizers.hpp"
#include "planner/question/quantization.hpp"

namespace exec::cuda {

using host::View;

// ---- embeddings
void token_embedding(const Queue& q, View y, View wte, View tokens, std::int64_t rows,
                     std::int64_t h, host::TableShard shard);
// Each token's rows ascending, in pieces of its rows; rounded once. Rows are divided into at most
// so many pieces, of at least so many rows.
inline constexpr std::int64_t kTokenPieces = 1024, kPieceRows = 32;
void token_embedding_weight_gradient(const Queue& q, View dwte, View dy, View tokens,
                                     std::int64_t rows, std::int64_t h, host::TableShard shard);
// places: of the `seq` rows of each sample.
void position_embedding(const Queue& q, View y, View x, View wpe, std::int64_t rows,
                        std::int64_t h, std::int64_t seq, const host::Places& places);
void position_embedding_weight_gradient(const Queue& q, View dwpe, View dy, std::int64_t rows,
                                        std::int64_t h, std::int64_t seq,
                                        const host::Places& places);

// Types of tokens: `types` of a sample, those of this rank's `rows` from `first`; `count` in all.
struct TypeRows { std::int64_t samples, rows, types, first, count, h; };
void type_embedding(const Queue& q, View y, View x, View wtt, View types, const TypeRows& s);
void type_embedding_weight_gradient(const Queue& q, View dwtt, View dy, View types,
                                    const TypeRows& s);
void first_token(const Queue& q, View y, View x, std::int64_t samples, std::int64_t rows,
                 std::int64_t n);
void first_token_gradient(const Queue& q, View dx, View dy, std::int64_t samples,
                          std::int64_t rows, std::int64_t n, bool accumulate);

// ---- norms: of those that are centred beta, of heads the gammas, may be absent
void layer_norm(const Queue& q, View y, View mean, View rstd, View x, View gamma, View beta,
                std::int64_t rows, std::int64_t n, double epsilon);
// sum = a + b, then its layer_norm: the sum is written and not read again.
void add_layer_norm(const Queue& q, View sum, View a, View b, View y, View mean, View rstd,
                    View gamma, View beta, std::int64_t rows, std::int64_t n, double epsilon);
// dx (=|+=), dgamma +=, dbeta +=; without dgamma that of dx alone. dx may be dy.
void layer_norm_gradients(const Queue& q, View dx, View dgamma, View dbeta, View dy, View x,
                          View gamma, View mean, View rstd, std::int64_t rows, std::int64_t n,
                          bool accumulate);
void rms_norm(const Queue& q, View y, View rstd, View x, View gamma, std::int64_t rows,
              std::int64_t n, double epsilon, double offset = 0);
void rms_norm_gradients(const Queue& q, View dx, View dgamma, View dy, View x, View gamma,
                        View rstd, std::int64_t rows, std::int64_t n, bool accumulate,
                        double offset = 0);
void qk_norm(const Queue& q, View y, View rstd, View qkv, View q_gamma, View k_gamma,
             const host::HeadShape& s, double epsilon, double offset = 0);
void qk_norm_input_gradient(const Queue& q, View dqkv, View dy, View qkv, View q_gamma,
                            View k_gamma, View rstd, const host::HeadShape& s, double offset = 0);
void qk_norm_weight_gradient(const Queue& q, View dq_gamma, View dk_gamma, View dy, View qkv,
                             View rstd, const host::HeadShape& s);

void square_sums(const Queue& q, View sums, View qkv, const host::HeadShape& s);
void square_sums_gradient(const Queue& q, View dqkv, View dsums, View qkv,
                          const host::HeadShape& s, bool accumulate);
void width_norm(const Queue& q, View y, View qkv, View sums, View q_gamma, View k_gamma,
                const host::HeadShape& s, const host::WidthNorm& norm);
// Without dq_gamma that of dqkv and dsums alone.
void width_norm_gradients(const Queue& q, View dqkv, View dsums, View dq_gamma, View dk_gamma,
                          View dy, View qkv, View sums, View q_gamma, View k_gamma,
                          const host::HeadShape& s, const host::WidthNorm& norm);

// ---- mixtures of experts: products go to the API's library, all experts of an origin in one where
// each has as many rows
void top_k(const Queue& q, View gates, View places, View logits, const host::RoutingShape& s);
void top_k_gradient(const Queue& q, View dlogits, View dgates, View gates, View places,
                    View logits, const host::RoutingShape& s);
void dispatch(const Queue& q, View y, View x, View places, const host::CopyShape& s);
void dispatch_gradient(const Queue& q, View dx, View dy, View places, const host::CopyShape& s,
                       bool accumulate);
void combine(const Queue& q, View y, View x, View gates, View places, const host::CopyShape& s);
void combine_gradient(const Queue& q, View dx, View dgates, View dy, View x, View gates,
                      View places, const host::CopyShape& s);
void expert_linear(const Queue& q, View y, View x, View w, View b, const host::ExpertShape& s);
void expert_linear_input_gradient(const Queue& q, View dx, View dy, View w,
                                  const host::ExpertShape& s, bool accumulate);
void expert_linear_weight_gradient(const Queue& q, View dw, View db, View dy, View x,
                                   const host::ExpertShape& s);
void row_gate(const Queue& q, View y, View x, View gate, const host::RowGates& s);
void row_gate_gradient(const Queue& q, View dx, View dgate, View dy, View x, View gate,
                       const host::RowGates& s, bool accumulate);

// ---- matrices in 8 bits
// Casts one matrix by rows, by columns, or both (one view for each). REQUIRES: one scale for the
// whole matrix, and a number of columns that is a multiple of 16.
void cast_to_f8(const Queue& q, std::span<const View> to, View from);

// ---- linear layers: products go to the API's library
void linear(const Queue& q, View y, View x, View w, View bias, const host::LinearShape& s,
            bool accumulate);
void linear_input_gradient(const Queue& q, View dx, View dy, View w, const host::LinearShape& s,
                           bool accumulate);
void linear_weight_gradient(const Queue& q, View dw, View dy, View x, const host::LinearShape& s);
// z = gelu(y), y = x w (+ bias); dx = (dy w) gelu'(x). Of sums that are not rounded before. False:
// the library has none of this shape, and nothing was launched.
bool linear_gelu(const Queue& q, View z, View y, View x, View w, View bias,
                 const host::LinearShape& s);
bool linear_input_gradient_gelu(const Queue& q, View dx, View dy, View w, View x,
                                const host::LinearShape& s);
// ld: elements between rows of x and y; 0: n.
void bias_add(const Queue& q, View y, View x, View b, std::int64_t rows, std::int64_t n,
              std::int64_t ld = 0);
void bias_gradient(const Queue& q, View db, View dy, std::int64_t rows, std::int64_t n);
void lora_up(const Queue& q, View y, View u, View b, const host::LoraShape& s);
void lora_up_input_gradient(const Queue& q, View du, View dy, View b, const host::LoraShape& s);
void lora_up_weight_gradient(const Queue& q, View db, View dy, View u, const host::LoraShape& s);

// ---- rows side by side (multi-token prediction)
void put_columns(const Queue& q, View wide, View narrow, const host::ColumnBlock& block,
                 bool accumulate = false);
void take_columns(const Queue& q, View narrow, View wide, const host::ColumnBlock& block,
                  bool accumulate);

// ---- latent attention
void latent_join(const Queue& q, View qkv, View queries, View kv, View k_rope,
                 const host::HeadShape& s, std::int64_t rotated);
void latent_join_gradient(const Queue& q, View dq, View dkv, View dk_rope, View dqkv,
                          const host::HeadShape& s, std::int64_t rotated);

// ---- attention: on tensor cores where the type has 16 bits, heads are a multiple of 8 up to 128,
// values as wide, and views lie at multiples of 16 bytes; weights and their gradients are then
// rounded to that type before they are multiplied. plain_...: always without tensor cores, heads of
// up to 256. sinks may be absent.
void rotate(const Queue& q, View qkv, const host::HeadShape& s, const host::Rotation& rotation);
// Queries and keys are the same rows.
void attention(const Queue& q, View out, View lse, View qkv, const host::AttentionShape& s,
               View sinks = {});
void attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out, View lse,
                              const host::AttentionShape& s);
void attention_sink_gradient(const Queue& q, View dsinks, View dout, View out, View lse,
                             View sinks, const host::AttentionShape& s);
void plain_attention(const Queue& q, View out, View lse, View qkv, const host::AttentionShape& s,
                     View sinks = {});
void plain_attention_input_gradient(const Queue& q, View dqkv, View dout, View qkv, View out,
                                    View lse, const host::AttentionShape& s);

// Rows of a matrix, `ld` elements apart; absent where there is none.
struct RowsAt {
  View first;
  std::int64_t ld = 0;
};
// Attention over keys that lie apart from qkv, or over one block of several (context parallelism).
// keys: a row has the heads of k, then those of v. before: results of the blocks before, into which
// these are merged; absent for the first. out and before may have any type. See host::attention().
void block_attention(const Queue& q, RowsAt out, RowsAt before, View lse, View qkv, RowsAt keys,
                     const host::AttentionShape& s, View sinks = {});
// dq = before + these keys' part, of any type; dkeys, of that of qkv, may be keys.
struct BlockGradients {
  RowsAt dq, before, dkeys;
};
void block_attention_input_gradient(const Queue& q, const BlockGradients& to, View dout, View qkv,
                                    View out, View lse, RowsAt keys,
                                    const host::AttentionShape& s);

// ---- elementwise
void unary(const Queue& q, View y, View x, std::int64_t n, models::OpKind kind,
           const host::UnaryForm& form);
void unary_gradient(const Queue& q, View dx, View dy, View kept, std::int64_t n,
                    models::OpKind kind, const host::UnaryForm& form);
void scale(const Queue& q, View y, View x, double factor, std::int64_t n);
void gelu(const Queue& q, View y, View x, std::int64_t n, models::Activation form);
void gelu_gradient(const Queue& q, View dx, View dy, View x, std::int64_t n,
                   models::Activation form);
void gated(const Queue& q, View y, View x, std::int64_t rows, std::int64_t n,
           models::OpKind kind);
void gated_gradient(const Queue& q, View dx, View dy, View x, std::int64_t rows, std::int64_t n,
                    models::OpKind kind);
void relu(const Queue& q, View y, View x, std::int64_t n);
void relu_gradient(const Queue& q, View dx, View dy, View y, std::int64_t n);
void activate(const Queue& q, View z, models::Activation act, std::int64_t n);
void activate_gradient(const Queue& q, View dy, View y, models::Activation act, std::int64_t n);
void add(const Queue& q, View y, View a, View b, std::int64_t n);
void add_into(const Queue& q, View y, View x, std::int64_t n);  // types may differ
void cast(const Queue& q, View to, View from, std::int64_t n);
// As exec/communicator/reduce.hpp's combine(): out = left op right, of one type, i32 too.
void combine(const Queue& q, View out, View left, View right, program::ReduceOp op,
             std::int64_t n);

// ---- losses: rows of logits are read in pieces, probabilities are never stored
void softmax_max(const Queue& q, View max, View logits, const host::LogitShape& s);
void softmax_sum(const Queue& q, View sums, View logits, View max, View targets,
                 const host::LogitShape& s);
// Both of them, of one reading.
void softmax_max_and_sum(const Queue& q, View max, View sums, View logits, View targets,
                         const host::LogitShape& s);
void cross_entropy(const Queue& q, double* loss, View logits, View max, View sums, View targets,
                   const host::LogitShape& s, const host::LossFactor& by);
// All three, of one reading. False: a row is too long for shared memory or lies at no multiple of
// 16 bytes, and nothing was launched.
bool softmax_and_cross_entropy(const Queue& q, double* loss, View logits, View max, View sums,
                               View targets, const host::LogitShape& s,
                               const host::LossFactor& by);
void squared_error(const Queue& q, double* loss, View y, View target, std::int64_t n,
                   const host::LossFactor& by);

// ---- optimizers and codes
// What of an update changes from step to step.
struct StepNumbers {
  double correction1 = 1, correction2 = 1;  // of the moments
  double learning_rate = 0;
  std::uint64_t seed = 0;                   // of stochastic rounding; 0: to nearest
};
StepNumbers step_numbers(const Hyper& hyper, std::int64_t step, std::uint64_t stochastic);
// now: on the device, read there in place of what `step` and `stochastic` say.
// maps: signed_map() and unsigned_map() of exec/host/quantise.hpp, 512 floats on the device
// (adam8bit alone reads them). stochastic: a 16-bit weight without a master is rounded up or down
// by chance, drawn from this seed, the step and the element's place; 0: to nearest.
struct ParameterUpdate {
  host::Parameters parameters;
  std::vector<View> slots;
};
// Those of types that recipes have are few launches: up to 56 parameters each.
void update(const Queue& q, planner::OptimizerKind kind, const Hyper& hyper,
            std::int64_t step, std::span<const ParameterUpdate> all, const float* maps,
            std::uint64_t stochastic = 0, const StepNumbers* now = nullptr);
inline void update(const Queue& q, planner::OptimizerKind kind, const Hyper& hyper,
                   std::int64_t step, const host::Parameters& p, std::span<const View> slots,
                   const float* maps, std::uint64_t stochastic = 0,
                   const StepNumbers* now = nullptr) {
  const ParameterUpdate one{p, {slots.begin(), slots.end()}};
  update(q, kind, hyper, step, std::span(&one, 1), maps, stochastic, now);
}
// *state = host::stepped() of it and the root of *squares.
void step_loss_scale(const Queue& q, host::LossScaleState* state, const double* squares,
                     const host::LossScaleRule& rule);
// *sum += |x|^2, in f64.
void add_squares(const Queue& q, double* sum, View x, std::int64_t n);
void decode_matrix(const Queue& q, planner::Quantization kind, const void* codes, View y,
                   std::int64_t n, std::int64_t bytes, const float* maps);

// Whether these kernels compute this operator as it is meant.
bool computes(const models::Operator& op);
// Workspace that any kernel above needs of a queue, for operators of these shapes.
std::size_t workspace_bytes(const models::Operator& op, std::int64_t samples);

}  // namespace exec::cuda
