#include "exec/cuda/runtime/products.hpp"

#include <array>
#include <string>
#include <vector>

#include "core/check.hpp"
#include "exec/cuda/api/stored_matrix.hpp"
#include "exec/cuda/runtime/check.hpp"

namespace exec::cuda {
namespace {

constexpr int kProposals = 8, kTrials = 4;  // the first trial is not counted
constexpr float kBetter = 0.99F;            // a later proposal must be so much faster

cudaDataType_t type_of(core::DType type) {
  switch (type) {
    case core::DType::f64: return CUDA_R_64F;
    case core::DType::f32: return CUDA_R_32F;
    case core::DType::bf16: return CUDA_R_16BF;
    case core::DType::f16: return CUDA_R_16F;
    default: PLANNER_CHECK(false, "products of f64, f32, bf16, f16 and f8");
  }
  return CUDA_R_32F;
}
cudaDataType_t type_of(const host::View& v) {
  if (v.f8 == nullptr) return type_of(v.type);
  return v.f8->format() == planner::F8Format::e4m3 ? CUDA_R_8F_E4M3 : CUDA_R_8F_E5M2;
}

template <class T>
void set(cublasLtMatmulDesc_t d, cublasLtMatmulDescAttributes_t what, const T& value) {
  check(cublasLtMatmulDescSetAttribute(d, what, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
}
template <class T>
void prefer(cublasLtMatmulPreference_t p, cublasLtMatmulPreferenceAttributes_t what,
            const T& value) {
  check(cublasLtMatmulPreferenceSetAttribute(p, what, &value, sizeof value),
        "cublasLtMatmulPreferenceSetAttribute");
}

template <class T>
void set(cublasLtMatrixLayout_t l, cublasLtMatrixLayoutAttribute_t what, const T& value) {
  check(cublasLtMatrixLayoutSetAttribute(l, what, &value, sizeof value),
        "cublasLtMatrixLayoutSetAttribute");
}

// A stored row-major matrix [rows, columns] is to cuBLASLt a column-major [columns, rows].
cublasLtMatrixLayout_t layout(const host::Matrix& matrix, std::int64_t rows,
                              std::int64_t columns, std::int64_t count) {
  const StoredMatrix m = stored(matrix);
  if (m.transposed) std::swap(rows, columns);
  cublasLtMatrixLayout_t l = nullptr;
  check(cublasLtMatrixLayoutCreate(&l, type_of(matrix.view), static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), m.leading),
        "cublasLtMatrixLayoutCreate");
  if (count == 1) return l;
  set(l, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, static_cast<std::int32_t>(count));
  set(l, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, m.stride);
  return l;
}

}  // namespace

cublasLtEpilogue_t Products::epilogue(Then then, bool bias) {
  switch (then) {
    case Then::nothing: return bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
    case Then::gelu: return bias ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS : CUBLASLT_EPILOGUE_GELU_AUX;
    case Then::slope: return CUBLASLT_EPILOGUE_DGELU;
  }
  return CUBLASLT_EPILOGUE_DEFAULT;
}

struct Products::Chosen {
  cublasLtMatmulDesc_t operation = nullptr;
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, c = nullptr;
  cublasLtMatmulAlgo_t algorithm{};
  ~Chosen() {
    if (a != nullptr) cublasLtMatrixLayoutDestroy(a);
    if (b != nullptr) cublasLtMatrixLayoutDestroy(b);
    if (c != nullptr) cublasLtMatrixLayoutDestroy(c);
    if (operation != nullptr) cublasLtMatmulDescDestroy(operation);
  }
};

// Tells the library where the scales of 8-bit operands lie. It multiplies the sums by them.
void Products::set_scales(const host::MixedGemm& g, const Chosen& k) {
  if (const float* scale = stored(g.b).scale; scale != nullptr)
    set(k.operation, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, scale);
  if (const float* scale = stored(g.a).scale; scale != nullptr)
    set(k.operation, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, scale);
}

Products::Products() { check(cublasLtCreate(&handle_), "cublasLtCreate"); }
Products::~Products() {
  chosen_.clear();
  cublasLtDestroy(handle_);
}

// C^T = op(B)^T op(A)^T: the library's first operand is our B, its second our A.
std::unique_ptr<Products::Chosen> Products::make(const host::MixedGemm& g, const After& after,
                                                 const ProductKey& key, void* workspace,
                                                 cudaStream_t stream) {
  auto chosen = std::make_unique<Chosen>();
  Chosen& k = *chosen;
  const bool wide = g.c.view.type == core::DType::f64;
  check(cublasLtMatmulDescCreate(&k.operation, wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F,
                                 wide ? CUDA_R_64F : CUDA_R_32F),
        "cublasLtMatmulDescCreate");
  const auto turned = [](const host::Matrix& m) {
    return stored(m).transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  };
  set(k.operation, CUBLASLT_MATMUL_DESC_TRANSA, turned(g.b));
  set(k.operation, CUBLASLT_MATMUL_DESC_TRANSB, turned(g.a));
  set_scales(g, k);
  set(k.operation, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue(after.then, static_cast<bool>(g.bias)));
  if (after.then != Then::nothing) {
    set(k.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, g.c.leading);
    set(k.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, after.before);
  }
  if (g.bias) {
    set(k.operation, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type_of(g.bias.type));
    set(k.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias.data);
  }
  k.b = layout(g.b, g.k, g.n, g.count);
  k.a = layout(g.a, g.m, g.k, g.count);
  k.c = layout(g.c, g.m, g.n, g.count);
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
  prefer(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, kWorkspace);
  // Where k is divided its parts are added in the compute type: the other schemes round each to the
  // result's [cublasLtReductionScheme_t].
  prefer(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         std::uint32_t{CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES,
         static_cast<std::uint32_t>(key[13]));
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
         static_cast<std::uint32_t>(key[12]));
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES,
         static_cast<std::uint32_t>(key[14]));
  prefer(preference, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES,
         static_cast<std::uint32_t>(key[14]));
  std::array<cublasLtMatmulHeuristicResult_t, kProposals> best{};
  int found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle_, k.operation, k.b, k.a, k.c, k.c, preference,
                                     times_ ? kProposals : 1, best.data(), &found);
  cublasLtMatmulPreferenceDestroy(preference);
  const std::string what = "cublasLtMatmulAlgoGetHeuristic(" + std::to_string(g.m) + " x " +
                           std::to_string(g.n) + " x " + std::to_string(g.k) + ")";
  const bool none =
      status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE || found == 0;
  if (after.then != Then::nothing && none) return nullptr;
  check(status, what);
  check(found > 0 ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_NOT_SUPPORTED, what);
  k.algorithm = best.front().algo;
  if (found == 1) return chosen;
  std::vector<cublasLtMatmulAlgo_t> proposals;
  for (int i = 0; i < found; ++i) proposals.push_back(best[static_cast<std::size_t>(i)].algo);
  const auto take = [&](int proposal) {
    k.algorithm = proposals[static_cast<std::size_t>(proposal)];
  };
  if (kept_ != nullptr) {
    const auto before = kept_->of.find(key);
    if (before != kept_->of.end() && before->second.proposal < found) {
      take(before->second.proposal);
      return chosen;
    }
  }
  const std::optional<ProductChoice> best_of = fastest(g, k, proposals, workspace, stream);
  take(best_of ? best_of->proposal : 0);
  if (best_of && kept_ != nullptr) {
    kept_->of[key] = *best_of;
    ++kept_->added;
  }
  return chosen;
}

// Sums that are added to are made elsewhere meanwhile. Nothing is timed while a step is captured,
// or where there is no memory for that: it is given back at once, and counts nowhere.
std::optional<ProductChoice> Products::fastest(const host::MixedGemm& g, Chosen& k,
                                               std::span<const cublasLtMatmulAlgo_t> proposals,
                                               void* workspace, cudaStream_t stream) {
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  check(cudaStreamIsCapturing(stream, &capture), "cudaStreamIsCapturing");
  if (capture != cudaStreamCaptureStatusNone) return std::nullopt;
  void* elsewhere = nullptr;
  if (g.accumulate) {
    const core::Bytes bytes = core::bytes_of(
        (g.count - 1) * g.c.stride + g.m * g.c.leading, g.c.view.type);
    const cudaError_t status = cudaMalloc(&elsewhere, static_cast<std::size_t>(bytes.value()));
    if (status != cudaSuccess) {
      quietly(status);
      return std::nullopt;
    }
    check(cudaMemsetAsync(elsewhere, 0, static_cast<std::size_t>(bytes.value()), stream),
          "cudaMemsetAsync");
  }
  cudaEvent_t begin = nullptr, end = nullptr;
  check(cudaEventCreate(&begin), "cudaEventCreate");
  check(cudaEventCreate(&end), "cudaEventCreate");
  ProductChoice best;
  float least = 0;
  for (int i = 0; i < std::ssize(proposals); ++i) {
    k.algorithm = proposals[static_cast<std::size_t>(i)];
    float own = -1;
    for (int repeat = 0; repeat < kTrials; ++repeat) {
      check(cudaEventRecord(begin, stream), "cudaEventRecord");
      void* const c = g.accumulate ? elsewhere : g.c.view.data;
      if (run(g, k, c, workspace, stream) != CUBLAS_STATUS_SUCCESS) break;
      check(cudaEventRecord(end, stream), "cudaEventRecord");
      check(cudaEventSynchronize(end), "a product that is timed");
      float milliseconds = 0;
      check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
      if (repeat > 0 && (own < 0 || milliseconds < own)) own = milliseconds;
    }
    if (i == 0 && own >= 0) best.first_seconds = static_cast<double>(own) / 1e3;
    if (own >= 0 && (least == 0 || own < least * kBetter)) least = own, best.proposal = i;
  }
  quietly(cudaEventDestroy(begin));
  quietly(cudaEventDestroy(end));
  if (elsewhere != nullptr) quietly(cudaFree(elsewhere));
  best.seconds = static_cast<double>(least) / 1e3;
  return best;
}

const Products::Chosen* Products::choose(const host::MixedGemm& g, const After& after,
                                         void* workspace, cudaStream_t stream) {
  const ProductKey key = key_of(g, static_cast<int>(after.then), after.before);
  const auto found = chosen_.find(key);
  if (found != chosen_.end()) return found->second.get();
  return chosen_.emplace(key, make(g, after, key, workspace, stream)).first->second.get();
}

void Products::multiply(const host::MixedGemm& g, void* workspace, cudaStream_t stream) {
  launch(g, {}, workspace, stream);
}

bool Products::multiply_gelu(const host::MixedGemm& g, const host::View& before, bool gradient,
                             void* workspace, cudaStream_t stream) {
  if (g.c.leading % 8 != 0) return false;  // as the library wants it of what it keeps beside
  return launch(g, {gradient ? Then::slope : Then::gelu, before.data}, workspace, stream);
}

bool Products::launch(const host::MixedGemm& g, const After& after, void* workspace,
                      cudaStream_t stream) {
  const std::scoped_lock lock(mutex_);  // bias, scales and `before` are the descriptor's
  const Chosen* const chosen = choose(g, after, workspace, stream);
  if (chosen == nullptr) return false;
  const Chosen& k = *chosen;
  set_scales(g, k);
  if (g.bias) set(k.operation, CUBLASLT_MATMUL_DESC_BIAS_POINTER, g.bias.data);
  if (after.then != Then::nothing)
    set(k.operation, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, after.before);
  check(run(g, k, g.c.view.data, workspace, stream), "cublasLtMatmul");
  return true;
}

cublasStatus_t Products::run(const host::MixedGemm& g, const Chosen& k, void* c, void* workspace,
                             cudaStream_t stream) {
  const bool wide = g.c.view.type == core::DType::f64;
  const double alpha64 = g.alpha, beta64 = g.accumulate ? 1.0 : 0.0;
  const auto alpha32 = static_cast<float>(alpha64), beta32 = static_cast<float>(beta64);
  const void* const alpha = wide ? static_cast<const void*>(&alpha64) : &alpha32;
  const void* const beta = wide ? static_cast<const void*>(&beta64) : &beta32;
  return cublasLtMatmul(handle_, k.operation, alpha, stored(g.b).data, k.b, stored(g.a).data, k.a,
                        beta, c, k.c, c, k.c, &k.algorithm, workspace, kWorkspace, stream);
}

}  // namespace exec::cuda
