#include "exec/cuda/twin/meeting.hpp"

#include "exec/cuda/twin/state.hpp"

extern "C" int planner_twin_keeps(void* stream) {
  auto* const on = static_cast<exec::cuda::StreamHandle>(stream);
  const std::scoped_lock lock(on->device->mutex);
  return on->graph != nullptr ? 1 : 0;
}

extern "C" void planner_twin_meet(void* stream, const planner_twin_meeting* meeting) {
  using namespace exec::cuda;
  auto* const on = static_cast<StreamHandle>(stream);
  Twin::State& device = *on->device;
  const std::scoped_lock lock(device.mutex);
  device.called("meet");
  auto made = std::make_unique<Meeting>(*meeting);
  if (on->graph != nullptr) return device.keep(on, std::move(made));
  device.give(on, work_of(std::move(made)));
}

extern "C" void* planner_twin_take(void* stream, std::int64_t bytes) {
  exec::cuda::Twin::State* const device = static_cast<exec::cuda::StreamHandle>(stream)->device;
  const std::scoped_lock lock(device->mutex);
  device->used += bytes;
  return device;
}

extern "C" void planner_twin_give_back(void* device, std::int64_t bytes) {
  auto& state = *static_cast<exec::cuda::Twin::State*>(device);
  const std::scoped_lock lock(state.mutex);
  state.used -= bytes;
}
