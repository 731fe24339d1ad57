// Section copy: seconds of transfers by kind and size, 1 KiB to 1 GiB. GB/s counts the payload
// once; a device-to-device copy moves it twice through memory (read and write).

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "tools/probe/cuda.hpp"
#include "tools/probe/kernels.hpp"
#include "tools/probe/statistics.hpp"
#include "tools/probe/worker.hpp"

namespace probe {
namespace {

constexpr std::size_t kLargest = std::size_t{1} << 30;

struct PinnedFree {
  void operator()(void* data) const { cudaFreeHost(data); }
};
struct HeapFree {
  void operator()(void* data) const { std::free(data); }
};
using Pinned = std::unique_ptr<void, PinnedFree>;
using Pageable = std::unique_ptr<void, HeapFree>;

Pinned pinned(std::size_t bytes) {
  void* data = nullptr;
  PROBE_TRY(cudaHostAlloc(&data, bytes, cudaHostAllocDefault));
  std::memset(data, 1, bytes);
  return Pinned(data);
}

Pageable pageable(std::size_t bytes) {
  void* data = std::aligned_alloc(4096, bytes);
  if (data == nullptr) throw std::bad_alloc();
  std::memset(data, 1, bytes);  // touched: page faults are not part of a copy
  return Pageable(data);
}

using Transfer = std::function<void(std::size_t bytes)>;  // asynchronous on the stream

// How many transfers make a sample of about 0.2 ms, so that event ticks do not show.
int batch_for(std::size_t bytes) {
  constexpr std::size_t kSampleBytes = std::size_t{8} << 20;
  return static_cast<int>(std::clamp<std::size_t>(kSampleBytes / bytes, 1, 50));
}

Json rates(Json point, const Summary& seconds, std::size_t bytes) {
  point["seconds"] = to_json(seconds);
  point["gb_per_second"] = to_json(rate(seconds, static_cast<double>(bytes) / 1e9));
  return point;
}

class Copies {
 public:
  Copies(Worker& worker, std::size_t largest)
      : worker_(worker), largest_(largest), a_(largest), b_(largest) {
    PROBE_TRY(cudaMemset(a_.get(), 1, largest));
    PROBE_TRY(cudaMemset(b_.get(), 2, largest));
  }

  // The time of one out of a batch (pipelined) and of one that is waited for.
  Json by_size(const Transfer& transfer) const {
    Json list = Json::array();
    for (std::size_t bytes = 1024; bytes <= largest_; bytes *= step()) {
      if (out_of_time()) break;
      const int batch = batch_for(bytes);
      Json point = Json::object();
      point["bytes"] = bytes;
      point["batch"] = batch;
      transfer(bytes);
      stream_.wait();
      point = rates(std::move(point), measure(rule(), [&] {
        return device_seconds(stream_, batch, [&] { transfer(bytes); });
      }), bytes);
      point["waited_seconds"] = to_json(waited([&] { transfer(bytes); }));
      list.push(std::move(point));
    }
    return list;
  }

  // cudaMemcpy of pageable memory: the host takes part, so the host's clock is the only one.
  Json pageable_by_size(bool to_device) const {
    const Pageable host = pageable(largest_);
    Json list = Json::array();
    for (std::size_t bytes = 1024; bytes <= largest_; bytes *= step()) {
      if (out_of_time()) break;
      Json point = Json::object();
      point["bytes"] = bytes;
      const auto copy = [&] {
        PROBE_TRY(to_device ? cudaMemcpy(a_.get(), host.get(), bytes, cudaMemcpyHostToDevice)
                            : cudaMemcpy(host.get(), a_.get(), bytes, cudaMemcpyDeviceToHost));
        PROBE_TRY(cudaDeviceSynchronize());
      };
      copy();
      list.push(rates(std::move(point), waited(copy, false), bytes));
    }
    return list;
  }

  // Host to device and back at the same time: the slower of the two directions' ends counts.
  Json both_ways() const {
    const std::size_t bytes = std::min(largest_, std::size_t{256} << 20);
    const Pinned up = pinned(bytes), down = pinned(bytes);
    const Stream other;
    Json point = Json::object();
    point["bytes_each_way"] = bytes;
    return rates(std::move(point), measure(rule(), [&] {
      const Event from, joined, to;
      from.record(stream_);
      PROBE_TRY(cudaStreamWaitEvent(other, from, 0));
      PROBE_TRY(cudaMemcpyAsync(a_.get(), up.get(), bytes, cudaMemcpyHostToDevice, stream_));
      PROBE_TRY(cudaMemcpyAsync(down.get(), b_.get(), bytes, cudaMemcpyDeviceToHost, other));
      joined.record(other);
      PROBE_TRY(cudaStreamWaitEvent(stream_, joined, 0));
      to.record(stream_);
      return seconds_between(from, to);
    }), 2 * bytes);
  }

  void* a() const { return a_.get(); }
  void* b() const { return b_.get(); }
  std::size_t largest() const { return largest_; }
  const Stream& stream() const { return stream_; }

 private:
  std::size_t step() const { return worker_.options().quick ? 32 : 4; }
  RepeatRule rule() const {
    return worker_.options().quick ? RepeatRule{5, 10, 0.03} : RepeatRule{7, 50, 0.15};
  }
  bool out_of_time() const {
    const bool out = worker_.left() <= 0.0;
    if (out) worker_.data()["truncated"] = true;
    return out;
  }
  template <class Call>
  Summary waited(Call&& call, bool wait_stream = true) const {
    return measure(rule(), [&] {
      const double start = now();
      call();
      if (wait_stream) stream_.wait();
      return now() - start;
    });
  }

  Worker& worker_;
  std::size_t largest_;
  DeviceBuffer a_, b_;
  Stream stream_;
};

void measure_pinned(Worker& worker, const Copies& copies) {
  const cudaStream_t stream = copies.stream();
  worker.part("h2d_pinned", [&] {
    const Pinned host = pinned(copies.largest());
    return copies.by_size([&](std::size_t bytes) {
      PROBE_TRY(cudaMemcpyAsync(copies.a(), host.get(), bytes, cudaMemcpyHostToDevice, stream));
    });
  });
  worker.part("d2h_pinned", [&] {
    const Pinned host = pinned(copies.largest());
    return copies.by_size([&](std::size_t bytes) {
      PROBE_TRY(cudaMemcpyAsync(host.get(), copies.a(), bytes, cudaMemcpyDeviceToHost, stream));
    });
  });
  worker.part("both_ways_pinned", [&] { return copies.both_ways(); });
}

}  // namespace

void run_copy(Worker& worker) {
  use_device(worker.options().device);
  // A quarter of the free memory at most for the two buffers.
  std::size_t largest = kLargest;
  while (largest > 1024 && 8 * largest > memory_now().free) largest /= 2;
  const Copies copies(worker, largest);
  const DeviceBuffer sink(16);
  const cudaStream_t stream = copies.stream();
  worker.part("d2d", [&] {
    return copies.by_size([&](std::size_t bytes) {
      PROBE_TRY(cudaMemcpyAsync(copies.b(), copies.a(), bytes, cudaMemcpyDeviceToDevice, stream));
    });
  });
  worker.part("kernel_read", [&] {
    return copies.by_size([&](std::size_t n) { stream_read(copies.a(), n, sink.get(), stream); });
  });
  worker.part("kernel_write", [&] {
    return copies.by_size([&](std::size_t n) { stream_write(copies.b(), n, stream); });
  });
  worker.part("kernel_copy", [&] {
    return copies.by_size([&](std::size_t n) { stream_copy(copies.a(), copies.b(), n, stream); });
  });
  measure_pinned(worker, copies);
  worker.part("h2d_pageable", [&] { return copies.pageable_by_size(true); });
  worker.part("d2h_pageable", [&] { return copies.pageable_by_size(false); });
}

}  // namespace probe
