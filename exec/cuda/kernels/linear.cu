// Linear layers: products by the API's library, biases beside them.
#include "exec/cuda/kernels/column_sums.cuh"
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"

namespace exec::cuda {
namespace {

template <class A>
struct BiasTerms {
  const A* dy;
  int64_t n;
  PLANNER_DEVICE void operator()(int64_t r, int64_t c, Compute<A>* sums) const {
    sums[0] += widen(dy[r * n + c]);
  }
};

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
  multiply(q, {.m = s.rows, .n = s.n, .k = s.k,
               .a = {x, s.ldx}, .b = {w, s.k, true}, .c = {y, s.ldy},
               .accumulate = accumulate, .bias = apart ? View{} : bias});
  if (apart) bias_add(q, y, y, bias, s.rows, s.n);
}
void linear_input_gradient(const Queue& q, View dx, View dy, View w, const host::LinearShape& s,
                           bool accumulate) {
  multiply(q, {.m = s.rows, .n = s.k, .k = s.n,
               .a = {dy, s.ldy}, .b = {w, s.k}, .c = {dx, s.ldx}, .accumulate = accumulate});
}
bool linear_gelu(const Queue& q, View z, View y, View x, View w, View bias,
                 const host::LinearShape& s) {
  if (!fits_product(bias) || !fits_product(y)) return false;
  return q.api.multiply_gelu({.m = s.rows, .n = s.n, .k = s.k,
                              .a = {x, s.ldx}, .b = {w, s.k, true}, .c = {z, s.ldy}, .bias = bias},
                             y, false, q.workspace, q.stream);
}
bool linear_input_gradient_gelu(const Queue& q, View dx, View dy, View w, View x,
                                const host::LinearShape& s) {
  if (!fits_product(x)) return false;
  return q.api.multiply_gelu({.m = s.rows, .n = s.k, .k = s.n,
                              .a = {dy, s.ldy}, .b = {w, s.k}, .c = {dx, s.ldx}},
                             x, true, q.workspace, q.stream);
}
void linear_weight_gradient(const Queue& q, View dw, View dy, View x, const host::LinearShape& s) {
  multiply(q, {.m = s.n, .n = s.k, .k = s.rows,
               .a = {dy, s.ldy, true}, .b = {x, s.ldx}, .c = {dw, s.k}, .accumulate = true});
}
void bias_gradient(const Queue& q, View db, View dy, int64_t rows, int64_t n) {
  with_type(dy.type, [&]<class A>() {
    add_column_sums<Compute<A>, 1>(q, "bias_gradient", {real(db)}, rows, n,
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
