#pragma once
// A warp's instructions on 16-bit tiles: products on tensor cores, loads of their fragments, copies
// into shared memory that run beside the arithmetic. PTX of sm_80 and everything newer; on the host
// exec/cuda/emulate/tensor_core.hpp, which follows the PTX ISA's layouts lane by lane.
//
// A fragment word holds two neighbours, the first in the low half. Shapes below are [rows, columns]
// of a product [16, 16] x [16, 8]; g = lane / 4, t = lane % 4:
//   left:   word 0 [g, 2t], 1 [g + 8, 2t], 2 [g, 2t + 8], 3 [g + 8, 2t + 8]
//   right:  word 0 [2t, g], 1 [2t + 8, g]
//   result: 0 [g, 2t], 1 [g, 2t + 1], 2 [g + 8, 2t], 3 [g + 8, 2t + 1]
// (PTX ISA, "Matrix Fragments for mma.m16n8k16 with floating point type"). So a result, rounded to
// pairs, is a left operand: of 16 columns two results side by side.

#include <type_traits>

#include "exec/cuda/kernels/device.cuh"

#if !defined(__CUDACC__)
#include "exec/cuda/emulate/tensor_core.hpp"
#endif

namespace exec::cuda {

using Word = std::uint32_t;

#if defined(__CUDACC__)

PLANNER_DEVICE unsigned shared_address(const void* p) {
  return static_cast<unsigned>(__cvta_generic_to_shared(p));
}

// Four matrices of 8 x 8 (ldmatrix): lane i names row i % 8 of matrix i / 8, 16 bytes of shared
// memory; word m of a lane is [g, 2t] and [g, 2t + 1] of matrix m.
PLANNER_DEVICE void load_matrices(Word (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}
// The same, each matrix transposed: word m is [2t, g] and [2t + 1, g].
PLANNER_DEVICE void load_matrices_transposed(Word (&r)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(shared_address(row))
               : "memory");
}

// d += left right, sums in f32.
template <class A>
PLANNER_DEVICE void multiply_add(float (&d)[4], const Word (&left)[4], Word right0, Word right1) {
  if constexpr (std::is_same_v<A, bf16>)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right0), "r"(right1));
}

// kBytes (4 or 16) from global to shared memory, zeros where it is not real; visible to this thread
// once awaited, to others behind a barrier too. 16 bytes go past the first cache.
template <int kBytes>
PLANNER_DEVICE void copy_async(void* to, const void* from, bool real) {
  const int bytes = real ? kBytes : 0;
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"(shared_address(to)), "l"(__cvta_generic_to_global(from)), "r"(bytes)
                 : "memory");
}
// Waits for every copy that this thread has asked for.
PLANNER_DEVICE void await_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Rounded to nearest even, each alone.
template <class A>
PLANNER_DEVICE Word pair_of(float low, float high) {
  Word w;
  if constexpr (std::is_same_v<A, bf16>)
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
  else
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(w) : "f"(high), "f"(low));
  return w;
}

// 2^x, relative error 2^-22; 0 at minus infinity and where 2^x is no normal number.
PLANNER_DEVICE float power_of_two(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

#else

inline void load_matrices(Word (&r)[4], const void* row) {
  ::emulate::load_matrices(r, row, false);
}
inline void load_matrices_transposed(Word (&r)[4], const void* row) {
  ::emulate::load_matrices(r, row, true);
}
template <class A>
void multiply_add(float (&d)[4], const Word (&left)[4], Word right0, Word right1) {
  const Word right[2] = {right0, right1};
  ::emulate::multiply_add(d, left, right,
                          [](std::uint16_t bits) { return widen(A{bits}); });
}
template <int kBytes>
void copy_async(void* to, const void* from, bool real) {
  ::emulate::copy_async(to, from, kBytes, real);
}
inline void await_copies() { ::emulate::await_copies(); }
template <class A>
Word pair_of(float low, float high) {
  return narrowed<A>(low).bits | static_cast<Word>(narrowed<A>(high).bits) << 16;
}
inline float power_of_two(float x) { return exp2f(x); }

#endif

}  // namespace exec::cuda
