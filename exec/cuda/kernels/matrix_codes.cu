// Frozen matrices from their codes (exec/host/matrix_codes.hpp states the layouts).
#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/kernels/launch.cuh"
#include "exec/host/matrix_codes.hpp"

namespace exec::cuda {
namespace {

constexpr unsigned kThreads = 256;
constexpr int kBlock = 64;             // weights of a scale, nf4

// An f32 that may lie anywhere.
PLANNER_DEVICE float float_at(const unsigned char* p) {
  return float_of(static_cast<std::uint32_t>(p[0]) | static_cast<std::uint32_t>(p[1]) << 8 |
                  static_cast<std::uint32_t>(p[2]) << 16 | static_cast<std::uint32_t>(p[3]) << 24);
}

template <class A>
__global__ void from_rows(A* y, const unsigned char* codes, int64_t n, int64_t rows) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int64_t row = i / (n / rows);
  const float scale = float_at(codes + n + 4 * row);
  narrow(static_cast<Compute<A>>(scale * static_cast<float>(static_cast<signed char>(codes[i]))),
         y[i]);
}

struct Levels { float of[16]; };

template <class A>
__global__ void from_blocks(A* y, const unsigned char* codes, int64_t n, const float* maps,
                            Levels levels) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n) return;
  const int64_t scales = (n + 1) / 2, blocks = (n + kBlock - 1) / kBlock;
  const int64_t block = i / kBlock;
  const float top = float_at(codes + scales + blocks + block / 256 * 4);
  const float scale = maps[256 + codes[scales + block]] * top;
  const int code = codes[i / 2] >> (i % 2 * 4) & 15;
  narrow(static_cast<Compute<A>>(levels.of[code] * scale), y[i]);
}

}  // namespace

void decode_matrix(const Queue& q, planner::Quantization kind, const void* codes, View y, int64_t n,
                   int64_t bytes, const float* maps) {
  using planner::Quantization;
  const auto* const in = static_cast<const unsigned char*>(codes);
  const Extent grid{blocks_of(n, kThreads)};
  with_type(y.type, [&]<class A>() {
    if (kind == Quantization::int8)
      return launch(q, "decode_int8", grid, {kThreads}, 0, from_rows<A>, typed<A>(y), in, n,
                    (bytes - n) / 4);
    PLANNER_CHECK(kind == Quantization::nf4, "no kernel decodes this quantisation");
    Levels levels;
    for (int i = 0; i < 16; ++i) levels.of[i] = host::nf4_levels()[static_cast<std::size_t>(i)];
    launch(q, "decode_nf4", grid, {kThreads}, 0, from_blocks<A>, typed<A>(y), in, n, maps, levels);
  });
}

}  // namespace exec::cuda
