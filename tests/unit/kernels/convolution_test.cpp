// Convolutions: naive sums over windows, values by hand, gradients against central differences.
#include "tests/unit/kernels/images.hpp"

using namespace kernel_tests;

namespace {

Values naive_convolution(Buffer& x, Buffer& w, Buffer& b, const ConvolutionShape& s) {
  Values y;
  const auto [height, width] = s.x.kernel;
  for (std::int64_t sample = 0; sample < s.x.samples; ++sample)
    for (std::int64_t o = 0; o < s.outputs; ++o)
      each_window(s.x, [&](std::int64_t, std::int64_t top, std::int64_t left) {
        double sum = b.at(o);
        for (std::int64_t c = 0; c < s.inputs(); ++c)
          for (std::int64_t i = 0; i < height; ++i)
            for (std::int64_t j = 0; j < width; ++j)
              sum += w.at(((o * s.inputs() + c) * height + i) * width + j) *
                     pixel(x, s.x, sample * s.x.channels + o / s.n() * s.inputs() + c, top + i,
                           left + j, 0);
        y.push_back(sum);
      });
  return y;
}

struct Convolved {
  ConvolutionShape s;
  Buffer x, w, b, y;
  Scratch scratch;
  Convolved(const WindowShape& window, std::int64_t groups, std::uint64_t seed)
      : s{window, 4, groups}, x(f64, 1), w(f64, 1), b(f64, 4), y(f64, results_of(s)),
        scratch(convolution_workspace(f64, s)) {
    Random r(seed);
    x = random(r, f64, inputs(window));
    w = random(r, f64, s.outputs * s.k());
    b = random(r, f64, s.outputs);
  }
  static std::int64_t results_of(const ConvolutionShape& s) {
    return s.x.samples * s.outputs * s.x.places();
  }
};

}  // namespace

TEST_CASE("a convolution is the naive sum over windows, whole and in groups") {
  for (const std::int64_t groups : {1, 2})
    for (const WindowShape& window : windows(6)) {
      Convolved c(window, groups, 11);
      convolution(c.y, c.x, c.w, c.b, c.s, c.scratch);
      check_near(c.y, naive_convolution(c.x, c.w, c.b, c.s));
      Buffer zero = zeros(f64, 4), without(f64, c.y.size());
      convolution(without, c.x, c.w, {}, c.s, c.scratch);
      check_near(without, naive_convolution(c.x, c.w, zero, c.s));
    }
}

TEST_CASE("a convolution of 3 x 3 by 2 x 2 by hand") {
  const ConvolutionShape s{{1, 1, 3, 3, 2, 1, 0}, 1, 1};
  Buffer x(f64, Values{1, 2, 3, 4, 5, 6, 7, 8, 9}), w(f64, Values{1, 0, 0, -1}),
      b(f64, Values{10}), y(f64, 4);
  Scratch scratch(convolution_workspace(f64, s));
  convolution(y, x, w, b, s, scratch);  // 10 + 1 - 5, and so on: 4 less each
  CHECK(y.values() == Values{6, 6, 6, 6});
}

TEST_CASE("gradients of convolutions are those of central differences") {
  for (const std::int64_t groups : {1, 2})
    for (const WindowShape& window : windows(4)) {
      Convolved c(window, groups, 12);
      Random r(13);
      Buffer dy = random(r, f64, c.y.size());
      const auto loss = [&] {
        convolution(c.y, c.x, c.w, c.b, c.s, c.scratch);
        return dot(c.y, dy);
      };
      Buffer dx(f64, c.x.size());
      convolution_input_gradient(dx, dy, c.w, c.s, false, c.scratch);
      check_gradient(c.x, dx, loss);
      Buffer old = random(r, f64, c.x.size()), sum = old;
      convolution_input_gradient(sum, dy, c.w, c.s, true, c.scratch);
      Buffer added = minus(sum, old);
      check_near(added, dx.values(), 1e-12);
      Buffer dw_old = random(r, f64, c.w.size()), db_old = random(r, f64, 4);
      Buffer dw = dw_old, db = db_old;
      convolution_weight_gradient(dw, db, dy, c.x, c.s, c.scratch);
      Buffer dw_added = minus(dw, dw_old), db_added = minus(db, db_old);
      check_gradient(c.w, dw_added, loss);
      check_gradient(c.b, db_added, loss);
    }
}

TEST_CASE("a convolution of many blocks of places is the naive one, and its gradients fit") {
  // 90 x 90 places lie in two blocks of 45 rows of at most 4096.
  const ConvolutionShape s{{1, 1, 90, 90, 3, 1, 1}, 1, 1};
  Random r(14);
  Buffer x = random(r, f64, 8100), w = random(r, f64, 9), b = random(r, f64, 1), y(f64, 8100);
  Scratch scratch(convolution_workspace(f64, s));
  convolution(y, x, w, b, s, scratch);
  check_near(y, naive_convolution(x, w, b, s));
  // <dy, conv x> = <conv^T dy, x>, and the same for w: both are linear.
  Buffer dy = random(r, f64, 8100), dx(f64, 8100), dw = zeros(f64, 9), db = zeros(f64, 1);
  convolution_input_gradient(dx, dy, w, s, false, scratch);
  convolution_weight_gradient(dw, db, dy, x, s, scratch);
  const double with_bias = dot(y, dy);
  CHECK(dot(dx, x) + dot(db, b) == Approx(with_bias));
  CHECK(dot(dw, w) + dot(db, b) == Approx(with_bias));
}

TEST_CASE("weight gradients of a batch in two calls are the bits of one, and samples stand alone") {
  const DType type = GENERATE(DType::f32, DType::f64);
  ConvolutionShape both{{2, 4, 6, 7, 3, 2, 1}, 4, 2}, one = both;
  one.x.samples = 1;
  Random r(15);
  Buffer x = random(r, type, inputs(both.x)), w = random(r, type, both.outputs * both.k());
  Buffer dy = random(r, type, Convolved::results_of(both));
  Scratch scratch(convolution_workspace(f64, both));
  Buffer dw = zeros(type, w.size()), db = zeros(type, 4), y(type, dy.size());
  convolution_weight_gradient(dw, db, dy, x, both, scratch);
  convolution(y, x, w, {}, both, scratch);
  Buffer dw_two = zeros(type, w.size()), db_two = zeros(type, 4), y_two(type, dy.size());
  for (std::int64_t i = 0; i < 2; ++i) {
    const View own = x.view().at(i * inputs(one.x));
    const View result = y_two.view().at(i * y.size() / 2);
    convolution_weight_gradient(dw_two, db_two, dy.view().at(i * dy.size() / 2), own, one, scratch);
    convolution(result, own, w, {}, one, scratch);
  }
  CHECK(dw == dw_two);
  CHECK(db == db_two);
  CHECK(y == y_two);
}
