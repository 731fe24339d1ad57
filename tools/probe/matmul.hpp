#pragma once
// One cuBLASLt matrix product with row-major operands, fp32 accumulation and the top heuristic
// algorithm; shared by the sections context, gemm and clock. Not thread-safe.

#include "tools/probe/cuda.hpp"
#include "tools/probe/json.hpp"

namespace probe {

// C[m,n] = op(A) op(B), all row-major and dense:
//   tn  A[m,k] B[n,k]^T   a layer's forward pass      (m tokens, n outputs, k inputs)
//   nn  A[m,k] B[k,n]     gradient of the inputs      (m tokens, n inputs, k outputs)
//   nt  A[k,m]^T B[k,n]   gradient of the weights     (m outputs, n inputs, k tokens)
enum class Layout { tn, nn, nt };
enum class Kind { bf16, bf16_to_f32, f32, tf32 };  // bf16_to_f32: bf16 operands, f32 C

const char* name_of(Layout layout);
const char* name_of(Kind kind);
std::size_t operand_bytes(Kind kind);  // per element of A and B
std::size_t result_bytes(Kind kind);   // per element of C

struct Shape {
  int m = 0, n = 0, k = 0;
  double flops() const { return 2.0 * m * n * k; }
};

inline constexpr std::size_t kWorkspaceBytes = std::size_t{32} << 20;

class Matmul {
 public:
  // Asks the heuristic; throws when it knows no algorithm. Keeps no reference to `handle`.
  Matmul(cublasLtHandle_t handle, const Shape& shape, Kind kind, Layout layout);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  // Asynchronous. `workspace` holds kWorkspaceBytes. beta = 0.
  void run(const void* a, const void* b, void* c, void* workspace, cudaStream_t stream) const;
  // {"id","tile","stages","split_k","cluster","workspace_bytes","waves"}
  Json algorithm() const;

 private:
  cublasLtHandle_t handle_ = nullptr;
  cublasLtMatmulDesc_t operation_ = nullptr;
  cublasLtMatrixLayout_t a_ = nullptr, b_ = nullptr, c_ = nullptr;
  cublasLtMatmulHeuristicResult_t chosen_{};
};

}  // namespace probe
