#pragma once
// Kernels of the CUDA backend on the emulated grid beside their host twins: the same inputs,
// outputs that start as NaN (or alike, where they are added to), norms of the difference by type.

#include <cmath>
#include <memory>

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/cuda/twin/twin.hpp"
#include "exec/host/quantise.hpp"
#include "tests/unit/kernels/support.hpp"

namespace cuda_tests {

using namespace kernel_tests;
namespace cuda = exec::cuda;

// A device with one stream, and its workspace.
class Device {
 public:
  explicit Device(std::uint64_t seed = 1) : twin_({.seed = seed}) {
    stream_ = twin_.create_stream(false);
    std::copy(exec::host::signed_map().begin(), exec::host::signed_map().end(), maps_.begin());
    std::copy(exec::host::unsigned_map().begin(), exec::host::unsigned_map().end(),
              maps_.begin() + 256);
  }
  cuda::Queue queue() {
    return {twin_, stream_, 4, workspace_.data(), workspace_.size()};
  }
  void wait() { twin_.synchronise(stream_); }
  cuda::Twin& twin() { return twin_; }
  const float* maps() const { return maps_.data(); }

 private:
  cuda::Twin twin_;
  cuda::StreamHandle stream_ = nullptr;
  std::vector<std::byte> workspace_ = std::vector<std::byte>(4 << 20, std::byte{0xFF});
  std::vector<float> maps_ = std::vector<float>(512);
};

// |a - b| / |b| (Frobenius), NaN if any is.
inline double difference(Buffer& a, Buffer& b) {
  const Values x = a.values(), y = b.values();
  double off = 0, size = 0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    off += (x[i] - y[i]) * (x[i] - y[i]);
    size += y[i] * y[i];
  }
  return std::sqrt(off) / (size > 0 ? std::sqrt(size) : 1.0);
}

// Sums of up to about 10^3 terms in the arithmetic's type, in another order, then one rounding of
// which a few go the other way: half a unit in the last place each, at most.
inline double bound(DType type) {
  const double arithmetic = type == DType::f64 ? 1e-13 : 2e-6;
  return arithmetic + (type == DType::f64 || type == DType::f32 ? 0 : 2 * roundoff(type));
}

inline void check_close(const char* what, Buffer& found, Buffer& expected, DType type) {
  INFO(what << " " << core::name(type));
  CHECK(difference(found, expected) <= bound(type));
  // Nobody wrote behind the end.
  CHECK(std::equal(found.bytes().end() - 64, found.bytes().end(), expected.bytes().end() - 64));
}

constexpr DType kTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16};
inline DType statistic(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace cuda_tests
