#pragma once
// Which operators this tool's executor has kernels for on a GPU, and how many it launches for an
// action: the library's calls and its own kernels (exec/cuda/backend/kernel_table.cpp), where no
// neighbour is done by the same kernel. tests/property/cuda_launches_test.cpp counts them on the
// twin. Pure; thread-safe.

#include <cstdint>

#include "sim/program/program.hpp"

namespace cost {

// kind: forward, input_gradient or weight_gradient. Rows of a norm are taken to fit in registers
// (exec/cuda/kernels/norm_rows.cuh), and a product's columns to be a multiple of 16
// (exec/cuda/kernels/linear.cu). Attention's gradient is that of own kernels: a library's is some
// three kernels for each part of the samples that its workspace allows.
std::int64_t launches(const models::Operator& op, program::ActionKind kind);

// Whether the executor has kernels for the operator on a GPU; without, it runs on hosts alone.
bool has_kernels(const models::Operator& op);
// Whether it computes this attention without tensor cores. It does if it asks no library for the
// mask or the scores (exec/cuda/backend/attention_choice.hpp), and heads are too wide for its own
// kernels with tensor cores.
bool on_vectors(const models::Operator& op);

}  // namespace cost
