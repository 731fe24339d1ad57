#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;

namespace {

struct Outcome {
  double loss = 0;
  Values gradient;
};

Outcome whole(Buffer logits, View targets, const LogitShape& s, double scale) {
  Buffer max(f64, s.rows), sums(f64, 2 * s.rows);
  Outcome o;
  softmax_max(max, logits, s);
  softmax_sum(sums, logits, max, targets, s);
  cross_entropy(&o.loss, logits, max, sums, targets, s, scale);
  o.gradient = logits.values();
  return o;
}

// The vocabulary cut into `parts` shards, the statistics reduced between the stages as a
// communicator would.
Outcome sharded(const Values& logits, View targets, const LogitShape& s, double scale,
                std::int64_t parts) {
  const std::int64_t width = (s.columns + parts - 1) / parts;
  std::vector<Buffer> shard;
  std::vector<LogitShape> shape;
  for (std::int64_t p = 0; p < parts; ++p) {
    Values local(static_cast<std::size_t>(s.rows * width), 7e7);  // padding: larger than any logit
    for (std::int64_t i = 0; i < s.rows * width; ++i) {
      const std::int64_t column = p * width + i % width;
      if (column < s.columns)
        local[static_cast<std::size_t>(i)] =
            logits[static_cast<std::size_t>(i / width * s.ld + column)];
    }
    shard.emplace_back(f64, local);
    shape.push_back({s.rows, width, width, p * width, s.vocab});
  }
  Buffer max(f64, Values(static_cast<std::size_t>(s.rows), -1e300)), sums = zeros(f64, 2 * s.rows);
  for (std::size_t p = 0; p < shard.size(); ++p) {
    Buffer local(f64, s.rows);
    softmax_max(local, shard[p], shape[p]);
    reduce_into(max, local, ReduceOp::max, s.rows);
  }
  for (std::size_t p = 0; p < shard.size(); ++p) {
    Buffer local(f64, 2 * s.rows);
    softmax_sum(local, shard[p], max, targets, shape[p]);
    reduce_into(sums, local, ReduceOp::sum, 2 * s.rows);
  }
  Outcome o;
  o.gradient.assign(logits.size(), std::nan(""));
  for (std::size_t p = 0; p < shard.size(); ++p) {
    o.loss = 0;
    cross_entropy(&o.loss, shard[p], max, sums, targets, shape[p], scale);
    for (std::int64_t i = 0; i < s.rows * width; ++i) {
      const std::int64_t column = shape[p].first_column + i % width;
      if (column < s.columns)
        o.gradient[static_cast<std::size_t>(i / width * s.ld + column)] = shard[p].at(i);
      if (column >= s.vocab) CHECK(shard[p].at(i) == 0.0);
    }
  }
  return o;
}

}  // namespace

TEST_CASE("the gradient of cross entropy is that of central differences") {
  Random r(61);
  const LogitShape s{.rows = 4, .columns = 9, .ld = 9, .first_column = 0, .vocab = 7};
  Buffer logits = random(r, f64, s.rows * s.ld, 3.0);
  Tokens targets(r, s.rows, s.vocab);
  Buffer gradient(f64, whole(logits, targets, s, 0.25).gradient);
  check_gradient(logits, gradient, [&] { return whole(logits, targets, s, 0.25).loss; });
}

TEST_CASE("cross entropy of logits 0 and ln 3 with target 0 is ln 4, by hand") {
  Buffer logits(f64, Values{0, std::log(3.0)});
  std::int32_t target = 0;
  const Outcome o = whole(logits, {&target, DType::i32}, {1, 2, 2, 0, 2}, 0.5);
  CHECK(o.loss == Approx(0.5 * std::log(4.0)).epsilon(1e-14));
  CHECK(o.gradient[0] == Approx(0.5 * (0.25 - 1)).epsilon(1e-14));
  CHECK(o.gradient[1] == Approx(0.5 * 0.75).epsilon(1e-14));
}

TEST_CASE("cross entropy over vocabulary shards is that of the whole vocabulary") {
  Random r(62);
  const std::int64_t parts =
      GENERATE(2, 3, 7, 12);  // 12 shards of one column: two hold only padding
  const LogitShape s{.rows = 5, .columns = 10, .ld = 10, .first_column = 0, .vocab = 10};
  Buffer logits = random(r, f64, s.rows * s.ld, 4.0);
  Tokens targets(r, s.rows, s.vocab);
  const Outcome want = whole(logits, targets, s, 0.2);
  const Outcome got = sharded(logits.values(), targets, s, 0.2, parts);
  CHECK(got.loss == Approx(want.loss).epsilon(1e-14));
  for (std::size_t i = 0; i < want.gradient.size(); ++i) {
    CHECK(got.gradient[i] == Approx(want.gradient[i]).epsilon(1e-13).margin(1e-16));
  }
}

TEST_CASE("a shard that is padding alone has maximum minus infinity and sum zero") {
  Buffer logits(f64, Values{5, 5}), max(f64, 1), sums(f64, 2);
  std::int32_t target = 1;
  const LogitShape s{1, 2, 2, 8, 8};
  softmax_max(max, logits, s);
  CHECK(max.at(0) == -std::numeric_limits<double>::infinity());
  max.put_at(0, 3.0);  // after the reduction
  softmax_sum(sums, logits, max, {&target, DType::i32}, s);
  CHECK(sums.values() == Values{0, 0});
}

TEST_CASE("logits far apart neither overflow nor lose the loss") {
  Buffer logits(f32, Values{1e4, -1e4}), max(f32, 1), sums(f32, 2);
  std::int32_t target = 1;
  const LogitShape s{1, 2, 2, 0, 2};
  double loss = 0;
  softmax_max(max, logits, s);
  softmax_sum(sums, logits, max, {&target, DType::i32}, s);
  cross_entropy(&loss, logits, max, sums, {&target, DType::i32}, s, 1.0);
  CHECK(loss == 2e4);
  CHECK(logits.values() == Values{1, -1});
}
