// Kernels of operator graphs beside convolutions: values by naive loops and by hand, gradients
// against central differences, 16-bit twins of all.
#include "tests/unit/kernels/images.hpp"

using namespace kernel_tests;

TEST_CASE("max_pool is the naive maximum, remembers the first, and gives its gradient there") {
  for (const WindowShape& s : windows(3)) {
    Random r(16);
    Buffer x = random(r, f64, inputs(s)), y(f64, results(s));
    std::vector<std::uint8_t> chosen(static_cast<std::size_t>(results(s)), 0xff);
    const View where{chosen.data(), DType::u8};
    Scratch scratch(pool_workspace(f64, s));
    max_pool(y, where, x, s, scratch);
    Values expected;
    for (std::int64_t plane = 0; plane < s.samples * s.channels; ++plane)
      each_window(s, [&](std::int64_t, std::int64_t top, std::int64_t left) {
        double best = -2;
        for (std::int64_t k = 0; k < s.kernel.area(); ++k)
          best = std::max(best, pixel(x, s, plane, top + k / s.kernel.width,
                                      left + k % s.kernel.width, -2));
        expected.push_back(best);
      });
    CHECK(y.values() == expected);
    Buffer without(f64, results(s));
    max_pool(without, {}, x, s, scratch);
    CHECK(without.values() == expected);

    Buffer dy = random(r, f64, results(s)), dx(f64, inputs(s)), old = random(r, f64, inputs(s));
    max_pool_gradient(dx, dy, where, s, false, scratch);
    check_gradient(x, dx, [&] {
      Buffer out(f64, results(s));
      max_pool(out, {}, x, s, scratch);
      return dot(out, dy);
    });
    Buffer sum = old;
    max_pool_gradient(sum, dy, where, s, true, scratch);
    Buffer added = minus(sum, old);
    check_near(added, dx.values());
  }
}

TEST_CASE("of equal maxima the first is chosen, and NaN is above all") {
  const WindowShape s{1, 1, 2, 2, 2, 1, 0};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::uint8_t chosen = 9;
  Scratch scratch(pool_workspace(f64, s));
  Buffer x(f64, Values{1, 3, 3, 2}), y(f64, 1);
  max_pool(y, {&chosen, DType::u8}, x, s, scratch);
  CHECK((y.at(0) == 3 && chosen == 1));
  Buffer bad(f64, Values{1, nan, 3, 2});
  max_pool(y, {&chosen, DType::u8}, bad, s, scratch);
  CHECK((std::isnan(y.at(0)) && chosen == 1));
}

TEST_CASE("average_pool counts padding as zeros, and shares its gradient") {
  for (const WindowShape& s : windows(2)) {
    Random r(17);
    Buffer x = random(r, f64, inputs(s)), y(f64, results(s)), dy = random(r, f64, results(s));
    Scratch scratch(pool_workspace(f64, s));
    average_pool(y, x, s, scratch);
    Values expected;
    for (std::int64_t plane = 0; plane < s.samples * s.channels; ++plane)
      each_window(s, [&](std::int64_t, std::int64_t top, std::int64_t left) {
        double sum = 0;
        for (std::int64_t k = 0; k < s.kernel.area(); ++k)
          sum += pixel(x, s, plane, top + k / s.kernel.width, left + k % s.kernel.width, 0);
        expected.push_back(sum / static_cast<double>(s.kernel.area()));
      });
    check_near(y, expected);
    Buffer old = random(r, f64, inputs(s)), sum = old;
    average_pool_gradient(sum, dy, s, true, scratch);
    Buffer dx = minus(sum, old);
    check_gradient(x, dx, [&] {
      Buffer out(f64, results(s));
      average_pool(out, x, s, scratch);
      return dot(out, dy);
    });
  }
}

TEST_CASE("local response normalisation is AlexNet's formula, and its gradient fits") {
  for (const std::int64_t window : {1, 2, 5, 9}) {
    const ResponseShape s{2, 6, 7, window};
    Random r(18);
    // Large, so that the sum of squares weighs beside 2.
    Buffer x = random(r, f64, 2 * 6 * 7, 300), y(f64, x.size()), dy = random(r, f64, x.size());
    Scratch scratch(local_response_workspace(f64, s));
    local_response_norm(y, x, s, scratch);
    Values expected;
    for (std::int64_t i = 0; i < x.size(); ++i) {
      const std::int64_t c = i / s.places % s.channels, first = i - c * s.places;
      double d = 2;
      for (std::int64_t j = std::max<std::int64_t>(0, c - window / 2);
           j < std::min(s.channels, c - window / 2 + window); ++j)
        d += 1e-4 / static_cast<double>(window) * std::pow(x.at(first + j * s.places), 2);
      expected.push_back(x.at(i) * std::pow(d, -0.75));
    }
    check_near(y, expected);
    Buffer old = random(r, f64, x.size()), sum = old, dx(f64, x.size());
    local_response_norm_gradient(dx, dy, x, s, false, scratch);
    check_gradient(x, dx, [&] {
      Buffer out(f64, x.size());
      local_response_norm(out, x, s, scratch);
      return dot(out, dy);
    });
    local_response_norm_gradient(sum, dy, x, s, true, scratch);
    Buffer added = minus(sum, old);
    check_near(added, dx.values(), 1e-12);
  }
}

TEST_CASE("one channel of 100: 100 / (2 + 1e-4 x 10^4)^0.75 = 43.8691337651, by hand") {
  const ResponseShape s{1, 1, 1, 1};
  Buffer x(f64, Values{100}), y(f64, 1);
  Scratch scratch(local_response_workspace(f64, s));
  local_response_norm(y, x, s, scratch);
  CHECK(y.at(0) == Approx(43.869133765083085).epsilon(1e-14));
}

TEST_CASE("batch normalisation is its formula over samples and places, and its gradient fits") {
  constexpr double kEpsilon = 1e-5;
  for (const ChannelShape& s : {ChannelShape{3, 4, 5}, ChannelShape{7, 3, 1}}) {
    Random r(20);
    const std::int64_t n = s.samples * s.channels * s.places;
    Buffer x = random(r, f64, n), y(f64, n), dy = random(r, f64, n), dx(f64, n);
    Buffer gamma = random(r, f64, s.channels), beta = random(r, f64, s.channels);
    const auto each = [&](std::int64_t c, auto&& use) {
      for (std::int64_t i = 0; i < s.samples; ++i)
        for (std::int64_t p = 0; p < s.places; ++p) use((i * s.channels + c) * s.places + p);
    };
    batch_norm(y, x, gamma, beta, s, kEpsilon);
    Values expected(static_cast<std::size_t>(n)), d_gamma, d_beta;
    for (std::int64_t c = 0; c < s.channels; ++c) {
      double sum = 0, squares = 0, of_dy = 0, of_h = 0;
      each(c, [&](std::int64_t i) { sum += x.at(i), squares += x.at(i) * x.at(i); });
      const double count = static_cast<double>(s.samples * s.places), mean = sum / count;
      const double rstd = 1 / std::sqrt(squares / count - mean * mean + kEpsilon);
      each(c, [&](std::int64_t i) {
        const double h = (x.at(i) - mean) * rstd;
        expected[static_cast<std::size_t>(i)] = h * gamma.at(c) + beta.at(c);
        of_dy += dy.at(i), of_h += dy.at(i) * h;
      });
      d_gamma.push_back(of_h), d_beta.push_back(of_dy);
    }
    check_near(y, expected);
    const Values none(static_cast<std::size_t>(s.channels), 0.0);
    Buffer dg(f64, none), db(f64, none);
    batch_norm_gradient(dx, dg, db, dy, x, gamma, s, kEpsilon, false);
    check_near(dg, d_gamma);
    check_near(db, d_beta);
    check_gradient(x, dx, [&] {
      Buffer out(f64, n);
      batch_norm(out, x, gamma, beta, s, kEpsilon);
      return dot(out, dy);
    });
    // Parameters' gradients add up, and so does the input's where it is told to.
    batch_norm_gradient({}, dg, db, dy, x, gamma, s, kEpsilon, false);
    for (std::int64_t c = 0; c < s.channels; ++c)
      CHECK(db.at(c) == Approx(2 * d_beta[static_cast<std::size_t>(c)]).margin(1e-12));
    Buffer old = random(r, f64, n), both = old;
    batch_norm_gradient(both, {}, {}, dy, x, gamma, s, kEpsilon, true);
    Buffer added = minus(both, old);
    check_near(added, dx.values(), 1e-12);
    // In the place of dy.
    Buffer place = dy;
    batch_norm_gradient(place, {}, {}, place, x, gamma, s, kEpsilon, false);
    check_near(place, dx.values(), 0);
  }
}

TEST_CASE("dropout keeps half, doubled, and draws by sample wherever the sample lies") {
  constexpr std::int64_t kSamples = 4, kEach = 1000, n = kSamples * kEach;
  Random r(19);
  Buffer x = random(r, f64, n), y(f64, n), dy = random(r, f64, n), dx(f64, n);
  std::vector<std::uint8_t> mask(n, 9), again(kEach, 9);
  const View kept{mask.data(), DType::u8};
  dropout(y, kept, x, {kSamples, 1, kEach, 0, kEach}, {.seed = 5, .stream = 6, .first_sample = 10});
  std::int64_t count = 0;
  for (std::int64_t i = 0; i < n; ++i) {
    const bool stays = mask[static_cast<std::size_t>(i)] == 1;
    count += stays ? 1 : 0;
    CHECK(y.at(i) == (stays ? 2 * x.at(i) : 0));
  }
  CHECK(std::abs(count - n / 2) < 4 * 32);  // four deviations of sqrt(n / 4)
  Buffer part(f64, kEach);
  dropout(part, {again.data(), DType::u8}, x, {1, 1, kEach, 0, kEach},
          {.seed = 5, .stream = 6, .first_sample = 12});
  CHECK(std::equal(again.begin(), again.end(), mask.begin() + 2 * kEach));
  dropout(part, {again.data(), DType::u8}, x, {1, 1, kEach, 0, kEach},
          {.seed = 5, .stream = 7, .first_sample = 12});
  CHECK_FALSE(std::equal(again.begin(), again.end(), mask.begin() + 2 * kEach));

  Buffer old = random(r, f64, n), sum = old;
  dropout_gradient(dx, dy, kept, n, false);
  dropout_gradient(sum, dy, kept, n, true);
  for (std::int64_t i = 0; i < n; ++i) {
    CHECK(dx.at(i) == 2 * mask[static_cast<std::size_t>(i)] * dy.at(i));
    CHECK(sum.at(i) == old.at(i) + dx.at(i));
  }
}

TEST_CASE("columns go into a join and come back") {
  Buffer a(f64, Values{1, 2, 3, 4}), b(f64, Values{5, 6}), wide(f64, 6);
  put_columns(wide, a, {2, 3, 0, 2});
  put_columns(wide, b, {2, 3, 2, 1});
  CHECK(wide.values() == Values{1, 2, 5, 3, 4, 6});
  Buffer back(f64, 2), sum(f64, Values{10, 20});
  take_columns(back, wide, {2, 3, 2, 1}, false);
  take_columns(sum, wide, {2, 3, 2, 1}, true);
  CHECK(back.values() == Values{5, 6});
  CHECK(sum.values() == Values{15, 26});
}

TEST_CASE("columns are taken out of rows, and the gradient of all other columns is 0") {
  Buffer wide(f64, Values{1, 2, 3, 4, 5, 6}), narrow(f64, 2);
  take_columns(narrow, wide, {2, 3, 1, 1}, false);
  CHECK(narrow.values() == Values{2, 5});
  Buffer d(f64, Values{7, 8}), dx(f64, Values{9, 9, 9, 9, 9, 9});
  add_columns(dx, d, {2, 3, 1, 1}, false);
  CHECK(dx.values() == Values{0, 7, 0, 0, 8, 0});
  add_columns(dx, d, {2, 3, 0, 1}, true);
  CHECK(dx.values() == Values{7, 7, 0, 8, 8, 0});
}

TEST_CASE("the first token's gradient is the others' zero") {
  Buffer x(f64, Values{1, 2, 3, 4, 5, 6, 7, 8}), y(f64, 4), dx(f64, 8);  // 2 samples of 2 rows of 2
  first_token(y, x, 2, 2, 2);
  CHECK(y.values() == Values{1, 2, 5, 6});
  first_token_gradient(dx, y, 2, 2, 2, false);
  CHECK(dx.values() == Values{1, 2, 0, 0, 5, 6, 0, 0});
  first_token_gradient(dx, y, 2, 2, 2, true);
  CHECK(dx.values() == Values{2, 4, 0, 0, 10, 12, 0, 0});
}

TEST_CASE("token types are added, and their gradients add up by type") {
  std::vector<std::int32_t> ids{0, 1, 0};
  const View types{ids.data(), DType::i32};
  Buffer x(f64, Values{1, 2, 3, 4, 5, 6}), table(f64, Values{10, 20, 30, 40}), y(f64, 6);
  type_embedding(y, x, table, types, 3, 2);
  CHECK(y.values() == Values{11, 22, 33, 44, 15, 26});
  Buffer d(f64, Values{1, 1, 1, 1});
  type_embedding_weight_gradient(d, x, types, 3, 2);
  CHECK(d.values() == Values{1 + 1 + 5, 1 + 2 + 6, 1 + 3, 1 + 4});
}

TEST_CASE("gradients of relu and gelu add to what is there") {
  Random r(20);
  Buffer x = random(r, f64, 40), dy = random(r, f64, 40), old = random(r, f64, 40), dx(f64, 40);
  Buffer sum = old;
  relu_gradient(dx, dy, x, 40);
  relu_gradient(sum, dy, x, 40, true);
  Buffer added = minus(sum, old);
  check_near(added, dx.values());
  for (const auto form : {models::Activation::gelu_tanh, models::Activation::gelu_erf}) {
    sum = old;
    gelu_gradient(dx, dy, x, 40, form);
    gelu_gradient(sum, dy, x, 40, form, true);
    added = minus(sum, old);
    check_near(added, dx.values());
  }
}

TEST_CASE("a layer norm without a bias is one whose bias is 0, and its gradients are the same") {
  Random r(21);
  Buffer x = random(r, f64, 33), gamma = random(r, f64, 11), beta = zeros(f64, 11), y(f64, 33),
         mean(f64, 3), rstd(f64, 3), with(f64, 33);
  layer_norm(with, mean, rstd, x, gamma, beta, 3, 11, 1e-5);
  layer_norm(y, mean, rstd, x, gamma, {}, 3, 11, 1e-5);
  CHECK(y.values() == with.values());
  Buffer dgamma = zeros(f64, 11), dbeta = zeros(f64, 11), alone = zeros(f64, 11);
  layer_norm_weight_gradient(dgamma, dbeta, with, x, mean, rstd, 3, 11);
  layer_norm_weight_gradient(alone, {}, with, x, mean, rstd, 3, 11);
  CHECK(alone == dgamma);
}

TEST_CASE("kernels of graphs on 16-bit types are their f32 twins, rounded") {
  const DType type = GENERATE(DType::bf16, DType::f16);
  const ConvolutionShape s{{2, 4, 9, 8, 3, 2, 1}, 6, 2};
  const ResponseShape response{2, 4, 72, 3};
  const std::int64_t in = inputs(s.x), pooled = results(s.x),
                     out = s.x.samples * s.outputs * s.x.places();
  const auto run = [&](bool half) {
    Random same(22);
    const auto operand = [&](std::int64_t n) {
      Buffer b = random(same, type, n);
      return half ? b : as(f32, b);
    };
    const DType stored = half ? type : f32;
    std::vector<Values> made;
    const auto keep = [&](Buffer b) { made.push_back(as(type, std::move(b)).values()); };
    Scratch scratch(convolution_workspace(f32, s)), pool(pool_workspace(f32, s.x));
    Scratch sums(local_response_workspace(f32, response));
    Buffer x = operand(in), w = operand(s.outputs * s.k()), b = operand(6), y(stored, out);
    convolution(y, x, w, b, s, scratch);
    keep(y);
    Buffer dy = operand(out), dx = operand(in), dw = operand(w.size()), db = operand(6);
    convolution_input_gradient(dx, dy, w, s, true, scratch);
    convolution_weight_gradient(dw, db, dy, x, s, scratch);
    keep(dx);
    keep(dw);
    keep(db);
    std::vector<std::uint8_t> chosen(static_cast<std::size_t>(pooled));
    const View where{chosen.data(), DType::u8};
    Buffer small(stored, pooled), d_small = operand(pooled), d(stored, in);
    max_pool(small, where, x, s.x, pool);
    keep(small);
    max_pool_gradient(d, d_small, where, s.x, false, pool);
    keep(d);
    average_pool(small, x, s.x, pool);
    keep(small);
    average_pool_gradient(d, d_small, s.x, false, pool);
    keep(d);
    Buffer normal(stored, in), d_normal = operand(in);
    local_response_norm(normal, x, response, sums);
    keep(normal);
    local_response_norm_gradient(d_normal, x, x, response, true, sums);
    keep(d_normal);
    return made;
  };
  CHECK(run(true) == run(false));
}
