// The emulated warp instructions: against the figures of the PTX ISA, and what they must catch.
#include "exec/cuda/kernels/tensor_core.cuh"
#include "exec/cuda/twin/twin.hpp"
#include "tests/unit/cuda/support.hpp"

using namespace cuda_tests;
using cuda::Word;

namespace {

// One block of one or more warps.
void on_warps(unsigned warps, const std::function<void()>& body) {
  emulate::run("test", {1, 1, 1}, {32 * warps, 1, 1}, 8192, body);
}

template <class A>
Word two(const std::vector<float>& m, std::size_t columns, std::size_t r0, std::size_t c0,
         std::size_t r1, std::size_t c1) {
  return cuda::pair_of<A>(m[r0 * columns + c0], m[r1 * columns + c1]);
}

// Whole numbers, so that every sum is exact.
std::vector<float> whole(Random& r, std::size_t n) {
  std::vector<float> v(n);
  for (float& x : v) x = static_cast<float>(r.below(17)) - 8;
  return v;
}

template <class A>
void check_product() {
  Random r(51);
  const std::vector<float> a = whole(r, 256), b = whole(r, 128), start = whole(r, 128);
  std::vector<float> c = start;
  on_warps(1, [&] {
    const std::size_t lane = threadIdx.x, g = lane / 4, t = lane % 4;
    // Figures of "Matrix Fragments for mma.m16n8k16": (row, column) of each element of a lane.
    const Word left[4] = {two<A>(a, 16, g, 2 * t, g, 2 * t + 1),
                          two<A>(a, 16, g + 8, 2 * t, g + 8, 2 * t + 1),
                          two<A>(a, 16, g, 2 * t + 8, g, 2 * t + 9),
                          two<A>(a, 16, g + 8, 2 * t + 8, g + 8, 2 * t + 9)};
    const Word right0 = two<A>(b, 8, 2 * t, g, 2 * t + 1, g);
    const Word right1 = two<A>(b, 8, 2 * t + 8, g, 2 * t + 9, g);
    float* const at[4] = {&c[g * 8 + 2 * t], &c[g * 8 + 2 * t + 1], &c[(g + 8) * 8 + 2 * t],
                          &c[(g + 8) * 8 + 2 * t + 1]};
    float d[4] = {*at[0], *at[1], *at[2], *at[3]};
    cuda::multiply_add<A>(d, left, right0, right1);
    for (int i = 0; i < 4; ++i) *at[i] = d[i];
  });
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 8; ++j) {
      float sum = start[i * 8 + j];
      for (std::size_t k = 0; k < 16; ++k) sum += a[i * 16 + k] * b[k * 8 + j];
      CHECK(c[i * 8 + j] == sum);
    }
}

}  // namespace

TEST_CASE("a product of fragments as the PTX ISA lays them out is the product of the matrices") {
  check_product<cuda::bf16>();
  check_product<cuda::f16>();
}

TEST_CASE("a lane's word of a loaded matrix is the neighbours that the PTX ISA says") {
  Word found[2][32][4];
  on_warps(1, [&] {
    auto* const rows = reinterpret_cast<std::uint16_t*>(emulate::shared());
    const unsigned lane = threadIdx.x;
    // Matrix m, row i, column j holds 100 m + 10 i + j; rows lie one behind the other.
    for (unsigned j = 0; j < 8; ++j)
      rows[lane * 8 + j] = static_cast<std::uint16_t>(100 * (lane / 8) + 10 * (lane % 8) + j);
    __syncwarp();
    cuda::load_matrices(found[0][lane], rows + lane * 8);
    cuda::load_matrices_transposed(found[1][lane], rows + lane * 8);
  });
  // Lane 13: row 3, columns 2 and 3; transposed: rows 2 and 3 of column 3.
  for (unsigned m = 0; m < 4; ++m) {
    CHECK(found[0][13][m] == ((100 * m + 32) | (100 * m + 33) << 16));
    CHECK(found[1][13][m] == ((100 * m + 23) | (100 * m + 33) << 16));
    CHECK(found[0][0][m] == ((100 * m + 0) | (100 * m + 1) << 16));
    CHECK(found[0][31][m] == ((100 * m + 76) | (100 * m + 77) << 16));
    CHECK(found[1][31][m] == ((100 * m + 67) | (100 * m + 77) << 16));
  }
}

TEST_CASE("copies are there once awaited, and some of them neither before nor at the end alone") {
  alignas(16) float from[256];
  for (int i = 0; i < 256; ++i) from[i] = static_cast<float>(i);
  int early = 0, right = 0, zeros = 0;
  on_warps(2, [&] {
    auto* const to = reinterpret_cast<float*>(emulate::shared()) + threadIdx.x * 4;
    const bool real = threadIdx.x < 60;
    cuda::copy_async<16>(to, from + threadIdx.x * 4, real);
    early += to[3] == (real ? from[threadIdx.x * 4 + 3] : 0.0F);
    cuda::await_copies();
    right += to[3] == (real ? from[threadIdx.x * 4 + 3] : 0.0F);
    zeros += to[0] == 0.0F && to[3] == 0.0F;
  });
  CHECK(right == 64);
  CHECK(zeros == 4);
  CHECK(early > 8);
  CHECK(early < 56);
}

TEST_CASE("what does not fit tensor cores goes to the kernels that need none") {
  cuda::Twin twin;
  const cuda::StreamHandle stream = twin.create_stream(false);
  Random r(52);
  const auto launched = [&](DType type, std::int64_t d, std::int64_t off) {
    const exec::host::AttentionShape s{1, 5, 1, 1, d, true};
    Buffer qkv = random(r, type, 5 * 3 * d + off), out(type, 5 * d), lse(statistic(type), 5);
    std::vector<std::byte> workspace(1024);
    const std::int64_t before = twin.launches()["tensor_attention"];
    cuda::attention({twin, stream, 4, workspace.data(), workspace.size()}, out, lse,
                    qkv.view().at(off), s);
    twin.synchronise(stream);
    return twin.launches()["tensor_attention"] > before;
  };
  CHECK(launched(DType::bf16, 16, 0));
  CHECK(launched(DType::f16, 64, 0));
  CHECK(!launched(DType::bf16, 12, 0));
  CHECK(!launched(DType::bf16, 16, 1));
  CHECK(!launched(DType::f32, 16, 0));
  CHECK(!launched(DType::f64, 16, 0));
}
