#pragma once
// The few kernels of the probe, as functions that plain C++ can call, so that nvcc compiles one
// small file. All are asynchronous on `stream` and throw DeviceError when the launch is refused.

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace probe {

void launch_empty(cudaStream_t stream);  // one block of 32 threads that does nothing

// Standard normal numbers, the same for the same seed (counter-based, Box-Muller).
void fill_normal_bf16(void* data, std::size_t count, std::uint32_t seed, cudaStream_t stream);
void fill_normal_f32(float* data, std::size_t count, std::uint32_t seed, cudaStream_t stream);

// Element-wise traffic in 16-byte accesses. `bytes` is a multiple of 16; pointers are 16-aligned.
void stream_read(const void* from, std::size_t bytes, void* sink16, cudaStream_t stream);
void stream_write(void* to, std::size_t bytes, cudaStream_t stream);
void stream_copy(const void* from, void* to, std::size_t bytes, cudaStream_t stream);

// One thread spins for `nanoseconds` of the global timer and writes to out[0], out[1] how many SM
// clocks and nanoseconds passed; nothing when `out` is null. Ends after 10^9 clocks at the latest.
void spin(unsigned long long* out, unsigned long long nanoseconds, cudaStream_t stream);

// data[i] = factor * (i % 7 + 1): sums of a few of these are exact in float.
void fill_pattern(float* data, std::size_t count, float factor, cudaStream_t stream);
// Adds to *mismatches how many elements differ from factor * (i % 7 + 1).
void count_mismatches(const float* data, std::size_t count, float factor,
                      unsigned long long* mismatches, cudaStream_t stream);

}  // namespace probe
