// Casts matrices to 8-bit floating point with one scale a tensor, for products of 8-bit tensor
// cores (planner/question/f8_matrix.hpp). A cast is two kernels. The first finds the greatest
// magnitude of the matrix. The second writes the codes by rows, by columns, or both: each block
// reads a tile of 64 x 64 elements, writes its rows from registers, and its columns from shared
// memory.
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"
#include "exec/host/f8.hpp"

namespace exec::cuda {
namespace {

using planner::F8Format;
using planner::F8Matrix;

constexpr int kThreads = 256, kTile = 64;
constexpr int64_t kMostParts = 1024;   // of a matrix, each with a maximum of its own
constexpr int kRun = 16;               // codes that a thread writes of a column

struct Most {
  PLANNER_DEVICE std::uint32_t operator()(std::uint32_t a, std::uint32_t b) const {
    return b > a ? b : a;
  }
};

#if defined(__CUDACC__)
// Returns two codes: a's in the low byte, b's in the high byte. A number that the format does not
// reach gets the code of the greatest number of its sign.
template <F8Format kFormat>
PLANNER_DEVICE std::uint16_t coded(float a, float b) {
#if __CUDA_ARCH__ >= 890
  std::uint16_t both;
  if constexpr (kFormat == F8Format::e4m3)
    asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(both) : "f"(b), "f"(a));
  else
    asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(both) : "f"(b), "f"(a));
  return both;
#else
  return 0;                            // such devices have no 8-bit products: jobs are refused
#endif
}
#else
template <F8Format kFormat>
inline std::uint16_t coded(float a, float b) {
  const auto one = [](float x) {
    return kFormat == F8Format::e4m3 ? host::to_e4m3(x) : host::to_e5m2(x);
  };
  return static_cast<std::uint16_t>(one(a) | one(b) << 8);
}
#endif

// parts[block] = the greatest magnitude of the packs that the block reads, as the bits of an f32.
// As integers these bits have the same order as the magnitudes, and NaN is the greatest.
template <class A>
__global__ void greatest_magnitudes(std::uint32_t* parts, const A* x, int64_t n) {
  constexpr int kSize = Pack<A>::kSize;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.x * kSize;
  std::uint32_t most = 0;
  for (int64_t i = (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) * kSize; i < n;
       i += step) {
    Compute<A> v[kSize];
    load_pack(x, i, n, aligned(x), v);
    PLANNER_UNROLL
    for (int j = 0; j < kSize; ++j)
      most = Most{}(most, bits_of(static_cast<float>(v[j])) & 0x7fffffffU);
  }
  most = over_block(most, Most{});
  if (threadIdx.x == 0) parts[blockIdx.x] = most;
}

// Where the codes in one order are written, and their scale. Null: this order is not written.
struct Codes {
  std::uint8_t* codes;
  float* scale;
};
// The codes of a pack's elements, which one store writes.
template <int kSize>
struct alignas(kSize) CodePack { std::uint16_t two[kSize / 2]; };

struct CastShape {
  int64_t rows, columns;
  float greatest;                      // of the format
};

template <class A, F8Format kFormat>
__global__ void cast_tiles(Codes by_rows, Codes by_columns, const std::uint32_t* parts,
                           int part_count, const A* x, CastShape s) {
  constexpr int kSize = Pack<A>::kSize;
  __shared__ std::uint16_t tile[kTile][kTile / 2 + 1];
  std::uint32_t bits = 0;
  for (int i = static_cast<int>(threadIdx.x); i < part_count; i += kThreads)
    bits = Most{}(bits, parts[i]);
  bits = over_block(bits, Most{});
  // As exec/host/f8.cpp: 1 of zeros; a tensor with an infinity or a NaN becomes NaN.
  const bool finite = bits < 0x7f800000U;
  const float scale = bits == 0 || !finite ? 1.0F : float_of(bits) / s.greatest;
  const float inverse = finite ? 1.0F / scale : float_of(0x7fc00000U);
  if (threadIdx.x == 0 && blockIdx.x == 0 && blockIdx.y == 0) {
    if (by_rows.codes != nullptr) *by_rows.scale = scale;
    if (by_columns.codes != nullptr) *by_columns.scale = scale;
  }
  const int64_t row = static_cast<int64_t>(blockIdx.y) * kTile,
                column = static_cast<int64_t>(blockIdx.x) * kTile;
  const bool wide = s.columns % kSize == 0 && aligned(x);
  for (int at = static_cast<int>(threadIdx.x); at < kTile * kTile / kSize; at += kThreads) {
    const int r = at / (kTile / kSize), c = at % (kTile / kSize) * kSize;
    Compute<A> v[kSize] = {};
    const bool is_in = row + r < s.rows && column + c < s.columns;
    if (is_in) load_pack(x + (row + r) * s.columns, column + c, s.columns, wide, v);
    CodePack<kSize> pack;
    PLANNER_UNROLL
    for (int j = 0; j < kSize; j += 2) {
      pack.two[j / 2] = coded<kFormat>(static_cast<float>(v[j]) * inverse,
                                       static_cast<float>(v[j + 1]) * inverse);
      tile[r][(c + j) / 2] = pack.two[j / 2];
    }
    if (is_in && by_rows.codes != nullptr)
      *reinterpret_cast<CodePack<kSize>*>(by_rows.codes + (row + r) * s.columns + column + c) =
          pack;
  }
  if (by_columns.codes == nullptr) return;
  __syncthreads();
  static_assert(kTile * kTile == kThreads * kRun);
  const int c = static_cast<int>(threadIdx.x) / (kTile / kRun),
            first = static_cast<int>(threadIdx.x) % (kTile / kRun) * kRun;
  if (column + c >= s.columns) return;
  const auto code = [&](int r) {
    const std::uint16_t both = tile[first + r][c / 2];
    return static_cast<std::uint8_t>(c % 2 == 0 ? both : both >> 8);
  };
  std::uint8_t* const to = by_columns.codes + (column + c) * s.rows + row + first;
  if (s.rows % kRun == 0 && row + first < s.rows) {
    Words words;
    PLANNER_UNROLL
    for (int w = 0; w < 4; ++w) {
      std::uint32_t four = 0;
      PLANNER_UNROLL
      for (int j = 0; j < 4; ++j) four |= static_cast<std::uint32_t>(code(4 * w + j)) << (8 * j);
      words.of[w] = four;
    }
    put(to, words);
    return;
  }
  for (int r = 0; r < kRun && row + first + r < s.rows; ++r) to[r] = code(r);
}

Codes codes_of(const View& v) {
  if (!v) return {nullptr, nullptr};
  auto* const codes = typed<std::uint8_t>(v);
  return {codes, reinterpret_cast<float*>(codes + v.f8->elements())};
}

}  // namespace

void cast_to_f8(const Queue& q, std::span<const View> to, View from) {
  View by_rows, by_columns;
  for (const View& v : to) (v.f8->by_columns ? by_columns : by_rows) = v;
  const F8Matrix& m = *to.front().f8;
  PLANNER_CHECK(m.scaling == planner::F8Scaling::tensorwise && m.scales() == 1 &&
                    m.columns % kRun == 0,
                "one scale for all of a matrix, and columns in sixteens");
  const CastShape shape{m.all_rows(), m.columns, host::greatest(m.format())};
  const auto room = static_cast<int64_t>(q.workspace_bytes / sizeof(std::uint32_t));
  with_type(from.type, [&]<class A>() {
    const int64_t packs = m.elements() / Pack<A>::kSize;
    const int64_t parts = std::clamp<int64_t>(packs / kThreads, 1, std::min(kMostParts, room));
    auto* const maxima = q.take<std::uint32_t>(parts);
    launch(q, "f8_maxima", {static_cast<unsigned>(parts)}, {kThreads}, 0, greatest_magnitudes<A>,
           maxima, typed<A>(from), m.elements());
    const auto cast = [&]<F8Format kFormat>() {
      launch(q, "f8_cast", {blocks_of(m.columns, kTile), blocks_of(shape.rows, kTile)},
             {kThreads}, 0, cast_tiles<A, kFormat>, codes_of(by_rows), codes_of(by_columns),
             maxima, static_cast<int>(parts), typed<A>(from), shape);
    };
    m.format() == F8Format::e4m3 ? cast.template operator()<F8Format::e4m3>()
                                 : cast.template operator()<F8Format::e5m2>();
  });
}

}  // namespace exec::cuda
