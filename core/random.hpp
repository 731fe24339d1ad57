#pragma once
// Random numbers addressed by index: Philox4x32-10 [philox], a bijection of a 128-bit counter under
// a 64-bit key. The number at (seed, stream, index) depends on nothing else, so a tensor gets the
// same elements however its ranks are laid out, and in any order. Arithmetic is integer and plain
// double without library functions or fused operations: every platform gives the same bits.
// Stateless values; thread-safe.

#include <array>
#include <cstdint>
#include <span>

namespace core {

// Four 32-bit words of the counter under the key.
std::array<std::uint32_t, 4> philox4x32_10(std::array<std::uint32_t, 4> counter,
                                           std::array<std::uint32_t, 2> key);

// One sequence of numbers; streams of a seed are independent (one per tensor, say). The draws of
// one index share their bits: use one kind of draw per stream.
class Random {
 public:
  constexpr Random(std::uint64_t seed, std::uint64_t stream) : seed_(seed), stream_(stream) {}

  std::uint64_t bits(std::uint64_t index) const;
  // In [0, 1), a multiple of 2^-53.
  double uniform(std::uint64_t index) const;
  // In 0 .. count - 1, each as likely as the others within count / 2^64. REQUIRES: count > 0.
  std::uint64_t below(std::uint64_t index, std::uint64_t count) const;
  // Mean 0, variance 1 (Box and Muller 1958), |x| <= 8.6. Indices 2k and 2k + 1 share one block.
  double normal(std::uint64_t index) const;

  // out[i] = mean + stddev * normal(first + i), rounded to float.
  void fill_normal(std::uint64_t first, double mean, double stddev, std::span<float> out) const;
  void fill_normal(std::uint64_t first, double mean, double stddev, std::span<double> out) const;

 private:
  std::array<std::uint64_t, 2> block(std::uint64_t index) const;
  std::array<double, 2> normal_pair(std::uint64_t pair) const;
  template <class T>
  void fill(std::uint64_t first, double mean, double stddev, std::span<T> out) const;

  std::uint64_t seed_;
  std::uint64_t stream_;
};

// The functions under normal(), for tests: natural logarithm of x in (0, 1], and cosine and sine of
// 2 pi x for x in [0, 1). Both within 4e-16 of the truth, relative for the first.
double portable_log(double x);
std::array<double, 2> portable_cos_sin_turns(double x);

}  // namespace core
