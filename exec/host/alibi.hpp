#pragma once
// Attention with linear biases [alibi]: a key's score falls with its distance, by a slope of its
// head's own. Conventions of kernels.hpp.
//
// A softmax does not see what all keys of a query share, so slope x (key - query) is the same as
// slope x (key - last key): one more column of queries (the slope) and of keys (the place). The
// kernels of kernels.hpp compute that, on heads one wider; so the saved log-sum-exp is of these
// scores.

#include "exec/host/kernels.hpp"

namespace exec::host {

// Of one head of so many, as MPT has it: 2^(-8 i / n) of i = 1 .. n for n heads, n a power of two;
// of other counts, those of the next such n with even i, then those with odd i.
double alibi_slope(std::int64_t head, std::int64_t heads);

// Heads [first, first + s.heads) of `all`.
struct AlibiHeads { std::int64_t first = 0, all = 0; };
// As attention() and attention_input_gradient(). REQUIRES: s.causal.
void alibi_attention(View out, View lse, View qkv, const AttentionShape& s, AlibiHeads heads,
                     Workspace ws);
void alibi_attention_input_gradient(View dqkv, View dout, View qkv, View out, View lse,
                                    const AttentionShape& s, AlibiHeads heads, Workspace ws);
// For both.
core::Bytes alibi_attention_workspace(core::DType activation, const AttentionShape& s);

}  // namespace exec::host
