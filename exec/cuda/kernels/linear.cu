// Linear layers: products by the API's library, biases beside them.
//
// The library's fast kernels want extents along which elements lie side by side to be multiples of
// 16 bytes ["Tensor Core Usage" of cuBLAS's manual]: of 50,257 columns it makes 97 TFLOP/s on an
// H100, of 50,256 it makes 719 (reports/measured/h100_products.json). What is left over of wide
// rows is a product of its own.
#include "exec/cuda/kernels/column_sums.cuh"
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {
namespace {

template <class A>
struct BiasTerms {
  static constexpr int kSize = Pack<A>::kSize;
  const A* dy;
  int64_t n;
  PLANNER_DEVICE void operator()(int64_t r, int64_t c, Compute<A> (&sums)[1][kSize]) const {
    Compute<A> d[kSize];
    load_pack(dy + r * n, c, n, n % kSize == 0 && aligned(dy), d);
    for (int j = 0; j < kSize; ++j) sums[0][j] += d[j];
  }
};

constexpr int64_t kStep = 16, kWide = 1024;

// Columns of y that the first product takes; all, where the rest would gain nothing.
int64_t columns_at_once(const View& y, const host::LinearShape& s) {
  const bool half = core::bits(y.type) == 16 && s.ldy % 8 == 0;
  return half && s.n >= kWide ? s.n / kStep * kStep : s.n;
}

bool fits_product(const View& beside) {
  return reinterpret_cast<std::uintptr_t>(beside.data) % kProductAlignment == 0;
}

void multiply(const Queue& q, const host::MixedGemm& product) {
  q.api.multiply(product, q.workspace, q.stream);
}

}  // namespace

void linear(const Queue& q, View y, View x, View w, View bias, const host::LinearShape& s,
            bool accumulate) {
  // The library adds biases of f64 in no epilogue, and others where it may read 16 bytes at once.
  const bool apart = bias && (y.type == core::DType::f64 || !fits_product(bias));
  const int64_t first = columns_at_once(y, s);
  const auto columns = [&](int64_t from, int64_t count) {
    const View own = apart || !bias ? View{} : bias.at(from);
    multiply(q, {.m = s.rows, .n = count, .k = s.k,
                 .a = {x, s.ldx}, .b = {w.at(from * s.k), s.k, true}, .c = {y.at(from), s.ldy},
                 .accumulate = accumulate, .bias = own});
  };
  columns(0, first);
  if (first < s.n) columns(first, s.n - first);
  if (apart) bias_add(q, y, y, bias, s.rows, s.n, s.ldy);
}
void linear_input_gradient(const Queue& q, View dx, View dy, View w, const host::LinearShape& s,
                           bool accumulate) {
  const int64_t first = columns_at_once(dy, s);
  const auto columns = [&](int64_t from, int64_t count, bool adds) {
    multiply(q, {.m = s.rows, .n = s.k, .k = count,
                 .a = {dy.at(from), s.ldy}, .b = {w.at(from * s.k), s.k}, .c = {dx, s.ldx},
                 .accumulate = adds});
  };
  // The few first: what they are rounded by is little.
  if (first < s.n) columns(first, s.n - first, accumulate);
  columns(0, first, accumulate || first < s.n);
}
bool linear_gelu(const Queue& q, View z, View y, View x, View w, View bias,
                 const host::LinearShape& s) {
  if (x.f8 != nullptr || !fits_product(bias) || !fits_product(y)) return false;
  return q.api.multiply_gelu({.m = s.rows, .n = s.n, .k = s.k,
                              .a = {x, s.ldx}, .b = {w, s.k, true}, .c = {z, s.ldy}, .bias = bias},
                             y, false, q.workspace, q.stream);
}
bool linear_input_gradient_gelu(const Queue& q, View dx, View dy, View w, View x,
                                const host::LinearShape& s) {
  if (dy.f8 != nullptr || !fits_product(x)) return false;
  return q.api.multiply_gelu({.m = s.rows, .n = s.k, .k = s.n,
                              .a = {dy, s.ldy}, .b = {w, s.k}, .c = {dx, s.ldx}},
                             x, true, q.workspace, q.stream);
}
void linear_weight_gradient(const Queue& q, View dw, View dy, View x, const host::LinearShape& s) {
  const int64_t first = columns_at_once(dy, s);
  const auto columns = [&](int64_t from, int64_t count) {
    multiply(q, {.m = count, .n = s.k, .k = s.rows,
                 .a = {dy.at(from), s.ldy, true}, .b = {x, s.ldx}, .c = {dw.at(from * s.k), s.k},
                 .accumulate = true});
  };
  columns(0, first);
  if (first < s.n) columns(first, s.n - first);
}
void bias_gradient(const Queue& q, View db, View dy, int64_t rows, int64_t n) {
  with_type(dy.type, [&]<class A>() {
    add_column_sums<A, 1>(q, "bias_gradient", {real(db)}, rows, n,
                                   BiasTerms<A>{typed<A>(dy), n});
  });
}

void lora_up(const Queue& q, View y, View u, View b, const host::LoraShape& s) {
  const auto groups = static_cast<int64_t>(s.offsets.size());
  for (int64_t g = 0; g < groups; ++g)
    multiply(q, {.m = s.rows, .n = s.n, .k = s.r,
                 .a = {u.at(g * s.r), groups * s.r}, .b = {b.at(g * s.n * s.r), s.r, true},
                 .c = {y.at(s.offsets[static_cast<std::size_t>(g)]), s.ldy},
                 .accumulate = true, .alpha = s.scale});
}
void lora_up_input_gradient(const Queue& q, View du, View dy, View b, const host::LoraShape& s) {
  const auto groups = static_cast<int64_t>(s.offsets.size());
  for (int64_t g = 0; g < groups; ++g)
    multiply(q, {.m = s.rows, .n = s.r, .k = s.n,
                 .a = {dy.at(s.offsets[static_cast<std::size_t>(g)]), s.ldy},
                 .b = {b.at(g * s.n * s.r), s.r}, .c = {du.at(g * s.r), groups * s.r},
                 .alpha = s.scale});
}
void lora_up_weight_gradient(const Queue& q, View db, View dy, View u, const host::LoraShape& s) {
  const auto groups = static_cast<int64_t>(s.offsets.size());
  for (int64_t g = 0; g < groups; ++g)
    multiply(q, {.m = s.n, .n = s.r, .k = s.rows,
                 .a = {dy.at(s.offsets[static_cast<std::size_t>(g)]), s.ldy, true},
                 .b = {u.at(g * s.r), groups * s.r}, .c = {db.at(g * s.n * s.r), s.r},
                 .accumulate = true, .alpha = s.scale});
}

}  // namespace exec::cuda
