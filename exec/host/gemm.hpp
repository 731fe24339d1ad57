#pragma once
// Matrix products on OpenBLAS, one thread per caller, for operands of any mix of types. Row-major.
// Deterministic: the same shapes and values give the same bits. Thread-safe.

#include "exec/host/view.hpp"

namespace exec::host {

// C[m,n] = alpha op(A)[m,k] op(B)[k,n] + beta C, all of one type. REQUIRES: dimensions below 2^31.
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc);
void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          double alpha, const double* a, std::int64_t lda, const double* b, std::int64_t ldb,
          double beta, double* c, std::int64_t ldc);

// An operand as stored: op(A) is the transpose of the stored matrix when `transposed`.
struct Matrix {
  View view;
  std::int64_t leading = 0;  // elements between rows as stored
  bool transposed = false;
  std::int64_t stride = 0;   // elements between the matrices of a batch
};

// c (=|+=) alpha a b (+ bias, one per column). Operands of other types than the compute type go
// through panels in the workspace; c is rounded once.
struct MixedGemm {
  std::int64_t m = 0, n = 0, k = 0;
  Matrix a, b, c;                // c is not transposed
  bool accumulate = false;
  double alpha = 1.0;
  View bias{};
  std::int64_t count = 1;        // products of a batch: of these matrices, and those behind them
};
void mixed_gemm(core::DType activation, const MixedGemm& g, Workspace workspace);
// Bytes that any mix of types of this shape needs; at most 2.5 MiB in float.
core::Bytes mixed_gemm_workspace(core::DType activation, std::int64_t m, std::int64_t n,
                                 std::int64_t k);

}  // namespace exec::host
