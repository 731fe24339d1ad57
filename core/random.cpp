// Built with -ffp-contract=off: a fused multiply-add would change last bits between machines.
#include "core/random.hpp"

#include <bit>
#include <cmath>

namespace core {
namespace {

constexpr double kTwoToMinus53 = 0x1p-53;

}  // namespace

std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> c,
                                           std::array<std::uint32_t, 2> key) {
  // Multipliers and Weyl increments of [philox], as in the authors' Random123 philox.h.
  constexpr std::uint64_t kMultiplier0 = 0xD2511F53, kMultiplier1 = 0xCD9E8D57;
  constexpr std::uint32_t kWeyl0 = 0x9E3779B9, kWeyl1 = 0xBB67AE85;
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = kMultiplier0 * c[0], b = kMultiplier1 * c[2];
    const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
    const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
    c = {high(b) ^ c[1] ^ key[0], low(b), high(a) ^ c[3] ^ key[1], low(a)};
    key = {key[0] + kWeyl0, key[1] + kWeyl1};
  }
  return c;
}

std::array<std::uint64_t, 2> Random::block(std::uint64_t index) const {
  const auto low = [](std::uint64_t x) { return static_cast<std::uint32_t>(x); };
  const auto high = [](std::uint64_t x) { return static_cast<std::uint32_t>(x >> 32); };
  const auto words = philox4x32_10({low(index), high(index), low(stream_), high(stream_)},
                                   {low(seed_), high(seed_)});
  const auto join = [](std::uint32_t lower, std::uint32_t upper) {
    return std::uint64_t{upper} << 32 | lower;
  };
  return {join(words[0], words[1]), join(words[2], words[3])};
}

std::uint64_t Random::bits(std::uint64_t index) const { return block(index / 2)[index % 2]; }

double Random::uniform(std::uint64_t index) const {
  return static_cast<double>(bits(index) >> 11) * kTwoToMinus53;
}

std::uint64_t Random::below(std::uint64_t index, std::uint64_t count) const {
  // The high half of the 128-bit product bits x count, from 32-bit halves.
  const std::uint64_t x = bits(index);
  constexpr std::uint64_t kLow = 0xFFFFFFFF;
  const std::uint64_t x1 = x >> 32, x0 = x & kLow, y1 = count >> 32, y0 = count & kLow;
  const std::uint64_t middle = x1 * y0 + (x0 * y0 >> 32);
  return x1 * y1 + (middle >> 32) + ((x0 * y1 + (middle & kLow)) >> 32);
}

double portable_log(double x) {
  constexpr double kLn2High = 0x1.62e42fefa3800p-1;  // 44 bits, so exponent x kLn2High is exact
  constexpr double kLn2Low = 0x1.ef35793c76730p-45;
  // x = m 2^e, m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh(s), s = (m - 1) / (m + 1), |s| < 0.172.
  const auto pattern = std::bit_cast<std::uint64_t>(x);
  int exponent = static_cast<int>(pattern >> 52) - 1022;
  double m = std::bit_cast<double>((pattern & 0xFFFFFFFFFFFFF) | 0x3FE0000000000000);
  if (m < 0.70710678118654752) m *= 2, --exponent;
  const double f = m - 1, s = f / (m + 1), s2 = s * s;
  double series = 0;  // s2/3 + s2^2/5 + ... : the next term is below 2^-58
  for (int k = 21; k >= 3; k -= 2) series = (series + 1.0 / k) * s2;
  // 2 s = f - f s exactly, which keeps the leading term f unrounded.
  const double e = exponent;
  return e * kLn2High + (f + (s * (2 * series - f) + e * kLn2Low));
}

std::array<double, 2> portable_cos_sin_turns(double x) {
  // A quarter turn at a time, exactly: x is a dyadic fraction; r in [-1/8, 1/8] turns.
  const double quarter = std::floor(x * 4 + 0.5);
  const double a = (x - quarter * 0.25) * 6.283185307179586;
  const double a2 = a * a;
  double cosine = 1, sine = 1;  // Taylor; at pi/4 the next terms are below 2^-57
  for (int k = 16; k >= 2; k -= 2) {
    cosine = 1 - cosine * a2 / (k * (k - 1));
    sine = 1 - sine * a2 / (k * (k + 1));
  }
  sine *= a;
  switch (static_cast<int>(quarter) % 4) {
    case 0: return {cosine, sine};
    case 1: return {-sine, cosine};
    case 2: return {-cosine, -sine};
    default: return {sine, -cosine};
  }
}

std::array<double, 2> Random::normal_pair(std::uint64_t pair) const {
  const auto words = block(pair);
  const double u = static_cast<double>((words[0] >> 11) + 1) * kTwoToMinus53;  // (0, 1]
  const double turns = static_cast<double>(words[1] >> 11) * kTwoToMinus53;
  const double radius = std::sqrt(-2 * portable_log(u));  // IEEE 754: correctly rounded
  const auto [cosine, sine] = portable_cos_sin_turns(turns);
  return {radius * cosine, radius * sine};
}

double Random::normal(std::uint64_t index) const { return normal_pair(index / 2)[index % 2]; }

template <class T>
void Random::fill(std::uint64_t first, double mean, double stddev, std::span<T> out) const {
  std::size_t i = 0;
  while (i < out.size()) {
    const auto pair = normal_pair((first + i) / 2);
    for (std::uint64_t half = (first + i) % 2; half < 2 && i < out.size(); ++half, ++i)
      out[i] = static_cast<T>(mean + stddev * pair[static_cast<std::size_t>(half)]);
  }
}

void Random::fill_normal(std::uint64_t first, double mean, double stddev,
                         std::span<float> out) const {
  fill(first, mean, stddev, out);
}

void Random::fill_normal(std::uint64_t first, double mean, double stddev,
                         std::span<double> out) const {
  fill(first, mean, stddev, out);
}

}  // namespace core
