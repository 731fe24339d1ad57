#pragma once
// The tanh form of gelu and its slope, of one element. Stateless, thread-safe.

#include "exec/host/vector_math.hpp"

namespace exec::host {

// gelu(x) = x logistic(2u), u = sqrt(2/pi) (x + 0.044715 x^3): the tanh form without cancellation.
inline constexpr double kTwiceRoot = 1.5957691216057308;  // 2 sqrt(2/pi)
inline constexpr double kCubic = 0.044715;

template <class T>
T gelu_of(T x) {
  const T u2 = static_cast<T>(kTwiceRoot) * x * (T(1) + static_cast<T>(kCubic) * x * x);
  return x * logistic(u2);
}

template <class T>
T gelu_slope(T x) {
  const T x2 = x * x;
  const T u2 = static_cast<T>(kTwiceRoot) * x * (T(1) + static_cast<T>(kCubic) * x2);
  const T du2 = static_cast<T>(kTwiceRoot) * (T(1) + static_cast<T>(3 * kCubic) * x2);
  const T s = logistic(u2);
  return s + x * s * (T(1) - s) * du2;
}

}  // namespace exec::host
