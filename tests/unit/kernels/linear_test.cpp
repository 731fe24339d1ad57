#include "exec/host/gemm.hpp"
#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;

namespace {

// Exact operands in double: the sum and the sum of magnitudes of each product.
struct Reference {
  Values sum, magnitude;
};

Reference product(const Values& a, const Values& b, std::int64_t m, std::int64_t n, std::int64_t k,
                  bool ta, bool tb) {
  Reference out{Values(static_cast<std::size_t>(m * n)), Values(static_cast<std::size_t>(m * n))};
  for (std::int64_t i = 0; i < m; ++i) {
    for (std::int64_t p = 0; p < k; ++p) {
      const double x = a[static_cast<std::size_t>(ta ? p * m + i : i * k + p)];
      for (std::int64_t j = 0; j < n; ++j) {
        const double t = x * b[static_cast<std::size_t>(tb ? j * k + p : p * n + j)];
        out.sum[static_cast<std::size_t>(i * n + j)] += t;
        out.magnitude[static_cast<std::size_t>(i * n + j)] += std::abs(t);
      }
    }
  }
  return out;
}

// |got - sum| <= k u32 magnitude (any order of a float sum of k products, and the addition of what
// stood there) + one rounding to the type of the result.
void check_product(Buffer& got, const Values& before, const Reference& want, std::int64_t k,
                   DType type) {
  const Values values = got.values();
  double worst = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exact = want.sum[i] + before[i];
    const double bound =
        static_cast<double>(k + 2) * 0x1p-24 * (want.magnitude[i] + std::abs(before[i])) +
        1.01 * roundoff(type) * std::abs(exact) + 1e-30;
    worst = std::max(worst, std::abs(values[i] - exact) / bound);
    if (!std::isfinite(values[i])) worst = values[i];
  }
  CHECK(worst <= 1.0);
}

}  // namespace

TEST_CASE("every mix of types in linear stays within the bound of its roundings") {
  Random r(21);
  const DType activation = GENERATE(DType::f32, DType::bf16, DType::f16);
  const DType weight = GENERATE(DType::f32, DType::bf16, DType::f16);
  const DType gradient = GENERATE(DType::f32, DType::bf16);
  const bool large = activation == DType::bf16 && weight == DType::bf16;
  // The large shape has several panels and a remainder in every direction.
  const LinearShape s = large ? LinearShape{261, 270, 1030, 270, 1030} : LinearShape{7, 5, 9, 5, 9};
  CAPTURE(core::name(activation), core::name(weight), core::name(gradient));
  Buffer x = random(r, activation, s.rows * s.k), w = random(r, weight, s.n * s.k);
  Buffer dy = random(r, activation, s.rows * s.n);
  Buffer y(activation, s.rows * s.n), dx = random(r, activation, s.rows * s.k);
  Buffer dw = random(r, gradient, s.n * s.k);
  Scratch ws(linear_workspace(activation, s));
  const Values zero_y(static_cast<std::size_t>(s.rows * s.n)), old_x = dx.values(),
                                                               old_w = dw.values();

  linear(y, x, w, {}, s, false, ws);
  check_product(y, zero_y, product(x.values(), w.values(), s.rows, s.n, s.k, false, true), s.k,
                activation);
  linear_input_gradient(dx, dy, w, s, true, ws);
  check_product(dx, old_x, product(dy.values(), w.values(), s.rows, s.k, s.n, false, false), s.n,
                activation);
  linear_weight_gradient(dw, dy, x, s, ws);
  check_product(dw, old_w, product(dy.values(), x.values(), s.n, s.k, s.rows, true, false), s.rows,
                gradient);
}

TEST_CASE("a bf16 linear with bias rounds once") {
  // 1 + 2^-8 is a tie that rounds to 1; adding the bias 2^-8 after that would round to 1 again, but
  // the sum 1 + 2^-7 is a bf16.
  Buffer x(DType::bf16, Values{1, 0x1p-8}), w(DType::bf16, Values{1, 1}),
      b(DType::bf16, Values{0x1p-8});
  Buffer y(DType::bf16, 1);
  const LinearShape s{1, 1, 2, 1, 2};
  linear(y, x, w, b, s, false, Scratch(linear_workspace(DType::bf16, s)));
  CHECK(y.at(0) == 1.0 + 0x1p-7);
}

TEST_CASE("f32 gradients of bf16 operands keep what bf16 would lose") {
  Buffer x(DType::bf16, Values{0x1p-12}), dy(DType::bf16, Values{1}), dw(f32, Values{1});
  const LinearShape s{1, 1, 1, 1, 1};
  for (int i = 0; i < 3; ++i)
    linear_weight_gradient(dw, dy, x, s, Scratch(linear_workspace(DType::bf16, s)));
  CHECK(dw.at(0) == 1.0 + 3 * 0x1p-12);
}

TEST_CASE("a product's bits do not depend on where its operands lie") {
  Random r(22);
  const LinearShape s{67, 45, 83, 45, 83};
  Buffer x = random(r, f32, s.rows * s.k + 16), w = random(r, f32, s.n * s.k),
         first(f32, s.rows * s.n);
  linear(first, x, w, {}, s, false, {});
  for (std::int64_t shift = 1; shift < 16; ++shift) {
    Buffer moved(f32, x.size()), y(f32, s.rows * s.n);
    copy(moved.view().at(shift), x, s.rows * s.k);
    linear(y, moved.view().at(shift), w, {}, s, false, {});
    CHECK(y == first);
  }
}
