#pragma once
// The compute kernels of the host backend: one per operator of models/graph.hpp and pass, plus what
// optimizers and communicators need (optimizers.hpp, reduce_into). One thread per caller, nothing
// allocated, thread-safe.
//
// Conventions. Row-major; rows = samples x tokens; a leading dimension (ld) is the number of
// elements between rows. Arithmetic is in double when the activation (the first real operand of a
// call) is f64, else in float; any mix of f64, f32, bf16 and f16 operands works, each result is
// rounded once, to nearest even. Gradients of parameters accumulate (+=); gradients of inputs
// overwrite unless `accumulate`. The passes are separate calls, so that schedules may delay weight
// gradients.
//
// Order of accumulation. Every kernel gives the same bits in every run. A sample's rows do not
// depend on the other samples of the batch, except in `linear` and `lora_up`: there OpenBLAS picks
// its code by the shape of the whole product. Sums over rows (biases, norms, embeddings, losses)
// start from the stored value and ascend, so with f32 or f64 gradients a batch split in two calls
// gives the bits of one; with 16-bit gradients, and in weight gradients of matrices, it does not.

#include <span>

#include "exec/host/alibi.hpp"
#include "exec/host/view.hpp"
#include "models/spec.hpp"

namespace models {
enum class OpKind : std::uint8_t;
}

namespace exec::host {

// ---- embeddings: tokens are i32 ---------------------------------------------------------------

// The rows of the table that this rank stores: tokens in [first_row, first_row + rows).
struct TableShard {
  std::int64_t first_row = 0, rows = 0;
};
// y[rows,h] = wte[token - first_row], 0 for rows of another shard.
void token_embedding(View y, View wte, View tokens, std::int64_t rows, std::int64_t h,
                     TableShard shard);
// dwte[token - first_row] += dy, rows ascending (a 16-bit dwte rounds at each occurrence).
void token_embedding_weight_gradient(View dwte, View dy, View tokens, std::int64_t rows,
                                     std::int64_t h, TableShard shard);
// y = x + wpe[row % seq]; y may be x.
void position_embedding(View y, View x, View wpe, std::int64_t rows, std::int64_t h,
                        std::int64_t seq);
// dwpe[row % seq] += dy.
void position_embedding_weight_gradient(View dwpe, View dy, std::int64_t rows, std::int64_t h,
                                        std::int64_t seq);

// y = x + wtt[type]; types are i32. y may be x. dwtt[type] += dy, rows ascending.
void type_embedding(View y, View x, View wtt, View types, std::int64_t rows, std::int64_t h);
void type_embedding_weight_gradient(View dwtt, View dy, View types, std::int64_t rows,
                                    std::int64_t h);

// ---- layer norm -------------------------------------------------------------------------------

// y = (x - mean) rstd gamma + beta, rstd = 1 / sqrt(variance + epsilon); mean[rows], rstd[rows].
// beta, and its gradient, may be absent.
void layer_norm(View y, View mean, View rstd, View x, View gamma, View beta, std::int64_t rows,
                std::int64_t n, double epsilon);
// dx (=|+=) rstd (g - mean(g) - xhat mean(g xhat)), g = dy gamma. dx may be dy.
void layer_norm_input_gradient(View dx, View dy, View x, View gamma, View mean, View rstd,
                               std::int64_t rows, std::int64_t n, bool accumulate);
// dgamma += sum dy xhat, dbeta += sum dy.
void layer_norm_weight_gradient(View dgamma, View dbeta, View dy, View x, View mean, View rstd,
                                std::int64_t rows, std::int64_t n);

// ---- root mean square norm --------------------------------------------------------------------

// y = x rstd (offset + gamma), rstd = 1 / sqrt(mean(x^2) + epsilon); rstd[rows].
void rms_norm(View y, View rstd, View x, View gamma, std::int64_t rows, std::int64_t n,
              double epsilon, double offset = 0);
// dx (=|+=) rstd (g - xhat mean(g xhat)), g = dy (offset + gamma), xhat = x rstd. dx may be dy.
void rms_norm_input_gradient(View dx, View dy, View x, View gamma, View rstd, std::int64_t rows,
                             std::int64_t n, bool accumulate, double offset = 0);
// dgamma += sum dy xhat.
void rms_norm_weight_gradient(View dgamma, View dy, View x, View rstd, std::int64_t rows,
                              std::int64_t n);

// Rows of queries, keys and values: the heads of q, then of k, then of v.
struct HeadShape {
  std::int64_t rows = 0, heads = 0, kv_heads = 0, head_dim = 0;
  std::int64_t value_dim = 0;          // of a head's values; 0: head_dim
  std::int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
  std::int64_t columns() const { return (heads + kv_heads) * head_dim + kv_heads * values(); }
};
// Each head of q and of k by its own RMS norm, v copied; rstd[rows, heads + kv_heads]. Absent
// gammas are 1.
void qk_norm(View y, View rstd, View qkv, View q_gamma, View k_gamma, const HeadShape& s,
             double epsilon, double offset = 0);
void qk_norm_input_gradient(View dqkv, View dy, View qkv, View q_gamma, View k_gamma, View rstd,
                            const HeadShape& s, double offset = 0);
// dq_gamma, dk_gamma += their heads' sums, rows ascending, then heads.
void qk_norm_weight_gradient(View dq_gamma, View dk_gamma, View dy, View qkv, View rstd,
                             const HeadShape& s);

// ---- rotary positions -------------------------------------------------------------------------

struct Rotation {
  std::int64_t rotated = 0;            // leading dimensions of a head that turn; even
  std::int64_t seq = 0;                // rows of a sample
  bool inverse = false;                // the gradient turns back
  Places places{};                     // of the rows of a sample
  double base = 10000;
};
// q and k in place: pair (i, i + rotated / 2) turns by position base^(-2 i / rotated) [rope].
void rotate(View qkv, const HeadShape& s, const Rotation& rotation);

// ---- linear: w[n,k] ---------------------------------------------------------------------------

struct LinearShape {
  std::int64_t rows = 0, n = 0, k = 0;  // n outputs, k inputs
  std::int64_t ldy = 0, ldx = 0;        // of y and dy; of x and dx
};
// y (=|+=) x w^T (+ bias).
void linear(View y, View x, View w, View bias, const LinearShape& s, bool accumulate, Workspace ws);
// dx (=|+=) dy w.
void linear_input_gradient(View dx, View dy, View w, const LinearShape& s, bool accumulate,
                           Workspace ws);
// dw += dy^T x.
void linear_weight_gradient(View dw, View dy, View x, const LinearShape& s, Workspace ws);
// For all three, any types.
core::Bytes linear_workspace(core::DType activation, const LinearShape& s);

// y = x + b, y may be x; ld of both.
void bias_add(View y, View x, View b, std::int64_t rows, std::int64_t n, std::int64_t ld);
// db += column sums of dy, rows ascending. For linear, dense and bias_add.
void bias_gradient(View db, View dy, std::int64_t rows, std::int64_t n, std::int64_t ld);

// ---- LoRA: b[groups, n, r], u[rows, groups * r] -----------------------------------------------

struct LoraShape {
  std::int64_t rows = 0, n = 0, r = 0;      // n outputs and r ranks per group
  std::span<const std::int64_t> offsets;    // first column of each group in y
  std::int64_t ldy = 0;
  double scale = 1.0;                       // alpha / r
};
// y[:, offset_g : offset_g + n] += scale u_g b_g^T.
void lora_up(View y, View u, View b, const LoraShape& s, Workspace ws);
// du = scale dy_g b_g.
void lora_up_input_gradient(View du, View dy, View b, const LoraShape& s, Workspace ws);
// db_g += scale dy_g^T u_g.
void lora_up_weight_gradient(View db, View dy, View u, const LoraShape& s, Workspace ws);
core::Bytes lora_up_workspace(core::DType activation, const LoraShape& s);

// ---- attention: softmax(scale q k^T + biases) v, grouped queries ------------------------------

struct AttentionShape {
  std::int64_t samples = 0, seq = 0, heads = 0, kv_heads = 0, head_dim = 0;
  bool causal = true;
  // Of a slice of the sequence: the keys of all of it, 0 where qkv holds them; seq counts queries,
  // of which the first `early` stand at early_at and on, the others at late_at and on.
  std::int64_t keys = 0;
  std::int64_t early = 0, early_at = 0, late_at = 0;
  // Of one block of keys among several (a ring): `causal` is false, and queries of either run see
  // so many of its keys, the first ones.
  bool block = false;
  std::int64_t early_keys = 0, late_keys = 0;
  LinearBiases biases{};
  // Of causal attention without biases: queries see their last `window` keys, or those of their
  // `chunk`; 0: all before them. Keys outside are skipped.
  std::int64_t window = 0, chunk = 0;
  double soft_cap = 0;                 // scores become cap tanh(score / cap); 0: they do not
  double scale = 0;                    // of scores; 0: 1 / sqrt(head_dim)
  std::int64_t value_dim = 0;          // of a head's values; 0: head_dim
  // A row of qkv: the heads of q, then of k, then of v.
  std::int64_t values() const { return value_dim > 0 ? value_dim : head_dim; }
  std::int64_t key_columns() const { return kv_heads * (head_dim + values()); }
  std::int64_t qkv_columns() const { return heads * head_dim + key_columns(); }
  std::int64_t key_rows() const { return keys > 0 ? keys : seq; }
};
// sinks[heads]: logits that take part in each head's softmax and have no value; or absent.
// out[samples*seq, heads*values]; lse[samples, heads, seq] = log sum exp of the scaled scores. A
// block of 64 query rows at a time, softmax as in [flash2]: never more than 64 x keys scores.
// keys[samples, s.keys, (k, v)], positions ascending, where s.keys > 0. Where `scores` is given it
// receives the probabilities, [samples, heads, seq, keys], and out is the sum over what it holds.
// Of a block, out and lse hold those of other keys, into which these are merged (online softmax):
// with m = log(e^lse + e^lse') they become out e^(lse - m) + out' e^(lse' - m) and m.
void attention(View out, View lse, View qkv, const AttentionShape& s, Workspace ws, View keys = {},
               View scores = {}, View sinks = {});
// dqkv from the saved out and lse (scores are computed again). Where s.keys > 0, dq alone, and keys
// become these queries' part of their gradients. Where `scores` is given, the probabilities are
// read from there.
void attention_input_gradient(View dqkv, View dout, View qkv, View out, View lse,
                              const AttentionShape& s, Workspace ws, View keys = {},
                              View scores = {});
// dsinks[head] -= sum over rows of e^(sink - lse) (dout . out), samples, then rows ascending.
void attention_sink_gradient(View dsinks, View dout, View out, View lse, View sinks,
                             const AttentionShape& s);
// Of one block among several: from out and lse of all, adds to dq[samples*seq, dq_columns], of
// which a row begins with the heads of q, and writes the keys' part, [samples*keys, key_columns],
// of which a row begins with the heads of k, then those of v.
struct BlockGradients {
  View dq;
  std::int64_t dq_columns = 0;
  View d_keys;
  std::int64_t key_columns = 0;
};
void attention_block_gradient(const BlockGradients& to, View dout, View qkv, View out, View lse,
                              const AttentionShape& s, Workspace ws, View keys = {});
// For all of them.
core::Bytes attention_workspace(core::DType activation, const AttentionShape& s);

// ---- elementwise ------------------------------------------------------------------------------

// Of the operators that models/ops declares by unary(): y = f(x), and dx (=|+=) of dy and what the
// operator keeps, x or y. y may be x, dx may be dy.
struct UnaryForm {
  models::Activation form = models::Activation::identity;  // of gelu
  double factor = 1.0;                                     // of soft_cap: the cap
};
void unary(View y, View x, std::int64_t n, models::OpKind kind, const UnaryForm& form);
void unary_gradient(View dx, View dy, View kept, std::int64_t n, models::OpKind kind,
                    const UnaryForm& form, bool accumulate);

// y = x/2 (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))) [gelu], or of form gelu_erf x/2 (1 +
// erf(x / sqrt 2)); y may be x.
void gelu(View y, View x, std::int64_t n,
          models::Activation form = models::Activation::gelu_tanh);
// dx (=|+=) dy gelu'(x); dx may be dy.
void gelu_gradient(View dx, View dy, View x, std::int64_t n,
                   models::Activation form = models::Activation::gelu_tanh,
                   bool accumulate = false);
// y[rows,n] = silu(gate) up of x[rows,2n] = [gate, up], silu(z) = z / (1 + e^-z).
void swiglu(View y, View x, std::int64_t rows, std::int64_t n);
// dx[rows,2n] = [dgate, dup].
void swiglu_gradient(View dx, View dy, View x, std::int64_t rows, std::int64_t n);
// y = max(x, 0); y may be x. dx (=|+=) dy where y > 0; dx may be dy.
void relu(View y, View x, std::int64_t n);
void relu_gradient(View dx, View dy, View y, std::int64_t n, bool accumulate = false);
// z becomes act(z).
void activate(View z, models::Activation act, std::int64_t n);
// dy becomes dy act'(z), from y = act(z). REQUIRES: not gelu_tanh (not a function of y).
void activate_gradient(View dy, View y, models::Activation act, std::int64_t n);
// y = a + b; y may be either.
void add(View y, View a, View b, std::int64_t n);
// y += x.
void add_into(View y, View x, std::int64_t n);
// y *= factor.
void scale(View y, double factor, std::int64_t n);
// to = from, types may differ (computed through float unless one is f64: then f64).
void cast(View to, View from, std::int64_t n);
// Same type, any type of whole bytes.
void copy(View to, View from, std::int64_t n);
void fill_zero(View y, std::int64_t n);

enum class ReduceOp : std::uint8_t { sum, max };
// acc = round(acc op x), arithmetic in acc's type or wider. NaN wins a maximum.
void reduce_into(View acc, View x, ReduceOp op, std::int64_t n);

// ---- losses -----------------------------------------------------------------------------------

// Logits of one vocabulary shard: column j is class first_column + j; columns of classes >= vocab
// are padding. The stages leave room for reductions over shards: max of `max`, sum of `sums`.
struct LogitShape {
  std::int64_t rows = 0, columns = 0, ld = 0;
  std::int64_t first_column = 0, vocab = 0;
};
// max[rows] = greatest local logit (-inf without one).
void softmax_max(View max, View logits, const LogitShape& s);
// sums[0:rows) = sum of exp(logit - max), sums[rows:2 rows) = target logit or 0 of another shard.
void softmax_sum(View sums, View logits, View max, View targets, const LogitShape& s);
// What a loss and its gradient are multiplied by. more: of the gradient beyond it, a loss scale.
struct LossFactor {
  LossFactor(double scale_, const double* more_ = nullptr)  // NOLINT: a number is a factor
      : scale(scale_), more(more_) {}
  double scale;
  const double* more;                  // null: nothing
};
// *loss += sum over rows of scale (max + log sum - target logit); logits become their own gradient,
// scale more (softmax - onehot), 0 in padding. targets are i32.
void cross_entropy(double* loss, View logits, View max, View sums, View targets,
                   const LogitShape& s, const LossFactor& by);
// *loss += scale/2 |y - target|^2; y becomes scale more (y - target).
void squared_error(double* loss, View y, View target, std::int64_t n, const LossFactor& by);

}  // namespace exec::host
