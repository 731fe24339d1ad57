#include "exec/host/gemm.hpp"

#include <cblas.h>

#include <algorithm>
#include <limits>

#include "exec/host/convert.hpp"

namespace exec::host {
namespace {

// Panels of C are kBlock x kBlock, summed over kDepth at a time: two operand panels of 1 MiB (f32)
// fit the second-level cache, and a conversion serves 256 multiply-adds.
constexpr std::int64_t kBlock = 256;
constexpr std::int64_t kDepth = 1024;

void use_one_thread() {
  static const bool once = [] {
    openblas_set_num_threads(1);
    return true;
  }();
  (void)once;
}

blasint narrow(std::int64_t x) {
  PLANNER_CHECK(x <= std::numeric_limits<blasint>::max(), "matrix too large for OpenBLAS");
  return static_cast<blasint>(x);
}

CBLAS_TRANSPOSE flag(bool transposed) { return transposed ? CblasTrans : CblasNoTrans; }

template <class T>
struct Panel {
  const T* data;
  std::int64_t leading;
};

// The block of op(x) at (row, column), rows x columns: in place, or converted as stored.
template <class T>
Panel<T> panel(const Matrix& x, std::int64_t row, std::int64_t column, std::int64_t rows,
               std::int64_t columns, T* buffer) {
  if (x.transposed) {
    std::swap(row, column);
    std::swap(rows, columns);
  }
  const View start = x.view.at(row * x.leading + column);
  if (start.type == dtype_of<T>()) return {static_cast<const T*>(start.data), x.leading};
  for (std::int64_t r = 0; r < rows; ++r)
    load(start.at(r * x.leading), columns, buffer + r * columns);
  return {buffer, columns};
}

template <class T>
void add_rows(T* y, const T* x, std::int64_t n) {
#pragma GCC ivdep
  for (std::int64_t i = 0; i < n; ++i) y[i] += x[i];
}

// c (=|+=) panel (+ bias), rounded once. The panel may be c itself.
template <class T>
void write_back(const MixedGemm& g, std::int64_t i, std::int64_t j, std::int64_t rows,
                std::int64_t columns, T* block, std::int64_t leading) {
  const bool in_place = g.c.view.type == dtype_of<T>();
  if (in_place && !g.bias) return;
  T buffer[kChunk];
  for_chunks(columns, [&](std::int64_t c, std::int64_t m) {
    T bias_buffer[kChunk];
    const T* const bias = g.bias ? read(g.bias.at(j + c), m, bias_buffer) : nullptr;
    for (std::int64_t r = 0; r < rows; ++r) {
      T* const y = block + r * leading + c;
      const View out = g.c.view.at((i + r) * g.c.leading + j + c);
      if (bias != nullptr) add_rows(y, bias, m);
      if (in_place) continue;
      if (g.accumulate) add_rows(y, read(out, m, buffer), m);
      store(out, m, y);
    }
  });
}

template <class T>
void direct(const MixedGemm& g) {
  T* const c = static_cast<T*>(g.c.view.data);
  gemm(g.a.transposed, g.b.transposed, g.m, g.n, g.k, static_cast<T>(g.alpha),
       static_cast<const T*>(g.a.view.data), g.a.leading, static_cast<const T*>(g.b.view.data),
       g.b.leading, g.accumulate ? T(1) : T(0), c, g.c.leading);
  write_back(g, 0, 0, g.m, g.n, c, g.c.leading);
}

template <class T>
void in_panels(const MixedGemm& g, Workspace workspace) {
  const std::int64_t mb = std::min(g.m, kBlock), nb = std::min(g.n, kBlock),
                     kb = std::min(g.k, kDepth);
  T* const a_buffer = workspace.take<T>(mb * kb);
  T* const b_buffer = workspace.take<T>(nb * kb);
  T* const c_buffer = workspace.take<T>(mb * nb);
  const bool in_place = g.c.view.type == dtype_of<T>();
  const auto block = [&](std::int64_t i, std::int64_t j) {
    const std::int64_t m = std::min(mb, g.m - i), n = std::min(nb, g.n - j);
    T* const c = in_place ? static_cast<T*>(g.c.view.data) + i * g.c.leading + j : c_buffer;
    const std::int64_t ldc = in_place ? g.c.leading : n;
    for (std::int64_t p = 0; p < g.k; p += kb) {
      const std::int64_t k = std::min(kb, g.k - p);
      const Panel<T> a = panel(g.a, i, p, m, k, a_buffer);
      const Panel<T> b = panel(g.b, p, j, k, n, b_buffer);
      const bool add = p > 0 || (in_place && g.accumulate);
      gemm(g.a.transposed, g.b.transposed, m, n, k, static_cast<T>(g.alpha), a.data, a.leading,
           b.data, b.leading, add ? T(1) : T(0), c, ldc);
    }
    write_back(g, i, j, m, n, c, ldc);
  };
  for (std::int64_t j = 0; j < g.n; j += nb) {
    for (std::int64_t i = 0; i < g.m; i += mb) block(i, j);
  }
}

}  // namespace

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          float alpha, const float* a, std::int64_t lda, const float* b, std::int64_t ldb,
          float beta, float* c, std::int64_t ldc) {
  use_one_thread();
  cblas_sgemm(CblasRowMajor, flag(transpose_a), flag(transpose_b), narrow(m), narrow(n), narrow(k),
              alpha, a, narrow(lda), b, narrow(ldb), beta, c, narrow(ldc));
}

void gemm(bool transpose_a, bool transpose_b, std::int64_t m, std::int64_t n, std::int64_t k,
          double alpha, const double* a, std::int64_t lda, const double* b, std::int64_t ldb,
          double beta, double* c, std::int64_t ldc) {
  use_one_thread();
  cblas_dgemm(CblasRowMajor, flag(transpose_a), flag(transpose_b), narrow(m), narrow(n), narrow(k),
              alpha, a, narrow(lda), b, narrow(ldb), beta, c, narrow(ldc));
}

void mixed_gemm(core::DType activation, const MixedGemm& g, Workspace workspace) {
  for (std::int64_t i = 1; i < g.count; ++i) {
    MixedGemm one = g;
    one.count = 1;
    for (Matrix* const m : {&one.a, &one.b, &one.c}) m->view = m->view.at(i * m->stride);
    mixed_gemm(activation, one, workspace);
  }
  with_compute_type(activation, [&]<class T>() {
    constexpr core::DType t = dtype_of<T>();
    const bool same = g.a.view.type == t && g.b.view.type == t && g.c.view.type == t;
    if (same) {
      direct<T>(g);
    } else {
      in_panels<T>(g, workspace);
    }
  });
}

core::Bytes mixed_gemm_workspace(core::DType activation, std::int64_t m, std::int64_t n,
                                 std::int64_t k) {
  const std::int64_t mb = std::min(m, kBlock), nb = std::min(n, kBlock), kb = std::min(k, kDepth);
  const std::int64_t elements = mb * kb + nb * kb + mb * nb;
  const std::int64_t size = activation == core::DType::f64 ? 8 : 4;
  return core::Bytes(elements * size + 3 * 63);
}

}  // namespace exec::host
