#pragma once
// How kernels read and write typed buffers: operands of the compute type (double when the
// activation is f64, else float) are used in place; others are converted a chunk at a time on the
// stack. Rounding is to nearest, ties to even; f64 reaches a 16-bit type through f32. Conversions
// are branch-free so that loops over them vectorise. Stateless, thread-safe.

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "exec/host/f8.hpp"
#include "exec/host/view.hpp"

namespace exec::host {

// Elements converted at a time: 2 KiB of floats. A multiple of kLanes (vector_math.hpp), so sums do
// not depend on where a chunk ends.
inline constexpr std::int64_t kChunk = 512;

inline float from_bf16(std::uint16_t h) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(h) << 16);
}

inline std::uint16_t to_bf16(float x) {
  const auto u = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t rounded = (u + 0x7fffU + ((u >> 16) & 1U)) >> 16;
  const std::uint32_t quiet = (u >> 16) | 0x40U;
  return static_cast<std::uint16_t>((u & 0x7fffffffU) > 0x7f800000U ? quiet : rounded);
}

// The exponent is moved by an exact product with 2^112, which also normalises subnormals.
inline float from_f16(std::uint16_t h) {
  const std::uint32_t magnitude = h & 0x7fffU;
  const float scaled = std::bit_cast<float>(magnitude << 13) * 0x1p112F;
  const std::uint32_t special = magnitude >= 0x7c00U ? 0x7f800000U : 0U;
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000U) << 16;
  return std::bit_cast<float>(std::bit_cast<std::uint32_t>(scaled) | special | sign);
}

// Subnormal halves are rounded by the adder (x + 1/2 in units of 2^-24); normal ones by integer
// addition; 65520 and above become infinite.
inline std::uint16_t to_f16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  const std::uint32_t u = bits & 0x7fffffffU;
  const std::uint32_t small =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(u) + 0.5F) - 0x3f000000U;
  const std::uint32_t normal = (u - (112U << 23) + 0xfffU + ((u >> 13) & 1U)) >> 13;
  const std::uint32_t special = u > 0x7f800000U ? 0x7e00U : 0x7c00U;
  const std::uint32_t finite = u < (113U << 23) ? small : normal;
  const std::uint32_t magnitude = u >= (143U << 23) ? special : finite;
  return static_cast<std::uint16_t>(magnitude | ((bits >> 16) & 0x8000U));
}

template <class T>
constexpr core::DType dtype_of() {
  return std::is_same_v<T, double> ? core::DType::f64 : core::DType::f32;
}

// Calls body.template operator()<T>() with the compute type of a kernel on this activation type.
template <class Body>
void with_compute_type(core::DType activation, Body&& body) {
  if (activation == core::DType::f64) {
    body.template operator()<double>();
  } else {
    body.template operator()<float>();
  }
}

// out[0:n) = v[0:n) as T.
template <class T>
void load(const View& v, std::int64_t n, T* out) {
  const auto each = [&]<class S>(const S* in, auto convert) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = static_cast<T>(convert(in[i]));
  };
  switch (v.type) {
    case core::DType::f64:
      return each(static_cast<const double*>(v.data), [](double x) { return x; });
    case core::DType::f32:
      return each(static_cast<const float*>(v.data), [](float x) { return x; });
    case core::DType::bf16: return each(static_cast<const std::uint16_t*>(v.data), from_bf16);
    case core::DType::f16: return each(static_cast<const std::uint16_t*>(v.data), from_f16);
    case core::DType::f8: return load_f8(v, n, out);
    default: PLANNER_CHECK(false, "kernels read f64, f32, bf16, f16 and f8");
  }
}

// v[0:n) = round(in[0:n)).
template <class T>
void store(const View& v, std::int64_t n, const T* in) {
  const auto each = [&]<class S>(S* out, auto convert) {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) out[i] = convert(in[i]);
  };
  const auto half = [](auto to) { return [to](T x) { return to(static_cast<float>(x)); }; };
  switch (v.type) {
    case core::DType::f64:
      return each(static_cast<double*>(v.data), [](T x) { return static_cast<double>(x); });
    case core::DType::f32:
      return each(static_cast<float*>(v.data), [](T x) { return static_cast<float>(x); });
    case core::DType::bf16: return each(static_cast<std::uint16_t*>(v.data), half(to_bf16));
    case core::DType::f16: return each(static_cast<std::uint16_t*>(v.data), half(to_f16));
    default: PLANNER_CHECK(false, "kernels write f64, f32, bf16 and f16");
  }
}

// The n elements of v as T: in place where the type agrees, else converted into buffer.
template <class T>
const T* read(const View& v, std::int64_t n, T* buffer) {
  if (v.type == dtype_of<T>()) return static_cast<const T*>(v.data);
  load(v, n, buffer);
  return buffer;
}

// Where to write what becomes v: v itself or buffer. Follow with finish().
template <class T>
T* target(const View& v, T* buffer) {
  return v.type == dtype_of<T>() ? static_cast<T*>(v.data) : buffer;
}

template <class T>
void finish(const View& v, std::int64_t n, const T* written) {
  if (v.type != dtype_of<T>()) store(v, n, written);
}

// Single elements (row statistics).
template <class T>
T get(const View& v, std::int64_t i) {
  T x;
  load(v.at(i), 1, &x);
  return x;
}
template <class T>
void put(const View& v, std::int64_t i, T x) {
  store(v.at(i), 1, &x);
}

// body(first, count) over [0, n) in chunks.
template <class Body>
void for_chunks(std::int64_t n, Body&& body) {
  for (std::int64_t c = 0; c < n; c += kChunk) body(c, std::min(kChunk, n - c));
}

// out[i] = body(in[i]...) in the compute type T; out may be one of the inputs.
template <class T, class Body, class... In>
void elementwise(std::int64_t n, const View& out, Body body, const In&... in) {
  for_chunks(n, [&](std::int64_t c, std::int64_t m) {
    T buffer[sizeof...(In) + 1][kChunk];
    T* const y = target(out.at(c), buffer[sizeof...(In)]);
    const auto run = [&](const auto*... x) {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < m; ++i) y[i] = body(x[i]...);
    };
    int used = 0;
    const auto fetch = [&](const View& v) { return read(v.at(c), m, buffer[used++]); };
    run(fetch(in)...);
    finish(out.at(c), m, y);
  });
}

}  // namespace exec::host
