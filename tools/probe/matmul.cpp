#include "tools/probe/matmul.hpp"

namespace probe {
namespace {

struct Types {
  cudaDataType_t operand, result;
  cublasComputeType_t compute;
};

Types types_of(Kind kind) {
  switch (kind) {
    case Kind::bf16: return {CUDA_R_16BF, CUDA_R_16BF, CUBLAS_COMPUTE_32F};
    case Kind::bf16_to_f32: return {CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Kind::f32: return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F};
    case Kind::tf32: return {CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F_FAST_TF32};
  }
  return {};
}

template <class T>
Json config(const cublasLtMatmulAlgo_t& algorithm, cublasLtMatmulAlgoConfigAttributes_t what) {
  T value{};
  std::size_t written = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoConfigGetAttribute(&algorithm, what, &value, sizeof value, &written);
  return status == CUBLAS_STATUS_SUCCESS ? Json(value) : Json();
}

}  // namespace

const char* name_of(Layout layout) {
  return layout == Layout::tn ? "tn" : layout == Layout::nn ? "nn" : "nt";
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::bf16: return "bf16";
    case Kind::bf16_to_f32: return "bf16_to_f32";
    case Kind::f32: return "f32";
    case Kind::tf32: return "tf32";
  }
  return "";
}

std::size_t operand_bytes(Kind kind) {
  return kind == Kind::bf16 || kind == Kind::bf16_to_f32 ? 2 : 4;
}

std::size_t result_bytes(Kind kind) { return kind == Kind::bf16 ? 2 : 4; }

// cuBLASLt is column-major, so it is asked for C^T[n,m] = op(B)^T op(A)^T: its first operand is our
// B, its second our A, and a row-major X[r,c] is to it a column-major [c,r] of leading dimension
// c.
Matmul::Matmul(cublasLtHandle_t handle, const Shape& shape, Kind kind, Layout layout)
    : handle_(handle) {
  const Types types = types_of(kind);
  const auto m = static_cast<std::uint64_t>(shape.m);
  const auto n = static_cast<std::uint64_t>(shape.n);
  const auto k = static_cast<std::uint64_t>(shape.k);
  const cublasOperation_t first = layout == Layout::tn ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t second = layout == Layout::nt ? CUBLAS_OP_T : CUBLAS_OP_N;
  const std::uint64_t b_rows = layout == Layout::tn ? k : n;
  const std::uint64_t b_columns = layout == Layout::tn ? n : k;
  const std::uint64_t a_rows = layout == Layout::nt ? m : k;
  const std::uint64_t a_columns = layout == Layout::nt ? k : m;

  PROBE_TRY(cublasLtMatmulDescCreate(&operation_, types.compute, CUDA_R_32F));
  PROBE_TRY(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSA, &first,
                                           sizeof first));
  PROBE_TRY(cublasLtMatmulDescSetAttribute(operation_, CUBLASLT_MATMUL_DESC_TRANSB, &second,
                                           sizeof second));
  PROBE_TRY(cublasLtMatrixLayoutCreate(&b_, types.operand, b_rows, b_columns,
                                       static_cast<std::int64_t>(b_rows)));
  PROBE_TRY(cublasLtMatrixLayoutCreate(&a_, types.operand, a_rows, a_columns,
                                       static_cast<std::int64_t>(a_rows)));
  PROBE_TRY(cublasLtMatrixLayoutCreate(&c_, types.result, n, m, shape.n));

  cublasLtMatmulPreference_t preference = nullptr;
  PROBE_TRY(cublasLtMatmulPreferenceCreate(&preference));
  PROBE_TRY(cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &kWorkspaceBytes,
      sizeof kWorkspaceBytes));
  // As the executor asks (exec/cuda/runtime/products.cpp): parts of a divided k are added in fp32.
  const std::uint32_t schemes =
      CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  PROBE_TRY(cublasLtMatmulPreferenceSetAttribute(
      preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &schemes, sizeof schemes));
  int found = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle_, operation_, b_, a_, c_, c_, preference, 1, &chosen_, &found);
  cublasLtMatmulPreferenceDestroy(preference);
  PROBE_TRY(status);
  if (found == 0) throw DeviceError("cuBLASLt knows no algorithm for this product");
}

Matmul::~Matmul() {
  cublasLtMatrixLayoutDestroy(a_);
  cublasLtMatrixLayoutDestroy(b_);
  cublasLtMatrixLayoutDestroy(c_);
  cublasLtMatmulDescDestroy(operation_);
}

void Matmul::run(const void* a, const void* b, void* c, void* workspace,
                 cudaStream_t stream) const {
  const float one = 1.0F, zero = 0.0F;
  PROBE_TRY(cublasLtMatmul(handle_, operation_, &one, b, b_, a, a_, &zero, c, c_, c, c_,
                           &chosen_.algo, workspace, kWorkspaceBytes, stream));
}

Json Matmul::algorithm() const {
  Json json = Json::object();
  const cublasLtMatmulAlgo_t& algo = chosen_.algo;
  json["id"] = config<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_ID);
  json["tile"] = config<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_TILE_ID);
  json["stages"] = config<std::uint32_t>(algo, CUBLASLT_ALGO_CONFIG_STAGES_ID);
  json["split_k"] = config<std::int32_t>(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM);
  json["cluster"] = config<std::uint16_t>(algo, CUBLASLT_ALGO_CONFIG_CLUSTER_SHAPE_ID);
  json["workspace_bytes"] = chosen_.workspaceSize;
  json["waves"] = static_cast<double>(chosen_.wavesCount);
  return json;
}

}  // namespace probe
