#pragma once
// What the kernels share: 16-bit types, packed accesses, sums over a warp and a block. The same
// source is compiled by nvcc and, against the emulator, by the host's compiler.

#include <cstdint>
#include <cstring>

#include "core/dtype.hpp"

#if defined(__CUDACC__)
#define PLANNER_DEVICE __device__ __forceinline__
// Also called where kernels are launched: a function of the device alone ends the process there.
#define PLANNER_EVERYWHERE __host__ __device__ __forceinline__
// A large argument of a kernel, which is indexed where it lies and not copied first.
#define PLANNER_ARGUMENT const __grid_constant__
// Dynamic shared memory of the block, as T; one such array a kernel.
#define PLANNER_SHARED(T, name)                            \
  extern __shared__ __align__(128) unsigned char raw_##name[]; \
  T* const name = reinterpret_cast<T*>(raw_##name)
// The loop below: whole, so that arrays it indexes stay in registers; n times.
#define PLANNER_UNROLL _Pragma("unroll")
#define PLANNER_PRAGMA(text) _Pragma(#text)
#define PLANNER_UNROLL_BY(n) PLANNER_PRAGMA(unroll(n))
#else
#include "exec/cuda/emulate/grid.hpp"
#include "exec/host/convert.hpp"
#define PLANNER_DEVICE inline
#define PLANNER_EVERYWHERE inline
#define PLANNER_ARGUMENT const
#define PLANNER_SHARED(T, name) T* const name = reinterpret_cast<T*>(::emulate::shared())
#define PLANNER_UNROLL
#define PLANNER_UNROLL_BY(n)
#endif

namespace exec::cuda {

using std::int64_t;

// Storage types; arithmetic is in float, or double for double.
struct bf16 { std::uint16_t bits; };
struct f16 { std::uint16_t bits; };

template <class A> struct ComputeOf { using type = float; };
template <> struct ComputeOf<double> { using type = double; };
template <> struct ComputeOf<std::int32_t> { using type = std::int32_t; };
template <class A> using Compute = typename ComputeOf<A>::type;

#if defined(__CUDACC__)
PLANNER_DEVICE float widen(f16 x) {
  float y;
  asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
  return y;
}
PLANNER_DEVICE float widen(bf16 x) {
  return __uint_as_float(static_cast<unsigned>(x.bits) << 16);
}
PLANNER_DEVICE void narrow(float x, f16& y) {
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
}
PLANNER_DEVICE void narrow(float x, bf16& y) {
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(y.bits) : "f"(x));
}
PLANNER_DEVICE std::uint32_t bits_of(float x) { return __float_as_uint(x); }
PLANNER_DEVICE float float_of(std::uint32_t x) { return __uint_as_float(x); }
#else
inline float widen(f16 x) { return host::from_f16(x.bits); }
inline float widen(bf16 x) { return host::from_bf16(x.bits); }
inline void narrow(float x, f16& y) { y.bits = host::to_f16(x); }
inline void narrow(float x, bf16& y) { y.bits = host::to_bf16(x); }
inline std::uint32_t bits_of(float x) { return std::bit_cast<std::uint32_t>(x); }
inline float float_of(std::uint32_t x) { return std::bit_cast<float>(x); }
#endif
PLANNER_DEVICE float widen(float x) { return x; }
PLANNER_DEVICE double widen(double x) { return x; }
PLANNER_DEVICE std::int32_t widen(std::int32_t x) { return x; }
PLANNER_DEVICE void narrow(float x, float& y) { y = x; }
PLANNER_DEVICE void narrow(double x, double& y) { y = x; }
PLANNER_DEVICE void narrow(double x, float& y) { y = static_cast<float>(x); }
PLANNER_DEVICE void narrow(float x, double& y) { y = static_cast<double>(x); }
PLANNER_DEVICE void narrow(double x, bf16& y) { narrow(static_cast<float>(x), y); }
PLANNER_DEVICE void narrow(double x, f16& y) { narrow(static_cast<float>(x), y); }
PLANNER_DEVICE void narrow(std::int32_t x, std::int32_t& y) { y = x; }

template <class A, class T>
PLANNER_DEVICE A narrowed(T x) {
  A y;
  narrow(x, y);
  return y;
}

PLANNER_DEVICE float exp_of(float x) { return expf(x); }
#if defined(__CUDACC__)
PLANNER_DEVICE float exp2_fast(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}
#else
inline float exp2_fast(float x) { return std::exp2(x); }
#endif
PLANNER_DEVICE double exp_of(double x) { return exp(x); }
// Where what it is made of has 16 bits: off by 2^-22 and the rounding of x log2(e) [PTX ISA,
// ex2.approx], some 2^-15 at the most negative x that counts.
template <class A>
PLANNER_DEVICE Compute<A> exp_from(Compute<A> x) {
  if constexpr (sizeof(A) == 2) return exp2_fast(x * 1.4426950408889634F);
  else return exp_of(x);
}
PLANNER_DEVICE float root_of(float x) { return sqrtf(x); }
PLANNER_DEVICE double root_of(double x) { return sqrt(x); }
PLANNER_DEVICE float log_of(float x) { return logf(x); }
PLANNER_DEVICE double log_of(double x) { return log(x); }
PLANNER_DEVICE float tanh_of(float x) { return tanhf(x); }
PLANNER_DEVICE double tanh_of(double x) { return tanh(x); }
PLANNER_DEVICE float erf_of(float x) { return erff(x); }
PLANNER_DEVICE double erf_of(double x) { return erf(x); }
template <class T>
PLANNER_DEVICE T logistic(T x) { return T(1) / (T(1) + exp_of(-x)); }
// The greater of both; NaN wins.
template <class T>
PLANNER_DEVICE T max_of(T a, T b) { return b > a || b != b ? b : a; }
template <class T>
PLANNER_DEVICE T smaller(T a, T b) { return b < a ? b : a; }

// ---- accesses of 16 bytes
// ------------------------------------------------------------------------

template <class A>
struct alignas(16) Pack {
  static constexpr int kSize = 16 / static_cast<int>(sizeof(A));
  A v[kSize];
};

PLANNER_EVERYWHERE bool aligned(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p) % 16 == 0;
}

// p[i .. i + kSize), widened; beyond n: zeros. wide: p + i is aligned to 16 bytes.
template <class A>
PLANNER_DEVICE void load_pack(const A* p, int64_t i, int64_t n, bool wide, Compute<A>* out) {
  constexpr int kSize = Pack<A>::kSize;
  if (wide && i + kSize <= n) {
    const Pack<A> pack = *reinterpret_cast<const Pack<A>*>(p + i);
    for (int j = 0; j < kSize; ++j) out[j] = widen(pack.v[j]);
  } else {
    for (int j = 0; j < kSize; ++j) out[j] = i + j < n ? widen(p[i + j]) : Compute<A>(0);
  }
}

template <class A>
PLANNER_DEVICE void store_pack(A* p, int64_t i, int64_t n, bool wide, const Compute<A>* in) {
  constexpr int kSize = Pack<A>::kSize;
  if (wide && i + kSize <= n) {
    Pack<A> pack;
    for (int j = 0; j < kSize; ++j) narrow(in[j], pack.v[j]);
    *reinterpret_cast<Pack<A>*>(p + i) = pack;
  } else {
    for (int j = 0; j < kSize; ++j)
      if (i + j < n) narrow(in[j], p[i + j]);
  }
}

// A pack as it was read: as words, since a register holds no more than one number otherwise.
struct alignas(16) Words { std::uint32_t of[4]; };

template <class A>
PLANNER_DEVICE Words raw(const A* p) {
  return *reinterpret_cast<const Words*>(p);
}
template <class A>
PLANNER_DEVICE void widened(const Words& words, Compute<A>* out) {
  Pack<A> pack;
  std::memcpy(&pack, &words, sizeof pack);
  PLANNER_UNROLL
  for (int j = 0; j < Pack<A>::kSize; ++j) out[j] = widen(pack.v[j]);
}
template <class A>
PLANNER_DEVICE Words narrowed_all(const Compute<A>* in) {
  Pack<A> pack;
  PLANNER_UNROLL
  for (int j = 0; j < Pack<A>::kSize; ++j) narrow(in[j], pack.v[j]);
  Words words;
  std::memcpy(&words, &pack, sizeof pack);
  return words;
}
template <class A>
PLANNER_DEVICE void put(A* p, const Words& words) {
  *reinterpret_cast<Words*>(p) = words;
}

// Where the rows of a sample stand in its sequence: host::Places.
struct Positions {
  int64_t early, early_at, late_at;
  PLANNER_EVERYWHERE int64_t of(int64_t row) const {
    return row < early ? early_at + row : late_at + row - early;
  }
  // Of so many rows, those that stand before a position.
  PLANNER_EVERYWHERE int64_t before(int64_t position, int64_t rows) const {
    const auto within = [](int64_t n, int64_t most) { return n < 0 ? 0 : n < most ? n : most; };
    return within(position - early_at, early) + within(position - late_at, rows - early);
  }
};

// ---- operands whose type is known at run time: what is read and written seldom
// -------------------

struct Real {
  void* data;
  core::DType type;
};

template <class T>
PLANNER_DEVICE T load_real(const Real& r, int64_t i) {
  switch (r.type) {
    case core::DType::f64: return static_cast<T>(static_cast<const double*>(r.data)[i]);
    case core::DType::bf16: return static_cast<T>(widen(static_cast<const bf16*>(r.data)[i]));
    case core::DType::f16: return static_cast<T>(widen(static_cast<const f16*>(r.data)[i]));
    default: return static_cast<T>(static_cast<const float*>(r.data)[i]);
  }
}
template <class T>
PLANNER_DEVICE void store_real(const Real& r, int64_t i, T x) {
  switch (r.type) {
    case core::DType::f64: return narrow(x, static_cast<double*>(r.data)[i]);
    case core::DType::bf16: return narrow(x, static_cast<bf16*>(r.data)[i]);
    case core::DType::f16: return narrow(x, static_cast<f16*>(r.data)[i]);
    default: return narrow(x, static_cast<float*>(r.data)[i]);
  }
}

// ---- sums
// ----------------------------------------------------------------------------------------

constexpr unsigned kAll = 0xffffffffU;

struct Plus {
  template <class T>
  PLANNER_DEVICE T operator()(T a, T b) const { return a + b; }
};
struct Greater {
  template <class T>
  PLANNER_DEVICE T operator()(T a, T b) const { return max_of(a, b); }
};

// The same value on every lane. Order: a butterfly.
template <class T, class Op>
PLANNER_DEVICE T over_warp(T x, Op op) {
  for (int mask = 16; mask > 0; mask /= 2) x = op(x, __shfl_xor_sync(kAll, x, mask));
  return x;
}

// Over a block of up to 1024 threads (whole warps, x alone), on every thread; twice in one kernel
// is fine. Order: warps, then their results.
template <class T, class Op>
PLANNER_DEVICE T over_block(T x, Op op) {
  __shared__ T of_warp[32];
  x = over_warp(x, op);
  const unsigned lane = threadIdx.x % 32, warps = blockDim.x / 32;
  __syncthreads();                     // an earlier result may still be read
  if (lane == 0) of_warp[threadIdx.x / 32] = x;
  __syncthreads();
  T all = of_warp[0];
  for (unsigned w = 1; w < warps; ++w) all = op(all, of_warp[w]);
  return all;
}

}  // namespace exec::cuda
