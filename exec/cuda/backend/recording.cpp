// A step that is kept as a CUDA graph and given again: the streams of the rank join a capture of
// the compute stream and return to it. What changes from step to step lies where the graph reads
// it: tokens in pinned memory, numbers of the step on the device.
#include <cstring>

#include "core/check.hpp"
#include "exec/cuda/backend/cuda_backend.hpp"

namespace exec::cuda {

using program::Stream;

namespace {

constexpr auto kOrigin = static_cast<std::size_t>(Stream::compute);

// Why work cannot be kept; what else fails is thrown on.
std::string reason_of(const DeviceFailure& failure) {
  const FailureKind kind = failure.kind();
  if (kind != FailureKind::graph && kind != FailureKind::out_of_memory) throw failure;
  return failure.what();
}

}  // namespace

void CudaBackend::open_recording() {
  Recording& r = recording_;
  while (r.events.size() < events_.size()) r.events.push_back(api_.create_event(false));
  while (r.ends.size() < lanes_.size()) r.ends.push_back(api_.create_event(false));
  if (r.numbers == nullptr)
    r.numbers = reinterpret_cast<StepNumbers*>(allocate(sizeof(StepNumbers)));
  if (r.pinned_numbers == nullptr)
    r.pinned_numbers = static_cast<StepNumbers*>(api_.allocate_pinned(sizeof(StepNumbers)));
  r.happened.assign(events_.size(), 0);
  r.hyper.reset();
}

// REQUIRES: every stream has done what it was given.
void CudaBackend::keep_work(bool keeps) noexcept {
  recording_.open = keeps;
  device_.messages.settle();
  if (device_.watch != nullptr) device_.watch->keeps(keeps);
}

std::string CudaBackend::begin_recording() {
  PLANNER_CHECK(!recording_.open && recording_.graph == nullptr, "one step is kept, once");
  try {
    open_recording();
    const StreamHandle origin = queue(Stream::compute).stream;
    api_.begin_capture(origin);
    keep_work(true);
    api_.record(recording_.ends[kOrigin], origin);
    for (std::size_t s = 0; s < lanes_.size(); ++s)
      if (lanes_[s] && s != kOrigin)
        api_.wait(lanes_[s]->queue.stream, recording_.ends[kOrigin]);
  } catch (const DeviceFailure& failure) {
    forget_recording();
    return reason_of(failure);
  }
  return {};
}

std::string CudaBackend::end_recording() {
  pinned_used_ = 0;                    // the same places again, in the same order
  try {
    const StreamHandle origin = queue(Stream::compute).stream;
    for (std::size_t s = 0; s < lanes_.size(); ++s) {
      if (!lanes_[s] || s == kOrigin) continue;
      api_.record(recording_.ends[s], lanes_[s]->queue.stream);
      api_.wait(origin, recording_.ends[s]);
    }
    keep_work(false);
    recording_.graph = api_.end_capture(origin);
  } catch (const DeviceFailure& failure) {
    forget_recording();
    return reason_of(failure);
  }
  return {};
}

void CudaBackend::forget_recording() noexcept {
  if (recording_.open) {
    api_.abandon_capture(lanes_[kOrigin]->queue.stream);
    keep_work(false);
  }
  if (recording_.graph != nullptr) api_.destroy(recording_.graph);
  recording_.graph = nullptr;
}

void CudaBackend::refill(const Operand& to, const void* from) {
  std::memcpy(pinned(static_cast<std::size_t>(to.bytes().value())), from,
              static_cast<std::size_t>(to.bytes().value()));
}

void CudaBackend::replay(std::int64_t step, double learning_rate) {
  PLANNER_CHECK(recording_.graph != nullptr, "no step is kept");
  const StreamHandle origin = queue(Stream::compute).stream;
  if (recording_.hyper) {
    recording_.hyper->learning_rate = learning_rate;
    *recording_.pinned_numbers = step_numbers(*recording_.hyper, step, device_.stochastic);
    api_.copy_in(recording_.numbers, recording_.pinned_numbers, sizeof(StepNumbers), origin);
  }
  api_.launch(recording_.graph, origin);
  if (device_.watch != nullptr) device_.watch->launched(origin);
}

}  // namespace exec::cuda
