#pragma once
// Which operators this tool's executor has kernels for on a GPU, and how many it launches for an
// action: the library's calls and its own kernels (exec/cuda/backend/kernel_table.cpp), where no
// neighbour is done by the same kernel. tests/property/cuda_launches_test.cpp counts them on the
// twin. Pure; thread-safe.

#include <cstdint>
#include <span>

#include "sim/cost/machine.hpp"
#include "sim/program/program.hpp"

namespace cost {

// kind: forward, input_gradient or weight_gradient. Rows of a norm are taken to fit in registers
// (exec/cuda/kernels/norm_rows.cuh), and a product's columns to be a multiple of 16
// (exec/cuda/kernels/linear.cu). Attention's gradient is that of own kernels: a library's is some
// three kernels for each part of the samples that its workspace allows.
std::int64_t launches(const models::Operator& op, program::ActionKind kind);

// Whether the executor has kernels for the operator on a GPU; without, it runs on hosts alone.
bool has_kernels(const models::Operator& op);
// Whether an attention has keys of other context ranks: of all at once, or block by block.
bool meets_other_ranks(const models::Operator& op);
// Whether it asks no library for this attention: for those keys, its mask or its scores
// (exec/cuda/backend/attention_choice.hpp).
bool asks_no_library(const models::Operator& op);
// Whether it computes this attention without tensor cores: it asks no library, and heads are too
// wide for its own kernels with tensor cores.
bool on_vectors(const models::Operator& op);

// Calls of the library that the backward pass of attention may be divided into. Within 32 MiB cuDNN
// 9.14 took 32 calls and 1.59 ms for GPT-2 124M's on an H100, own kernels 0.79, cuDNN in one call
// 0.66. Sixteen calls of two layers of gpt-oss took 13.1 ms on an H200, own kernels 10.9.
inline constexpr std::int64_t kMostBackwardCalls = 8;
// The largest of the equal parts, of samples or of one sample's heads of keys, that have at most so
// many heads of keys of one sample each. REQUIRES: at_most >= 1.
struct AttentionParts { std::int64_t samples = 1, kv_heads = 1; };
AttentionParts largest_parts(std::int64_t samples, std::int64_t kv_heads, std::int64_t at_most);
// How the backward pass of attention over so many samples is divided into calls of the library, by
// samples or by heads of keys, where a call may take a workspace of at most `most`. calls 0: own
// kernels compute it. cuDNN's
// deterministic kernels keep 2 bytes for each query, key and head of queries, and a little more:
// the calls of eleven shapes on H100 and H200 are these (reports/measured/h100_attention.json,
// h200_families.json).
struct BackwardCalls {
  std::int64_t calls = 0;
  std::int64_t blocks = 0;             // of 128 keys of a head, of one call
  core::Bytes workspace{};             // at least what a call takes
};
BackwardCalls backward_calls(const models::Operator& op, std::int64_t samples, core::Bytes most);
// The workspace of a rank whose backward passes compute these operators: what the call for
// attention that needs most takes, but at least room.always.
core::Bytes workspace_of(std::span<const models::Operator> operators, std::int64_t samples,
                         const AttentionRoom& room);
// What computes a pass on a GPU. own: this tool's kernels, where a library would be faster but is
// not asked, or finds no room for the backward pass. blocks: of one backward call of the library.
struct AttentionKernel {
  bool own = false;
  std::int64_t blocks = 0;
};
AttentionKernel attention_kernel(const models::Operator& op, bool forward, std::int64_t samples,
                                 const Machine& machine);

}  // namespace cost
