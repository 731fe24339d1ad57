#include "core/random.hpp"

#include <cmath>
#include <vector>

#include "tests/catch.hpp"

using namespace core;
using Words = std::array<std::uint32_t, 4>;

// [philox] The authors' Random123, tests/kat_vectors, lines "philox4x32 10".
TEST_CASE("Philox4x32-10 gives its authors' known answers") {
  CHECK(philox4x32_10({0, 0, 0, 0}, {0, 0}) ==
        Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  constexpr std::uint32_t kOnes = 0xffffffff;
  CHECK(philox4x32_10({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}) ==
        Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32_10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("the first draws are the words of the counter's block") {
  // Seed 0, stream 0, block 0 is the first vector: words 0 and 1 make index 0, lower word first.
  const Random random(0, 0);
  CHECK(random.bits(0) == 0xe169c58d6627e8d5);
  CHECK(random.bits(1) == 0x9b00dbd8bc57ac4c);
  // The top 53 bits as a fraction: 0xe169c58d6627e8d5 >> 11 over 2^53.
  CHECK(random.uniform(0) == static_cast<double>(0xe169c58d6627e8d5 >> 11) / 0x1p53);
}

TEST_CASE("the portable logarithm, cosine and sine agree with the library's") {
  const Random random(20250101, 1);
  for (std::uint64_t i = 0; i < 20'000; ++i) {
    // Half near 1, half over the whole exponent range of a draw.
    const double scale = std::exp2(-static_cast<double>(i % 53));
    const double u = i % 2 ? 1 - random.uniform(i) * 0x1p-8 : (1 - random.uniform(i)) * scale;
    CAPTURE(i, u);
    REQUIRE(std::abs(portable_log(u) - std::log(u)) <= 4e-16 * std::abs(std::log(u)));
    const double turns = random.uniform(i);
    const auto [cosine, sine] = portable_cos_sin_turns(turns);
    const long double angle = 2 * 3.14159265358979323846264338327950288L * turns;
    REQUIRE(std::abs(cosine - static_cast<double>(std::cos(angle))) <= 4e-16);
    REQUIRE(std::abs(sine - static_cast<double>(std::sin(angle))) <= 4e-16);
  }
  CHECK(portable_log(1) == 0);
  CHECK(portable_cos_sin_turns(0)[0] == 1);
  CHECK(portable_cos_sin_turns(0.25)[1] == 1);
}

TEST_CASE("normal draws are the Box-Muller pairs of a block") {
  const Random random(7, 3);
  const double u = (static_cast<double>(random.bits(10) >> 11) + 1) / 0x1p53;
  const double turns = static_cast<double>(random.bits(11) >> 11) / 0x1p53;
  const double radius = std::sqrt(-2 * std::log(u)), angle = 2 * std::acos(-1.0) * turns;
  CHECK(std::abs(random.normal(10) - radius * std::cos(angle)) < 1e-14);
  CHECK(std::abs(random.normal(11) - radius * std::sin(angle)) < 1e-14);
}

TEST_CASE("draws have the mean, variance and tails of their distribution") {
  // 200,000 draws: standard errors of the mean 1/447 and of the variance sqrt(2)/447; 5 of each.
  const Random random(42, 9);
  constexpr int kCount = 200'000;
  double sum = 0, squares = 0, uniform = 0, beyond = 0;
  for (std::uint64_t i = 0; i < kCount; ++i) {
    const double x = random.normal(i);
    sum += x, squares += x * x, uniform += random.uniform(i), beyond += std::abs(x) > 1.959964;
  }
  CHECK(std::abs(sum / kCount) < 5.0 / 447);
  CHECK(std::abs(squares / kCount - 1) < 5 * 1.4142 / 447);
  CHECK(std::abs(uniform / kCount - 0.5) < 5 * 0.2887 / 447);
  CHECK(std::abs(beyond / kCount - 0.05) < 5 * 0.218 / 447);  // sqrt(0.05 x 0.95) = 0.218
}

TEST_CASE("a tensor filled in pieces equals the tensor filled at once") {
  const Random random(123, 4);
  std::vector<float> whole(101), pieces(101);
  random.fill_normal(0, 1.0, 0.02, std::span<float>(whole));
  for (std::size_t first = 0, size = 1; first < pieces.size(); first += size, ++size)
    random.fill_normal(first, 1.0, 0.02,
                       std::span(pieces).subspan(first, std::min(size, pieces.size() - first)));
  CHECK(whole == pieces);
  CHECK(whole[5] == static_cast<float>(1.0 + 0.02 * random.normal(5)));
}

TEST_CASE("seeds, streams and indices beyond 32 bits all change the draw") {
  const std::uint64_t far = std::uint64_t{1} << 40;
  const std::uint64_t draws[] = {Random(1, 1).bits(0),   Random(2, 1).bits(0),
                                 Random(1, 2).bits(0),   Random(1 + far, 1).bits(0),
                                 Random(1, 1 + far).bits(0), Random(1, 1).bits(far)};
  for (std::size_t i = 0; i < std::size(draws); ++i)
    for (std::size_t j = 0; j < i; ++j) CHECK(draws[i] != draws[j]);
}

TEST_CASE("below(count) is the high half of bits times count") {
  const Random random(5, 5);
  for (std::uint64_t count : {std::uint64_t{1}, std::uint64_t{7}, std::uint64_t{50257},
                              std::uint64_t{1} << 63, ~std::uint64_t{0}})
    for (std::uint64_t i = 0; i < 200; ++i) {
      __extension__ using Wide = unsigned __int128;
      const auto expected = static_cast<std::uint64_t>(Wide{random.bits(i)} * count >> 64);
      REQUIRE(random.below(i, count) == expected);
    }
}
