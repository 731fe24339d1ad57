// Matrix products of cuBLASLt on a GPU, as a step of GPT-2 has them: a row of JSON for each shape,
// on standard output, with the time of each algorithm that its heuristic proposes, in its order.
// The head's three products are measured with rows of logits that lie side by side, that begin at
// multiples of 16 and of 128 bytes, and with a vocabulary that is padded to a multiple of 64. Exit
// 77 where no GPU answers. usage: gpu_products [REPEATS]

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <tuple>
#include <vector>

namespace {

constexpr std::size_t kWorkspace = std::size_t{32} << 20;
constexpr int kAlgorithms = 8;

void check(bool good, const char* what) {
  if (good) return;
  std::printf("{\"failed\": \"%s\"}\n", what);
  std::exit(1);
}
void check(cudaError_t status, const char* what) {
  check(status == cudaSuccess, what);
}
void check(cublasStatus_t status, const char* what) {
  check(status == CUBLAS_STATUS_SUCCESS, what);
}

// Row-major c[m, n] = op(a) op(b); of a transposed operand the stored rows are its columns.
struct Product {
  std::string name;
  std::int64_t m, n, k;
  std::int64_t lda, ldb, ldc;
  bool ta, tb, accumulate;
  bool sums = false;                   // also of a's rows, over k: a bias's gradient
};

struct Memory {
  void* data = nullptr;
  explicit Memory(std::size_t bytes) { check(cudaMalloc(&data, bytes), "cudaMalloc"); }
  ~Memory() { cudaFree(data); }
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
};

// bf16 numbers in [-2, 2), never zeros: those would run faster.
void fill(void* to, std::int64_t n) {
  static std::vector<std::uint16_t> pattern;
  if (pattern.empty()) {
    std::uint64_t state = 1;
    for (int i = 0; i < 1 << 20; ++i) {
      state = state * 6364136223846793005ULL + 1442695040888963407ULL;
      const auto word = static_cast<std::uint32_t>(state >> 32);
      pattern.push_back(
          static_cast<std::uint16_t>((word & 0x807fU) | (0x3f00U + (word >> 8 & 0x80U))));
    }
  }
  const auto whole = static_cast<std::int64_t>(pattern.size());
  for (std::int64_t at = 0; at < n; at += whole)
    check(cudaMemcpy(static_cast<std::uint16_t*>(to) + at, pattern.data(),
                     static_cast<std::size_t>(std::min(whole, n - at)) * 2, cudaMemcpyHostToDevice),
          "cudaMemcpy");
}

cublasLtMatrixLayout_t layout(std::int64_t rows, std::int64_t columns, std::int64_t ld, bool t) {
  if (t) std::swap(rows, columns);
  cublasLtMatrixLayout_t l = nullptr;
  check(cublasLtMatrixLayoutCreate(&l, CUDA_R_16BF, static_cast<std::uint64_t>(columns),
                                   static_cast<std::uint64_t>(rows), ld),
        "layout");
  return l;
}

void measure(cublasLtHandle_t handle, const Product& p, int repeats) {
  const std::int64_t rows_a = p.ta ? p.k : p.m, rows_b = p.tb ? p.n : p.k;
  const Memory a(static_cast<std::size_t>(rows_a * p.lda) * 2),
      b(static_cast<std::size_t>(rows_b * p.ldb) * 2), c(static_cast<std::size_t>(p.m * p.ldc) * 2),
      workspace(kWorkspace);
  fill(a.data, rows_a * p.lda);
  fill(b.data, rows_b * p.ldb);
  fill(c.data, p.m * p.ldc);
  cublasLtMatmulDesc_t d = nullptr;
  check(cublasLtMatmulDescCreate(&d, CUBLAS_COMPUTE_32F, CUDA_R_32F), "descriptor");
  const cublasOperation_t first = p.tb ? CUBLAS_OP_T : CUBLAS_OP_N,
                          second = p.ta ? CUBLAS_OP_T : CUBLAS_OP_N;
  cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSA, &first, sizeof first);
  cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_TRANSB, &second, sizeof second);
  const Memory bias(static_cast<std::size_t>(p.m) * 2);
  if (p.sums) {
    const cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_BGRADB;
    cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    cublasLtMatmulDescSetAttribute(d, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &bias.data,
                                   sizeof bias.data);
  }
  cublasLtMatrixLayout_t lb = layout(p.k, p.n, p.ldb, p.tb), la = layout(p.m, p.k, p.lda, p.ta),
                         lc = layout(p.m, p.n, p.ldc, false);
  cublasLtMatmulPreference_t preference = nullptr;
  check(cublasLtMatmulPreferenceCreate(&preference), "preference");
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                       &kWorkspace, sizeof kWorkspace);
  const std::uint32_t schemes =
      CUBLASLT_REDUCTION_SCHEME_NONE | CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                                       &schemes, sizeof schemes);
  cublasLtMatmulHeuristicResult_t found[kAlgorithms];
  int count = 0;
  const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
      handle, d, lb, la, lc, lc, preference, kAlgorithms, found, &count);
  if (p.sums && (status != CUBLAS_STATUS_SUCCESS || count == 0)) {
    std::printf("{\"name\": \"%s\", \"none\": %d}\n", p.name.c_str(), static_cast<int>(status));
    return;
  }
  check(status, p.name.c_str());
  cudaEvent_t begin = nullptr, end = nullptr;
  cudaEventCreate(&begin);
  cudaEventCreate(&end);
  const float alpha = 1, beta = p.accumulate ? 1.0F : 0.0F;
  const double flops =
      2.0 * static_cast<double>(p.m) * static_cast<double>(p.n) * static_cast<double>(p.k);
  std::printf(
      "{\"name\": \"%s\", \"m\": %lld, \"n\": %lld, \"k\": %lld, \"ld\": [%lld, %lld, %lld], "
      "\"seconds\": [",
      p.name.c_str(), static_cast<long long>(p.m), static_cast<long long>(p.n),
      static_cast<long long>(p.k), static_cast<long long>(p.lda), static_cast<long long>(p.ldb),
      static_cast<long long>(p.ldc));
  double best = 1e9, proposed = 0;
  for (int i = 0; i < count; ++i) {
    std::vector<float> times;
    for (int r = -1; r < repeats; ++r) {
      cudaEventRecord(begin, nullptr);
      const cublasStatus_t ran =
          cublasLtMatmul(handle, d, &alpha, b.data, lb, a.data, la, &beta, c.data, lc, c.data, lc,
                         &found[i].algo, workspace.data, kWorkspace, nullptr);
      cudaEventRecord(end, nullptr);
      check(cudaEventSynchronize(end), "a product");
      float ms = 0;
      cudaEventElapsedTime(&ms, begin, end);
      if (ran != CUBLAS_STATUS_SUCCESS) ms = -1;
      if (r >= 0) times.push_back(ms);
    }
    std::ranges::sort(times);
    const double seconds = times[times.size() / 2] / 1e3;
    if (i == 0) proposed = seconds;
    if (seconds > 0) best = std::min(best, seconds);
    std::printf("%s%.4g", i > 0 ? ", " : "", seconds);
  }
  std::printf("], \"first_tflops\": %.4g, \"best_tflops\": %.4g}\n", flops / proposed / 1e12,
              flops / best / 1e12);
  cudaEventDestroy(begin);
  cudaEventDestroy(end);
  cublasLtMatmulPreferenceDestroy(preference);
  for (cublasLtMatrixLayout_t l : {la, lb, lc}) cublasLtMatrixLayoutDestroy(l);
  cublasLtMatmulDescDestroy(d);
}

// y = x w^T, dx = dy w, dw += dy^T x; row: elements from a row of y to the next.
std::vector<Product> of_layer(const std::string& name, std::int64_t rows, std::int64_t n,
                              std::int64_t k, std::int64_t row) {
  return {{name + " forward", rows, n, k, k, k, row, false, true, false},
          {name + " input_gradient", rows, k, n, row, k, k, false, false, false},
          {name + " weight_gradient", n, k, rows, row, k, k, true, false, true},
          {name + " weight_gradient with sums", n, k, rows, row, k, k, true, false, true, true}};
}

}  // namespace

int main(int count, char** arguments) {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU answers\n");
    return 77;
  }
  const int repeats = count > 1 ? std::max(1, std::atoi(arguments[1])) : 5;
  cublasLtHandle_t handle = nullptr;
  check(cublasLtCreate(&handle), "cublasLtCreate");
  const auto all = [&](const std::vector<Product>& products) {
    for (const Product& p : products) measure(handle, p, repeats);
  };
  constexpr std::int64_t kVocabulary = 50257, kRows = 32768, kHidden = 768;
  all(of_layer("head, rows of 50257", kRows, kVocabulary, kHidden, kVocabulary));
  all(of_layer("head, rows of 50264", kRows, kVocabulary, kHidden, 50264));
  all(of_layer("head, rows of 50304", kRows, kVocabulary, kHidden, 50304));
  all(of_layer("head, 50256 of rows of 50304", kRows, 50256, kHidden, 50304));
  all(of_layer("head, vocabulary of 50304", kRows, 50304, kHidden, 50304));
  for (const auto& [model, rows, h] :
       {std::tuple{"124M ", kRows, kHidden}, {"1.5B ", std::int64_t{8192}, std::int64_t{1600}}}) {
    all(of_layer(std::string(model) + "attn.qkv", rows, 3 * h, h, 3 * h));
    all(of_layer(std::string(model) + "attn.proj", rows, h, h, h));
    all(of_layer(std::string(model) + "mlp.fc", rows, 4 * h, h, 4 * h));
    all(of_layer(std::string(model) + "mlp.proj", rows, h, 4 * h, h));
  }
  cublasLtDestroy(handle);
  return 0;
}
