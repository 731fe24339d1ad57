#pragma once
// Matrix products by cuBLASLt: one algorithm per shape, types and alignment, kept: the library's
// first proposal, or the fastest of those that it makes. Sums are in f32
// (f64 for f64), f32 products without TF32, so that they may be compared with the host's.
// Thread-safe.

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "exec/cuda/api/product_choices.hpp"

namespace exec::cuda {

class Products {
 public:
  // What Hopper's products want, and others may have [cublasSetWorkspace].
  static constexpr std::size_t kWorkspace = std::size_t{32} << 20;

  Products();
  ~Products();
  Products(const Products&) = delete;
  Products& operator=(const Products&) = delete;

  // As Api::time_products.
  void time_algorithms(ProductChoices* kept = nullptr) {
    times_ = true;
    kept_ = kept;
  }
  void multiply(const host::MixedGemm& g, void* workspace, cudaStream_t stream);
  // As Api::multiply_gelu.
  bool multiply_gelu(const host::MixedGemm& g, const host::View& before, bool gradient,
                     void* workspace, cudaStream_t stream);

 private:
  struct Chosen;
  // What follows the sums. gelu: of them, kept in `before`; slope: times gelu'(before).
  enum class Then : std::uint8_t { nothing, gelu, slope };
  struct After {
    Then then = Then::nothing;
    void* before = nullptr;
  };
  static void set_scales(const host::MixedGemm& g, const Chosen& k);
  static cublasLtEpilogue_t epilogue(Then then, bool bias);
  // Null: the library has nothing for this shape with an epilogue; without one it throws.
  const Chosen* choose(const host::MixedGemm& g, const After& after, void* workspace,
                       cudaStream_t stream);
  std::unique_ptr<Chosen> make(const host::MixedGemm& g, const After& after, const ProductKey& key,
                               void* workspace, cudaStream_t stream);
  cublasStatus_t run(const host::MixedGemm& g, const Chosen& k, void* c, void* workspace,
                     cudaStream_t stream);
  // The proposal that is fastest on this GPU; nothing where they cannot be timed.
  std::optional<ProductChoice> fastest(const host::MixedGemm& g, Chosen& k,
                                       std::span<const cublasLtMatmulAlgo_t> proposals,
                                       void* workspace, cudaStream_t stream);
  bool launch(const host::MixedGemm& g, const After& after, void* workspace, cudaStream_t stream);

  cublasLtHandle_t handle_ = nullptr;
  bool times_ = false;
  ProductChoices* kept_ = nullptr;
  std::mutex mutex_;
  std::map<ProductKey, std::unique_ptr<Chosen>> chosen_;
};

}  // namespace exec::cuda
