#pragma once
// The warp instructions of exec/cuda/kernels/tensor_core.cuh on the host, from the PTX ISA's text:
// which lane holds which element, and what a kernel must not do. A kernel that breaks a rule ends
// the process with its name: rows that are not 16-byte aligned or not in the block's shared memory,
// eight rows of a matrix that share banks (allowed by PTX, slow on a GPU, and never meant here).

#include <cstdint>

#include "exec/cuda/emulate/grid.hpp"

namespace emulate {

using Word = std::uint32_t;

// "Warp-level matrix load instruction: ldmatrix", .m8n8.x4.b16, .trans or not.
void load_matrices(Word (&r)[4], const void* row, bool transposed);

// A copy happens when it is asked for or when it is awaited, as a draw by block, thread and number
// says: what reads too early or writes too early finds wrong bytes in one of them.
void copy_async(void* to, const void* from, unsigned bytes, bool real);
void await_copies();

// What a lane brings to a product, as "Matrix Fragments for mma.m16n8k16 with floating point type"
// numbers it: a0 a1 in left[0], ..., a6 a7 in left[3]; b0 b1 in right[0], b2 b3 in right[1].
struct Fragment {
  Word left[4], right[2];
};

inline std::uint16_t half_of(Word w, unsigned i) {
  return static_cast<std::uint16_t>(w >> 16 * (i % 2));
}

// d[16, 8] += a[16, 16] b[16, 8], sums in f32 (the ISA leaves their order open).
template <class Widen>
void multiply_add(float (&d)[4], const Word (&left)[4], const Word (&right)[2], Widen widen) {
  Fragment mine{};
  std::memcpy(mine.left, left, sizeof left);
  std::memcpy(mine.right, right, sizeof right);
  const std::byte* const all = exchange(&mine, sizeof mine);
  const auto of = [&](unsigned lane) {
    Fragment f;
    std::memcpy(&f, all + lane * kLargestExchange, sizeof f);
    return f;
  };
  const unsigned group = state().lane >> 2, in_group = state().lane % 4;
  for (unsigned k = 0; k < 16; ++k) {
    // a_i: row = groupID for i in {0, 1, 4, 5}, else groupID + 8; column = 2 threadID_in_group +
    // (i & 1), + 8 for i >= 4. b_i: row = 2 threadID_in_group + (i & 1), + 8 for i >= 2; column =
    // groupID.
    const unsigned holder = k % 8 / 2, high = k / 8;
    const Fragment a = of(group * 4 + holder);
    for (unsigned i = 0; i < 4; ++i) {
      // c_i: row = groupID for i < 2, else groupID + 8; column = 2 threadID_in_group + (i & 1).
      const unsigned column = 2 * in_group + i % 2, below = i / 2;
      const Fragment b = of(column * 4 + holder);
      d[i] += widen(half_of(a.left[2 * high + below], k)) * widen(half_of(b.right[high], k));
    }
  }
}

}  // namespace emulate
