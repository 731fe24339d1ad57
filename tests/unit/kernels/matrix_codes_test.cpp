#include "exec/host/matrix_codes.hpp"

#include "core/random.hpp"
#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;
using planner::Quantization;

namespace {

// What decoding makes of encoded values; the codes lie at an odd place and nothing lies beyond
// them.
Values round_trip(Quantization kind, const Values& values,
                  const std::vector<std::int64_t>& shape, DType type = f32) {
  const std::int64_t bytes = planner::quantised_bytes(kind, shape).value();
  std::vector<std::byte> codes(static_cast<std::size_t>(bytes) + 2, std::byte{0xa5});
  const std::vector<float> narrow(values.begin(), values.end());
  encode_matrix(kind, narrow, shape, codes.data() + 1);
  CHECK(codes.front() == std::byte{0xa5});
  CHECK(codes.back() == std::byte{0xa5});
  Buffer y(type, static_cast<std::int64_t>(values.size()));
  decode_matrix(kind, codes.data() + 1, y, y.size(), bytes);
  return y.values();
}

}  // namespace

TEST_CASE("a row of int8 keeps its greatest weight, others to half a step of 1/127 of it") {
  const Values row{127.0, -63.0, 0.4, -0.4, 0.6};  // scale 1, by hand
  CHECK(round_trip(Quantization::int8, row, {1, 5}) == Values{127, -63, 0, 0, 1});
  CHECK(round_trip(Quantization::int8, Values{0, 0}, {1, 2}) == Values{0, 0});
  Random r(61);
  const std::int64_t rows = 3, columns = kChunk + 7;
  const Values w = random(r, f32, rows * columns).values();
  const Values back = round_trip(Quantization::int8, w, {rows, columns});
  for (std::size_t i = 0; i < w.size(); ++i) CHECK(std::abs(w[i] - back[i]) <= 0.5001 / 127);
}

TEST_CASE("nf4 decodes each level of its block exactly where the scale is 1") {
  const Values w{1.0, -1.0, 0.0, 0.0795802996, 0.7229568362, -0.0910500363, 0.45};
  const Values back = round_trip(Quantization::nf4, w, {1, 7});
  for (std::size_t i = 0; i < 6; ++i) CHECK(back[i] == Approx(w[i]).epsilon(1e-7));
  CHECK(back[6] == Approx(0.4407098293).epsilon(1e-7));  // the nearest level
}

TEST_CASE("nf4 errs by half the widest gap of its levels and an 8-bit scale at most") {
  Random r(62);
  const std::int64_t rows = 37, columns = 501;  // 290 blocks: two groups of scales, odd ends
  Values w = random(r, f32, rows * columns).values();
  for (std::size_t i = 0; i < w.size(); ++i) w[i] *= 1.0 + static_cast<double>(i % 640) / 64;
  const Values back = round_trip(Quantization::nf4, w, {rows, columns});
  for (std::size_t first = 0; first < w.size(); first += 64) {
    double most = 0, error = 0;
    for (std::size_t i = first; i < std::min(first + 64, w.size()); ++i) {
      most = std::max(most, std::abs(w[i]));
      error = std::max(error, std::abs(w[i] - back[i]));
    }
    CHECK(error <= 0.19 * most);  // (1 - 0.696) / 2 = 0.152, and a step of the scale's code
  }
}

TEST_CASE("two factors of 4 values make 16, exactly where the second needs no turn") {
  // One weight: Q is 1 or -1, so U + Q V takes any value at once.
  const Values one = round_trip(Quantization::two_factor, {0.7}, {1, 1});
  CHECK(one[0] == Approx(0.7).epsilon(1e-6));
}

TEST_CASE("two factors keep normal weights to an eighth of their size, whatever the shape") {
  const core::Random random(64, 1);
  for (const std::int64_t columns : {256, 300, 37}) {
    Values w;
    for (std::int64_t i = 0; i < 24 * columns; ++i)
      w.push_back(static_cast<float>(0.02 * random.normal(static_cast<std::uint64_t>(i))));
    const Values back = round_trip(Quantization::two_factor, w, {24, columns});
    double error = 0, size = 0;
    for (std::size_t i = 0; i < w.size(); ++i) {
      error += (w[i] - back[i]) * (w[i] - back[i]);
      size += w[i] * w[i];
    }
    // Lloyd-Max at 2 bits leaves 0.1175 of a normal's square (J. Max, 1960); twice, 0.0138 =
    // 0.117^2.
    CAPTURE(columns);
    CHECK(std::sqrt(error / size) < 0.125);
    CHECK(std::sqrt(error / size) > 0.05);
  }
}

TEST_CASE("decoding into 16 bits rounds what it makes in f32") {
  Random r(63);
  const Values w = random(r, f32, 4 * 96).values();
  for (const Quantization kind :
       {Quantization::int8, Quantization::nf4, Quantization::two_factor}) {
    Buffer wide(f32, round_trip(kind, w, {4, 96}));
    CHECK(round_trip(kind, w, {4, 96}, DType::bf16) == as(DType::bf16, wide).values());
  }
}
