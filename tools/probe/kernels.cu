#include "tools/probe/kernels.hpp"

#include <cuda_bf16.h>

#include "tools/probe/cuda.hpp"

namespace probe {
namespace {

constexpr int kThreads = 256;

// Enough blocks to fill any card several times over; loops stride by the grid.
unsigned blocks_for(std::size_t items) {
  const std::size_t wanted = (items + kThreads - 1) / kThreads;
  return static_cast<unsigned>(wanted < 4096 ? (wanted > 0 ? wanted : 1) : 4096);
}

__device__ std::size_t first_index() {
  return static_cast<std::size_t>(blockIdx.x) * blockDim.x + threadIdx.x;
}
__device__ std::size_t stride() { return static_cast<std::size_t>(gridDim.x) * blockDim.x; }

__global__ void empty_kernel() {}

// splitmix64 finaliser: a bijection that mixes all bits, good enough for test data.
__device__ std::uint64_t mix(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

__device__ float normal(std::size_t index, std::uint32_t seed) {
  const std::uint64_t bits = mix(index ^ (static_cast<std::uint64_t>(seed) << 40));
  const float u = (static_cast<float>(bits >> 40) + 0.5F) * 0x1p-24F;                 // (0, 1)
  const float v = static_cast<float>((bits >> 8) & 0xffffffU) * 0x1p-24F;             // [0, 1)
  return sqrtf(-2.0F * logf(u)) * cosf(6.2831853F * v);
}

__global__ void normal_bf16_kernel(__nv_bfloat16* data, std::size_t count, std::uint32_t seed) {
  for (std::size_t i = first_index(); i < count; i += stride()) {
    data[i] = __float2bfloat16(normal(i, seed));
  }
}

__global__ void normal_f32_kernel(float* data, std::size_t count, std::uint32_t seed) {
  for (std::size_t i = first_index(); i < count; i += stride()) data[i] = normal(i, seed);
}

__global__ void read_kernel(const uint4* from, std::size_t count, uint4* sink) {
  uint4 sum{0, 0, 0, 0};
  for (std::size_t i = first_index(); i < count; i += stride()) {
    const uint4 value = from[i];
    sum.x ^= value.x;
    sum.y ^= value.y;
    sum.z ^= value.z;
    sum.w ^= value.w;
  }
  // Practically never true, but the compiler cannot know: the loads stay.
  if (sum.x == 0x9e3779b9U && sum.y == 0x7f4a7c15U && sum.z == 1U && sum.w == 2U) *sink = sum;
}

__global__ void write_kernel(uint4* to, std::size_t count) {
  for (std::size_t i = first_index(); i < count; i += stride()) {
    const auto low = static_cast<unsigned>(i);
    to[i] = uint4{low, ~low, low * 3U, low * 7U};
  }
}

__global__ void copy_kernel(const uint4* from, uint4* to, std::size_t count) {
  for (std::size_t i = first_index(); i < count; i += stride()) to[i] = from[i];
}

__device__ unsigned long long global_nanoseconds() {
  unsigned long long value;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(value));
  return value;
}

__global__ void spin_kernel(unsigned long long* out, unsigned long long nanoseconds) {
  // Start on a tick of the timer, which is coarse on some cards (1 us).
  const unsigned long long before = global_nanoseconds();
  const long long entry = clock64();
  unsigned long long from = before;
  while (from == before && clock64() - entry < 1000000000LL) from = global_nanoseconds();
  const long long start = clock64();
  unsigned long long to = from;
  long long end = start;
  while (to - from < nanoseconds && end - start < 1000000000LL) {
    const unsigned long long tick = global_nanoseconds();
    end = clock64();
    to = tick;
  }
  if (out == nullptr) return;
  out[0] = static_cast<unsigned long long>(end - start);
  out[1] = to - from;
}

__global__ void pattern_kernel(float* data, std::size_t count, float factor) {
  for (std::size_t i = first_index(); i < count; i += stride()) {
    data[i] = factor * static_cast<float>(i % 7 + 1);
  }
}

__global__ void mismatch_kernel(const float* data, std::size_t count, float factor,
                                unsigned long long* mismatches) {
  unsigned long long mine = 0;
  for (std::size_t i = first_index(); i < count; i += stride()) {
    mine += data[i] != factor * static_cast<float>(i % 7 + 1) ? 1ULL : 0ULL;
  }
  if (mine > 0) atomicAdd(mismatches, mine);
}

}  // namespace

void launch_empty(cudaStream_t stream) {
  empty_kernel<<<1, 32, 0, stream>>>();
  PROBE_TRY(cudaGetLastError());
}

void fill_normal_bf16(void* data, std::size_t count, std::uint32_t seed, cudaStream_t stream) {
  normal_bf16_kernel<<<blocks_for(count), kThreads, 0, stream>>>(
      static_cast<__nv_bfloat16*>(data), count, seed);
  PROBE_TRY(cudaGetLastError());
}

void fill_normal_f32(float* data, std::size_t count, std::uint32_t seed, cudaStream_t stream) {
  normal_f32_kernel<<<blocks_for(count), kThreads, 0, stream>>>(data, count, seed);
  PROBE_TRY(cudaGetLastError());
}

void stream_read(const void* from, std::size_t bytes, void* sink16, cudaStream_t stream) {
  const std::size_t count = bytes / sizeof(uint4);
  read_kernel<<<blocks_for(count), kThreads, 0, stream>>>(static_cast<const uint4*>(from), count,
                                                          static_cast<uint4*>(sink16));
  PROBE_TRY(cudaGetLastError());
}

void stream_write(void* to, std::size_t bytes, cudaStream_t stream) {
  const std::size_t count = bytes / sizeof(uint4);
  write_kernel<<<blocks_for(count), kThreads, 0, stream>>>(static_cast<uint4*>(to), count);
  PROBE_TRY(cudaGetLastError());
}

void stream_copy(const void* from, void* to, std::size_t bytes, cudaStream_t stream) {
  const std::size_t count = bytes / sizeof(uint4);
  copy_kernel<<<blocks_for(count), kThreads, 0, stream>>>(static_cast<const uint4*>(from),
                                                          static_cast<uint4*>(to), count);
  PROBE_TRY(cudaGetLastError());
}

void spin(unsigned long long* out, unsigned long long nanoseconds, cudaStream_t stream) {
  spin_kernel<<<1, 1, 0, stream>>>(out, nanoseconds);
  PROBE_TRY(cudaGetLastError());
}

void fill_pattern(float* data, std::size_t count, float factor, cudaStream_t stream) {
  pattern_kernel<<<blocks_for(count), kThreads, 0, stream>>>(data, count, factor);
  PROBE_TRY(cudaGetLastError());
}

void count_mismatches(const float* data, std::size_t count, float factor,
                      unsigned long long* mismatches, cudaStream_t stream) {
  mismatch_kernel<<<blocks_for(count), kThreads, 0, stream>>>(data, count, factor, mismatches);
  PROBE_TRY(cudaGetLastError());
}

}  // namespace probe
