#include "tests/unit/cuda_runtime/fake_cublaslt.hpp"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <bit>
#include <cstring>
#include <map>
#include <new>
#include <vector>

#include "exec/host/convert.hpp"
#include "exec/host/kernels.hpp"

namespace {

using core::DType;
using Attributes = std::map<int, std::uint64_t>;  // each of at most 8 bytes, as they were given

struct Desc {
  cublasComputeType_t compute;
  cudaDataType_t scale;
  Attributes attributes;
};
struct Layout {
  cudaDataType_t type;
  std::int64_t rows, columns, ld;
  std::int64_t count = 1, stride = 0;  // matrices of a batch, elements between two
  std::int64_t bytes_between() const;
};

template <class To, class From>
To* as(From* handle) { return reinterpret_cast<To*>(handle); }

cublasStatus_t keep(Attributes& in, int what, const void* value, std::size_t size) {
  if (size > 8) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(&(in[what] = 0), value, size);
  return CUBLAS_STATUS_SUCCESS;
}
std::uint64_t got(const Attributes& of, int what, std::uint64_t otherwise = 0) {
  const auto found = of.find(what);
  return found != of.end() ? found->second : otherwise;
}
void* pointer(const Desc& d, int what) { return std::bit_cast<void*>(got(d.attributes, what)); }

DType type_of(cudaDataType_t t) {
  return t == CUDA_R_64F ? DType::f64 : t == CUDA_R_32F ? DType::f32
         : t == CUDA_R_16BF ? DType::bf16 : DType::f16;
}
std::int64_t Layout::bytes_between() const { return core::bits(type_of(type)) / 8 * stride; }
std::uint64_t alignment(const void* p) {
  return std::uint64_t{1} << std::countr_zero(std::bit_cast<std::uintptr_t>(p) | 256U);
}
bool transposed(const Desc& d, int what) {
  return got(d.attributes, what) == static_cast<std::uint64_t>(CUBLAS_OP_T);
}
unsigned epilogue(const Desc& d) {
  return static_cast<unsigned>(
      got(d.attributes, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT));
}
bool has_bias(const Desc& d) { return (epilogue(d) & CUBLASLT_EPILOGUE_BIAS) != 0; }
bool keeps(const Desc& d) { return (epilogue(d) & 128U) != 0; }

// op(A)[m, k] op(B)[k, n] = C[m, n], types that the library's table lists.
bool agree(const Desc& d, const Layout& a, const Layout& b, const Layout& c) {
  const bool ta = transposed(d, CUBLASLT_MATMUL_DESC_TRANSA),
             tb = transposed(d, CUBLASLT_MATMUL_DESC_TRANSB);
  const bool shapes = (ta ? a.columns : a.rows) == c.rows &&
                      (ta ? a.rows : a.columns) == (tb ? b.columns : b.rows) &&
                      (tb ? b.rows : b.columns) == c.columns;
  const bool wide = c.type == CUDA_R_64F;
  const bool types = a.type == b.type && (c.type == a.type || c.type == CUDA_R_32F) &&
                     d.compute == (wide ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F) &&
                     d.scale == (wide ? CUDA_R_64F : CUDA_R_32F);
  const auto aux_ld =
      static_cast<std::int64_t>(got(d.attributes, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD));
  const bool kept = !keeps(d) || (aux_ld % 8 == 0 && aux_ld >= c.rows);
  const bool batches = a.count == c.count && b.count == c.count && (c.count == 1 || !keeps(d));
  return shapes && types && kept && batches && a.ld >= a.rows && b.ld >= b.rows && c.ld >= c.rows;
}

std::uint64_t beside(const Desc& d) {
  return std::min(alignment(pointer(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER)),
                  alignment(pointer(d, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER)));
}

// An algorithm's words: the alignment that it takes for granted of a, b, c and of a bias or kept
// sums, and which of the proposals it is.
void propose(cublasLtMatmulHeuristicResult_t& result, int index, const Attributes& asked,
             const Desc& desc) {
  std::uint64_t* const words = result.algo.data;
  words[0] = got(asked, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 256);
  words[1] = got(asked, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, 256);
  words[2] = std::min(got(asked, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, 256),
                      got(asked, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, 256));
  words[3] = beside(desc);
  words[4] = static_cast<std::uint64_t>(index);
  result.state = CUBLAS_STATUS_SUCCESS;
}

float now = 0;                         // milliseconds

double at(const void* data, const Layout& l, std::int64_t row, std::int64_t column) {
  return exec::host::get<double>({const_cast<void*>(data), type_of(l.type)}, row + column * l.ld);
}

}  // namespace

cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) {
  *h = nullptr;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtDestroy(cublasLtHandle_t) { return CUBLAS_STATUS_SUCCESS; }
const char* cublasLtGetStatusString(cublasStatus_t) { return "as the fake says"; }

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t compute,
                                        cudaDataType_t scale) {
  *d = as<cublasLtMatmulDescOpaque_t>(new Desc{compute, scale, {}});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  delete as<Desc>(d);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t d,
                                              cublasLtMatmulDescAttributes_t what,
                                              const void* value, std::size_t size) {
  return keep(as<Desc>(d)->attributes, what, value, size);
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType_t type,
                                          std::uint64_t rows, std::uint64_t columns,
                                          std::int64_t ld) {
  *l = as<cublasLtMatrixLayoutOpaque_t>(new Layout{type, static_cast<std::int64_t>(rows),
                                                   static_cast<std::int64_t>(columns), ld});
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t l,
                                                cublasLtMatrixLayoutAttribute_t what,
                                                const void* value, std::size_t size) {
  Layout& layout = *as<Layout>(l);
  if (what == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT && size == 4)
    layout.count = *static_cast<const std::int32_t*>(value);
  else if (what == CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET && size == 8)
    layout.stride = *static_cast<const std::int64_t*>(value);
  else
    return CUBLAS_STATUS_INVALID_VALUE;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  delete as<Layout>(l);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  *p = as<cublasLtMatmulPreferenceOpaque_t>(new Attributes);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  delete as<Attributes>(p);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t p,
                                                    cublasLtMatmulPreferenceAttributes_t what,
                                                    const void* value, std::size_t size) {
  return keep(*as<Attributes>(p), what, value, size);
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
    cublasLtMatmulPreference_t preference, int wanted, cublasLtMatmulHeuristicResult_t results[],
    int* found) {
  ++fake_cublaslt::heuristics;
  *found = 0;
  const Desc& desc = *as<Desc>(operation);
  const Attributes& asked = *as<Attributes>(preference);
  if (c != d || !agree(desc, *as<Layout>(a), *as<Layout>(b), *as<Layout>(c)))
    return CUBLAS_STATUS_INVALID_VALUE;
  constexpr std::uint64_t kRounding =
      CUBLASLT_REDUCTION_SCHEME_INPLACE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  const std::uint64_t schemes = got(asked, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                    CUBLASLT_REDUCTION_SCHEME_MASK);
  if ((schemes & kRounding) != 0) return CUBLAS_STATUS_INVALID_VALUE;
  const bool plain = epilogue(desc) == CUBLASLT_EPILOGUE_DEFAULT;
  if (!fake_cublaslt::has_products || (!plain && !fake_cublaslt::has_epilogues))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  *found = std::min(wanted, static_cast<int>(fake_cublaslt::times.size()));
  for (int i = *found - 1; i >= 0; --i) propose(results[i], i, asked, desc);
  return CUBLAS_STATUS_SUCCESS;
}

// Sums in f64, rounded to f32 where that is the compute type: the caller's bounds allow for it.
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t operation, const void* alpha,
                              const void* a, cublasLtMatrixLayout_t a_layout, const void* b,
                              cublasLtMatrixLayout_t b_layout, const void* beta, const void* c,
                              cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo,
                              void*, std::size_t, cudaStream_t) {
  const Desc& desc = *as<Desc>(operation);
  const Layout &la = *as<Layout>(a_layout), &lb = *as<Layout>(b_layout),
               &lc = *as<Layout>(c_layout);
  const std::uint64_t* const words = algo->data;
  const auto moved = [](const void* first, std::int64_t bytes) {
    return static_cast<const std::byte*>(first) + bytes;
  };
  // One after the other, each held against what the algorithm takes for granted.
  for (std::int64_t i = 1; i < lc.count; ++i) {
    Layout ones[3] = {la, lb, lc};
    for (Layout& one : ones) one.count = 1;
    const auto layout = [&](int at) { return as<cublasLtMatrixLayoutOpaque_t>(&ones[at]); };
    const void* const own = moved(c, i * lc.bytes_between());
    const cublasStatus_t status =
        cublasLtMatmul(nullptr, operation, alpha, moved(a, i * la.bytes_between()), layout(0),
                       moved(b, i * lb.bytes_between()), layout(1), beta, own, layout(2),
                       const_cast<void*>(own), layout(2), algo, nullptr, 0, nullptr);
    if (status != CUBLAS_STATUS_SUCCESS) return status;
  }
  if (c != d || c_layout != d_layout || alignment(a) < words[0] || alignment(b) < words[1] ||
      alignment(c) < words[2] || beside(desc) < words[3])
    return CUBLAS_STATUS_EXECUTION_FAILED;
  now += fake_cublaslt::times[words[4]];
  fake_cublaslt::ran.push_back(static_cast<int>(words[4]));
  const auto factor = [&](const void* p) {
    return desc.scale == CUDA_R_64F ? *static_cast<const double*>(p)
                                    : static_cast<double>(*static_cast<const float*>(p));
  };
  const bool ta = transposed(desc, CUBLASLT_MATMUL_DESC_TRANSA),
             tb = transposed(desc, CUBLASLT_MATMUL_DESC_TRANSB);
  const std::int64_t depth = ta ? la.rows : la.columns;
  const exec::host::View out{d, type_of(lc.type)},
      kept{pointer(desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER), out.type},
      bias{pointer(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER),
           type_of(static_cast<cudaDataType_t>(
               got(desc.attributes, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE)))};
  const auto aux_ld =
      static_cast<std::int64_t>(got(desc.attributes, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD));
  for (std::int64_t j = 0; j < lc.columns; ++j)
    for (std::int64_t i = 0; i < lc.rows; ++i) {
      double sum = 0;
      for (std::int64_t k = 0; k < depth; ++k)
        sum += (ta ? at(a, la, k, i) : at(a, la, i, k)) * (tb ? at(b, lb, j, k) : at(b, lb, k, j));
      sum *= factor(alpha);
      if (factor(beta) != 0) sum += factor(beta) * at(c, lc, i, j);
      if (has_bias(desc)) sum += exec::host::get<double>(bias, i);
      const exec::host::View x{&sum, DType::f64};
      if (epilogue(desc) == CUBLASLT_EPILOGUE_DGELU) {
        double before = exec::host::get<double>(kept, i + j * aux_ld);
        exec::host::gelu_gradient(x, x, {&before, DType::f64}, 1);
      } else if (keeps(desc)) {
        exec::host::put(kept, i + j * aux_ld, sum);
        exec::host::gelu(x, x, 1);
      }
      exec::host::put(out, i + j * lc.ld, sum);
    }
  return CUBLAS_STATUS_SUCCESS;
}

// Events are moments of one clock, which products alone move.
cudaError_t cudaEventCreate(cudaEvent_t* e) {
  *e = as<CUevent_st>(new float(0));
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete as<float>(e);
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t) {
  *as<float>(e) = now;
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t from, cudaEvent_t to) {
  *milliseconds = *as<float>(to) - *as<float>(from);
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t, cudaStreamCaptureStatus* status) {
  *status = fake_cublaslt::capturing ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  if (!fake_cublaslt::has_memory) return cudaErrorMemoryAllocation;
  *memory = ::operator new(bytes, std::align_val_t{256});
  return cudaSuccess;
}
cudaError_t cudaFree(void* memory) {
  ::operator delete(memory, std::align_val_t{256});
  return cudaSuccess;
}
cudaError_t cudaMemsetAsync(void* to, int value, std::size_t bytes, cudaStream_t) {
  std::memset(to, value, bytes);
  return cudaSuccess;
}

cudaError_t cudaGetLastError() { return cudaSuccess; }
const char* cudaGetErrorName(cudaError_t) { return "cudaErrorOfTheFake"; }
const char* cudaGetErrorString(cudaError_t) { return "as the fake says"; }
