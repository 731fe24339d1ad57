#pragma once
// Kernels of the CUDA backend beside their host twins: the same inputs, outputs that start as NaN
// (or alike, where they are added to), norms of the difference by type. The device is the twin, or
// in tests/gpu a GPU, which then reaches the buffers of the tests in the host's memory.

#include <algorithm>
#include <cmath>
#include <memory>

#include "exec/cuda/kernels/kernels.hpp"
#include "exec/host/quantise.hpp"
#include "tests/unit/kernels/support.hpp"

namespace cuda_tests {

using namespace kernel_tests;
namespace cuda = exec::cuda;

// Defined by the binary: the twin, or a GPU.
std::unique_ptr<cuda::Api> open_device();

// A device with one stream, and its workspace, which the device alone reaches.
class Device {
 public:
  Device() : api_(open_device()) {
    stream_ = api_->create_stream(false);
    pool_ = api_->create_pool();
    bytes_ = std::max(std::size_t{4} << 20, api_->product_workspace());
    workspace_ = static_cast<std::byte*>(api_->allocate(pool_, bytes_));
    std::copy(exec::host::signed_map().begin(), exec::host::signed_map().end(), maps_.begin());
    std::copy(exec::host::unsigned_map().begin(), exec::host::unsigned_map().end(),
              maps_.begin() + 256);
  }
  ~Device() {
    api_->destroy(stream_);
    api_->release(pool_, workspace_);
    api_->destroy(pool_);
  }
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  cuda::Queue queue() { return {*api_, stream_, 4, workspace_, bytes_}; }
  void wait() { api_->synchronise(stream_); }
  const float* maps() const { return maps_.data(); }

 private:
  std::unique_ptr<cuda::Api> api_;
  cuda::StreamHandle stream_ = nullptr;
  cuda::PoolHandle pool_ = nullptr;
  std::byte* workspace_ = nullptr;
  std::size_t bytes_ = 0;
  std::pmr::vector<float> maps_ = std::pmr::vector<float>(512);
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

inline void check_close(const char* what, Buffer& found, Buffer& expected, DType type,
                        double most) {
  INFO(what << " " << core::name(type));
  CHECK(difference(found, expected) <= most);
  // Nobody wrote behind the end.
  CHECK(std::equal(found.bytes().end() - 64, found.bytes().end(), expected.bytes().end() - 64));
}

inline void check_close(const char* what, Buffer& found, Buffer& expected, DType type) {
  check_close(what, found, expected, type, bound(type));
}

constexpr DType kTypes[] = {DType::f64, DType::f32, DType::bf16, DType::f16};
inline DType statistic(DType type) { return type == DType::f64 ? DType::f64 : DType::f32; }

}  // namespace cuda_tests
