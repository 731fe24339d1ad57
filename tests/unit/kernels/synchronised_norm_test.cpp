// Batch norms over the samples of several ranks: from the ranks' sums, what one rank computes that
// has all samples.
#include "tests/unit/kernels/images.hpp"

using namespace kernel_tests;

namespace {

constexpr double kEpsilon = 1e-5;

// Two ranks' halves of a batch, and the sums of both.
struct Halves {
  ChannelShape all{6, 4, 5}, half{3, 4, 5};
  std::int64_t each = 3 * 4 * 5;
  Buffer sums(Buffer& x) const {
    Buffer total = zeros(f64, 2 * all.channels);
    for (const std::int64_t r : {0, 1}) {
      Buffer own(f64, 2 * all.channels);
      channel_sums(own, x.view().at(r * each), half);
      for (std::int64_t i = 0; i < own.size(); ++i) total.put_at(i, total.at(i) + own.at(i));
    }
    return total;
  }
};

}  // namespace

TEST_CASE("sums of a channel are those of its values and of their squares, by hand") {
  // Two samples of two channels of two places.
  Buffer x(f64, Values{1, 2, 10, 20, 3, 4, 30, 40}), sums(f64, 4);
  channel_sums(sums, x, {2, 2, 2});
  CHECK(sums.values() == Values{1 + 2 + 3 + 4, 10 + 20 + 30 + 40, 1 + 4 + 9 + 16,
                                100 + 400 + 900 + 1600});
  Buffer d(f64, Values{1, 10, 0.5, 2}), dx(f64, 8);
  channel_sums_gradient(dx, d, x, {2, 2, 2}, false);
  CHECK(dx.values() == Values{2, 3, 50, 90, 4, 5, 130, 170});  // d_sum + 2 x d_squares
}

TEST_CASE("two ranks' halves are normalised as one rank normalises the whole, and so is back") {
  const Halves h;
  Random r(31);
  const std::int64_t n = 2 * h.each, c = h.all.channels;
  Buffer x = random(r, f64, n), dy = random(r, f64, n), gamma = random(r, f64, c),
         beta = random(r, f64, c);
  Buffer sums = h.sums(x), whole(f64, n), parts(f64, n);
  batch_norm(whole, x, gamma, beta, h.all, kEpsilon);
  for (const std::int64_t rank : {0, 1})
    channel_norm(parts.view().at(rank * h.each), x.view().at(rank * h.each), sums, gamma, beta,
                 h.half, 2, kEpsilon);
  check_near(parts, whole.values());

  Buffer dx(f64, n), dgamma = zeros(f64, c), dbeta = zeros(f64, c);
  batch_norm_gradient(dx, dgamma, dbeta, dy, x, gamma, h.all, kEpsilon, false);
  // The ranks' gradients of the sums add up, and each rank's samples take their part of that.
  Buffer d_parts(f64, n), d_sums = zeros(f64, 2 * c), g = zeros(f64, c), b = zeros(f64, c);
  for (const std::int64_t rank : {0, 1}) {
    const std::int64_t at = rank * h.each;
    Buffer own(f64, 2 * c);
    channel_norm_gradient(d_parts.view().at(at), own, g, b, dy.view().at(at), x.view().at(at),
                          sums, gamma, h.half, 2, kEpsilon, false);
    for (std::int64_t i = 0; i < 2 * c; ++i) d_sums.put_at(i, d_sums.at(i) + own.at(i));
  }
  for (const std::int64_t rank : {0, 1})
    channel_sums_gradient(d_parts.view().at(rank * h.each), d_sums, x.view().at(rank * h.each),
                          h.half, true);
  check_near(d_parts, dx.values(), 1e-12);
  check_near(g, dgamma.values(), 1e-12);
  check_near(b, dbeta.values(), 1e-12);
}

TEST_CASE("the gradient of a norm of given sums is that of central differences, in x and in sums") {
  const Halves h;
  Random r(32);
  Buffer x = random(r, f64, 2 * h.each), dy = random(r, f64, h.each), gamma = random(r, f64, 4),
         beta = random(r, f64, 4);
  const Values all = x.values();
  Buffer sums = h.sums(x), own(f64, Values(all.begin(), all.begin() + h.each));
  Buffer dx(f64, h.each), d_sums(f64, 8);
  channel_norm_gradient(dx, d_sums, {}, {}, dy, own, sums, gamma, h.half, 2, kEpsilon, false);
  const auto loss = [&] {
    Buffer y(f64, h.each);
    channel_norm(y, own, sums, gamma, beta, h.half, 2, kEpsilon);
    return dot(y, dy);
  };
  check_gradient(own, dx, loss);
  check_gradient(sums, d_sums, loss);
}

TEST_CASE("a channel far from 0 keeps its variance: sums in f64 of f32 activations") {
  // Values of 1000 and 1001: the mean square less the square of the mean is 0.25.
  Buffer x(DType::f32, Values{1000, 1001, 1000, 1001}), y(DType::f32, 4), sums(f64, 2);
  Buffer gamma(DType::f32, Values{1}), beta(DType::f32, Values{0});
  channel_sums(sums, x, {4, 1, 1});
  channel_norm(y, x, sums, gamma, beta, {4, 1, 1}, 1, 0);
  for (const std::int64_t i : {0, 1}) CHECK(y.at(i) == Approx(i == 0 ? -1 : 1).epsilon(1e-6));
}
