#include "exec/cuda/calibrate/bench.hpp"

#include <algorithm>

#include "core/random.hpp"
#include "exec/host/convert.hpp"

namespace exec::cuda {

using core::DType;

Bench::Bench(Api& api, core::Bytes workspace)
    : api_(api), pool_(api.create_pool()), stream_(api.create_stream(false)),
      multiprocessors_(api.device().multiprocessors) {
  const core::Random random(1, 0);
  std::vector<float> values(kPattern);
  random.fill_normal(0, 0.0, 1.0, values);
  pinned_ = static_cast<std::byte*>(api.allocate_pinned(kPinned));
  for (const DType t : {DType::bf16, DType::f32}) {
    host::store(host::View{pinned_, t}, kPattern, values.data());
    host::View& pattern = t == DType::bf16 ? bf16_ : f32_;
    const std::size_t bytes = kPattern * static_cast<std::size_t>(core::bits(t)) / 8;
    pattern = {api.allocate(pool_, bytes), t};
    api.copy_in(pattern.data, pinned_, bytes, stream_);
    api.synchronise(stream_);
  }
  workspace_bytes_ = std::max({api.product_workspace(), std::size_t{64} << 20,
                               static_cast<std::size_t>(workspace.value())});
  workspace_ = static_cast<std::byte*>(api.allocate(pool_, workspace_bytes_));
}

Bench::~Bench() {
  for (GraphHandle g : graphs_) api_.destroy(g);
  api_.destroy(stream_);
  api_.release_pinned(pinned_);
  api_.destroy(pool_);
}

host::View Bench::real(std::int64_t n, DType type) {
  const host::View pattern = type == DType::bf16 ? bf16_ : f32_;
  const auto each = static_cast<std::size_t>(core::bits(type)) / 8;
  const std::size_t bytes = static_cast<std::size_t>(n) * each, whole = kPattern * each;
  auto* const data =
      static_cast<std::byte*>(api_.allocate(pool_, std::max<std::size_t>(bytes, 1)));
  taken_.push_back(data);
  for (std::size_t at = 0; at < bytes; at += whole)
    api_.copy({.to = data + at,
               .from = static_cast<const std::byte*>(pattern.data),
               .width = std::min(whole, bytes - at)},
              stream_);
  wait();
  return {data, type};
}

GraphHandle Bench::kept(const std::function<void(const Queue&)>& work) {
  api_.begin_capture(stream_);
  try {
    work(queue());
  } catch (...) {
    api_.abandon_capture(stream_);
    throw;
  }
  return graphs_.emplace_back(api_.end_capture(stream_));
}

void Bench::give_back() {
  for (GraphHandle g : graphs_) api_.destroy(g);
  graphs_.clear();
  for (void* data : taken_) api_.release(pool_, data);
  taken_.clear();
}

double timed(PointBook& book, Bench& bench, const std::string& name,
             const std::function<Call()>& make) {
  const auto body = [&](int) -> std::function<void()> {
    const Call call = make();
    call(bench.queue());               // heuristics are asked, kernels are loaded
    bench.wait();
    return [&bench, call] {
      for (int i = 0; i < kCalls; ++i) call(bench.queue());
      bench.wait();
    };
  };
  const double seconds = book.measure(name, body).median / kCalls;
  bench.give_back();
  return seconds;
}

}  // namespace exec::cuda
