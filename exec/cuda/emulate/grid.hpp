#pragma once
// A CUDA grid on one host thread, so that kernels are tested where there is no GPU. Every thread of
// a block is a fiber; fibers change places at barriers and warp exchanges alone, in a fixed order,
// so a run is reproducible. Blocks run one after another. A kernel whose lanes disagree at a warp
// exchange ends the process with its name: on a GPU it would hang or read what nobody wrote.
//
// This header gives kernel sources the words of CUDA C++ that they use; nothing else includes it.
// Limits: no dynamic parallelism, no cooperative groups, no textures; warps have 32 lanes; a mask
// names every lane that has not returned.

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <vector>

namespace emulate {

struct Index { unsigned x = 0, y = 0, z = 0; };

// A copy into shared memory that was asked for and has not happened.
struct Copy {
  void* to = nullptr;
  const void* from = nullptr;
  unsigned bytes = 0;
  bool real = true;                    // else zeros
};

struct State {
  Index thread, block, block_extent, grid_extent;
  unsigned lane = 0;
  unsigned copies_asked = 0;           // of this thread, in this block
  std::vector<Copy> copies;
};
inline thread_local State* running = nullptr;
inline State& state() { return *running; }  // of the fiber that runs
void barrier();                        // every thread of the block
// Every lane of the warp hands over `size` bytes (at most 64) and gets a place to read them all.
const std::byte* exchange(const void* mine, std::size_t size);
std::byte* shared();                   // dynamic shared memory of the block, 128 bytes aligned
std::size_t shared_bytes();
const char* kernel_name();

constexpr std::size_t kLargestExchange = 64;

// Runs `body` for every thread of the grid.
void run(const char* name, Index grid, Index block, std::size_t shared_bytes,
         const std::function<void()>& body);

template <class T>
T from_lane(const T& mine, unsigned lane) {
  static_assert(sizeof(T) <= kLargestExchange);
  T value;
  std::memcpy(&value, exchange(&mine, sizeof(T)) + lane % 32 * kLargestExchange, sizeof(T));
  return value;
}

}  // namespace emulate

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __shared__ static thread_local
#define __launch_bounds__(...)
#define threadIdx (::emulate::state().thread)
#define blockIdx (::emulate::state().block)
#define blockDim (::emulate::state().block_extent)
#define gridDim (::emulate::state().grid_extent)

inline void __syncthreads() { ::emulate::barrier(); }
inline void __syncwarp(unsigned = ~0U) {
  const char nothing = 0;
  ::emulate::exchange(&nothing, 1);
}
template <class T>
T __shfl_sync(unsigned, T value, int lane) {
  return ::emulate::from_lane(value, static_cast<unsigned>(lane));
}
template <class T>
T __shfl_xor_sync(unsigned, T value, int mask) {
  return ::emulate::from_lane(value, ::emulate::state().lane ^ static_cast<unsigned>(mask));
}
inline unsigned __ballot_sync(unsigned, int predicate) {
  const char mine = predicate != 0;
  const std::byte* all = ::emulate::exchange(&mine, 1);
  unsigned bits = 0;
  for (unsigned i = 0; i < 32; ++i)
    if (all[i * ::emulate::kLargestExchange] != std::byte{0}) bits |= 1U << i;
  return bits;
}
// Fibers change places nowhere within it.
inline int atomicAdd(int* at, int value) {
  const int before = *at;
  *at += value;
  return before;
}
inline int __popc(unsigned bits) { return __builtin_popcount(bits); }
