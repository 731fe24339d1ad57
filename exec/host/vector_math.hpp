#pragma once
// exp, the logistic function and sums in forms that vectorise and give the same bits wherever an
// element lies in its vector. Stateless, thread-safe.

#include <bit>
#include <cmath>
#include <cstdint>

namespace exec::host {

// e^x. Relative error below 2e-7 on [-87.3, 88.3] (tested over that range); below it 0, above it
// e^88.37; NaN stays NaN. Range reduction by ln 2 in two parts, then the degree-6 polynomial of
// Cephes' expf (S. Moshier, Methods and Programs for Mathematical Functions, 1989).
inline float exp_of(float x) {
  constexpr float kLow = -87.33654F;
  constexpr float kHigh = 88.37F;
  constexpr float kShift = 12582912.F;  // 1.5 x 2^23: adding it rounds to an integer
  float t = x > kHigh ? kHigh : x;
  t = t < kLow ? kLow : t;
  const float shifted = t * 1.44269504F + kShift;
  const float n = shifted - kShift;
  const float r = (t - n * 0.693359375F) - n * -2.12194440e-4F;
  float p = 1.9875691500e-4F;
  p = p * r + 1.3981999507e-3F;
  p = p * r + 8.3334519073e-3F;
  p = p * r + 4.1665795894e-2F;
  p = p * r + 1.6666665459e-1F;
  p = p * r + 5.0000001201e-1F;
  const float y = p * (r * r) + r + 1.0F;
  // The low bits of `shifted` hold n: they become the exponent.
  const float power =
      std::bit_cast<float>((std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3f800000U);
  return x < kLow ? 0.0F : y * power;
}
inline double exp_of(double x) { return std::exp(x); }

// 1 / (1 + e^-x).
template <class T>
T logistic(T x) {
  return T(1) / (T(1) + exp_of(-x));
}

// A sum in 16 interleaved partial sums, folded as a tree: the order depends on the position in the
// row alone. add() takes runs whose lengths are multiples of 16, except the last.
inline constexpr std::int64_t kLanes = 16;

template <class T>
class LaneSum {
 public:
  template <class Term>
  void add(std::int64_t n, Term term) {
    std::int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (std::int64_t j = 0; j < kLanes; ++j) lane_[j] += term(i + j);
    }
    for (std::int64_t j = 0; i + j < n; ++j) lane_[j] += term(i + j);
  }
  T value() const {
    T fold[kLanes];
    for (std::int64_t j = 0; j < kLanes; ++j) fold[j] = lane_[j];
    for (std::int64_t half = kLanes / 2; half > 0; half /= 2) {
      for (std::int64_t j = 0; j < half; ++j) fold[j] += fold[j + half];
    }
    return fold[0];
  }

 private:
  T lane_[kLanes] = {};
};

// The greater of both; NaN wins.
template <class T>
T max_of(T a, T b) {
  return (b > a || b != b) ? b : a;
}

}  // namespace exec::host
