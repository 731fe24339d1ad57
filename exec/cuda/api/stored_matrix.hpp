#pragma once
// StoredMatrix: an operand of a product as a library finds it in memory. 8-bit products of cuBLASLt
// want both operands with the elements that are summed behind each other [cublasLtMatmul]. Codes
// that lie by columns (planner/question/f8_matrix.hpp) are read as their matrix's transpose. Pure.

#include <cstdint>

#include "exec/host/gemm.hpp"

namespace exec::cuda {

struct StoredMatrix {
  void* data = nullptr;
  core::DType type{};
  const float* scale = nullptr;        // of codes: one, of all elements
  std::int64_t leading = 0, stride = 0;
  bool transposed = false;
};

// REQUIRES: codes are of a whole matrix, with one scale.
inline StoredMatrix stored(const host::Matrix& m) {
  if (m.view.f8 == nullptr)
    return {m.view.data, m.view.type, nullptr, m.leading, m.stride, m.transposed};
  const planner::F8Matrix& f8 = *m.view.f8;
  PLANNER_CHECK(f8.scales() == 1 && m.view.first == 0 && m.stride == 0,
                "codes of a whole matrix, with one scale");
  const auto* const codes = static_cast<const std::uint8_t*>(m.view.data);
  return {.data = m.view.data,
          .type = m.view.type,
          .scale = reinterpret_cast<const float*>(codes + f8.elements()),
          .leading = f8.by_columns ? f8.all_rows() : m.leading,
          .transposed = m.transposed != f8.by_columns};
}

}  // namespace exec::cuda
