#include "exec/host/two_factor.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <vector>

#include "core/random.hpp"
#include "exec/host/convert.hpp"

namespace exec::host {
namespace {

constexpr std::int64_t kBlock = 256;
constexpr std::uint64_t kSeed = 20240411;      // any: of the signs
constexpr int kRounds = 12;
constexpr std::size_t kFactor = 4 * sizeof(float);  // bytes of a factor's centroids

using Centroids = std::array<float, 4>;

const std::array<float, kBlock>& signs() {
  static const std::array<float, kBlock> all = [] {
    std::array<float, kBlock> s{};
    const core::Random random(kSeed, 1);
    for (std::size_t i = 0; i < s.size(); ++i) s[i] = random.below(i, 2) == 0 ? -1.0F : 1.0F;
    return s;
  }();
  return all;
}

// x = H x / sqrt(n), its own inverse. n is a power of two.
void hadamard(float* x, std::int64_t n) {
  for (std::int64_t half = 1; half < n; half *= 2)
    for (std::int64_t i = 0; i < n; i += 2 * half)
      for (std::int64_t j = i; j < i + half; ++j) {
        const float a = x[j], b = x[j + half];
        x[j] = a + b;
        x[j + half] = a - b;
      }
  const float scale = 1.0F / std::sqrt(static_cast<float>(n));
  for (std::int64_t i = 0; i < n; ++i) x[i] *= scale;
}

// Q = H S on one piece; its transpose is S H.
void turn(float* x, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) x[i] *= signs()[static_cast<std::size_t>(i)];
  hadamard(x, n);
}
void turn_back(float* x, std::int64_t n) {
  hadamard(x, n);
  for (std::int64_t i = 0; i < n; ++i) x[i] *= signs()[static_cast<std::size_t>(i)];
}

// body(first, size) over the pieces that Q is made of.
template <class Body>
void for_pieces(std::int64_t n, Body&& body) {
  for (std::int64_t at = 0, size = kBlock; at < n; at += size) {
    while (size > n - at) size /= 2;
    body(at, size);
  }
}

// The index of the nearest, ties to the lower.
std::uint8_t nearest(const Centroids& c, float x) {
  std::uint8_t best = 0;
  for (std::uint8_t i = 1; i < c.size(); ++i)
    if (std::abs(x - c[i]) < std::abs(x - c[best])) best = i;
  return best;
}

struct Factor {
  Centroids centroids{};
  std::vector<std::uint8_t> codes;

  // Evenly over the spread of x, to begin with.
  void spread(const std::vector<float>& x) {
    double sum = 0;
    for (const float v : x) sum += static_cast<double>(v) * v;
    const auto scale = static_cast<float>(std::sqrt(sum / static_cast<double>(x.size())));
    centroids = {-1.5F * scale, -0.5F * scale, 0.5F * scale, 1.5F * scale};
  }
  // The best codes for x, then the best values for these codes.
  void fit(const std::vector<float>& x) {
    double sum[4] = {}, count[4] = {};
    for (std::size_t i = 0; i < x.size(); ++i) {
      codes[i] = nearest(centroids, x[i]);
      sum[codes[i]] += static_cast<double>(x[i]);
      count[codes[i]] += 1;
    }
    for (std::size_t c = 0; c < 4; ++c)
      if (count[c] > 0) centroids[c] = static_cast<float>(sum[c] / count[c]);
  }
  float value(std::size_t i) const { return centroids[codes[i]]; }
};

}  // namespace

void encode_two_factor(std::span<const float> values, std::byte* codes) {
  const auto n = static_cast<std::int64_t>(values.size());
  Factor u, v;
  u.codes.resize(values.size());
  v.codes.resize(values.size());
  std::vector<float> rest(values.begin(), values.end());
  u.spread(rest);
  for (int round = 0; round < kRounds; ++round) {
    u.fit(rest);                                 // W - Q V
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = values[i] - u.value(i);
    for_pieces(n, [&](std::int64_t at, std::int64_t size) { turn_back(rest.data() + at, size); });
    if (round == 0) v.spread(rest);
    v.fit(rest);                                 // Q^T (W - U)
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = v.value(i);
    for_pieces(n, [&](std::int64_t at, std::int64_t size) { turn(rest.data() + at, size); });
    for (std::size_t i = 0; i < rest.size(); ++i) rest[i] = values[i] - rest[i];
  }
  const std::int64_t bytes = (n + 1) / 2;
  std::fill_n(codes, bytes, std::byte{0});
  for (std::size_t i = 0; i < values.size(); ++i)
    codes[i / 2] |= static_cast<std::byte>((u.codes[i] | v.codes[i] << 2) << (i % 2 * 4));
  std::memcpy(codes + bytes, u.centroids.data(), kFactor);
  std::memcpy(codes + bytes + kFactor, v.centroids.data(), kFactor);
}

void decode_two_factor(const std::byte* codes, View y, std::int64_t n) {
  Centroids u{}, v{};
  const std::byte* const centroids = codes + (n + 1) / 2;
  std::memcpy(u.data(), centroids, kFactor);
  std::memcpy(v.data(), centroids + kFactor, kFactor);
  for_pieces(n, [&](std::int64_t at, std::int64_t size) {
    float sum[kBlock], turned[kBlock];
    for (std::int64_t i = 0; i < size; ++i) {
      const auto code = std::to_integer<unsigned>(codes[(at + i) / 2]) >> ((at + i) % 2 * 4);
      sum[i] = u[code & 3U];
      turned[i] = v[code >> 2 & 3U];
    }
    turn(turned, size);
    for (std::int64_t i = 0; i < size; ++i) sum[i] += turned[i];
    store(y.at(at), size, sum);
  });
}

}  // namespace exec::host
