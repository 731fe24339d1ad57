#pragma once
// Kernels of decoders since Llama: other gates than SwiGLU's, gates of rows, latent attention's
// join, norms over the width of all heads. Conventions of kernels.hpp.

#include "exec/host/kernels.hpp"

namespace exec::host {

// y[rows,n] = act(gate) up of x[rows,2n] = [gate, up], of a kind that models/ops declares by
// gated(); dx[rows,2n] = [dgate, dup].
void gated(View y, View x, std::int64_t rows, std::int64_t n, models::OpKind kind);
void gated_gradient(View dx, View dy, View x, std::int64_t rows, std::int64_t n,
                    models::OpKind kind);

// y[rows,n] = sigmoid(gate[row]) x; of open gates gate[row] x.
struct RowGates {
  std::int64_t rows = 0, n = 0;
  bool open = false;
};
void row_gate(View y, View x, View gate, const RowGates& s);
// dx (=|+=) sigmoid(gate) dy; dgate[row] (=|+=) sigmoid'(gate) (dy . x).
void row_gate_gradient(View dx, View dgate, View dy, View x, View gate, const RowGates& s,
                       bool accumulate);

// Rows of qkv = (q, k, v) from q, kv[rows, heads (plain, value)] and k_rope[rows, rotated], where a
// head of q and of k is (rotated, plain) [deepseekv2].
void latent_join(View qkv, View q, View kv, View k_rope, const HeadShape& s, std::int64_t rotated);
// dk_rope is the sum over heads, ascending.
void latent_join_gradient(View dq, View dkv, View dk_rope, View dqkv, const HeadShape& s,
                          std::int64_t rotated);

// sums[rows,2]: of the squares of all heads of q, and of k.
void square_sums(View sums, View qkv, const HeadShape& s);
// dqkv (=|+=) 2 dsums x of q and of k, 0 of v.
void square_sums_gradient(View dqkv, View dsums, View qkv, const HeadShape& s, bool accumulate);
// The norms whose sums are of `parts` times the columns here: rstd = 1 / sqrt(sum / n + epsilon).
struct WidthNorm {
  double epsilon = 1e-5, parts = 1;
};
// y = x rstd gamma of q and of k; v is copied.
void width_norm(View y, View qkv, View sums, View q_gamma, View k_gamma, const HeadShape& s,
                const WidthNorm& norm);
// dqkv = dy rstd gamma, dv = dy; dsums = -rstd^3 / (2 n) sum of dy gamma x over the columns here.
void width_norm_gradient(View dqkv, View dsums, View dy, View qkv, View sums, View q_gamma,
                         View k_gamma, const HeadShape& s, const WidthNorm& norm);
// dgamma += sum over rows of dy x rstd.
void width_norm_weight_gradient(View dq_gamma, View dk_gamma, View dy, View qkv, View sums,
                                const HeadShape& s, const WidthNorm& norm);

}  // namespace exec::host
