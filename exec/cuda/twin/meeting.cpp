#include "exec/cuda/twin/meeting.hpp"

#include "exec/cuda/twin/state.hpp"

extern "C" void planner_twin_meet(void* stream, const planner_twin_meeting* meeting) {
  using namespace exec::cuda;
  auto* const on = static_cast<StreamHandle>(stream);
  Twin::State& device = *on->device;
  const std::scoped_lock lock(device.mutex);
  if (on->graph != nullptr) {
    meeting->release(meeting->self);
    throw DeviceFailure(FailureKind::graph, "planner_twin_meet",
                        "a meeting with other processes cannot be kept");
  }
  device.called("meet");
  Work work;
  work.meeting = std::make_unique<Meeting>(*meeting);
  work.run = [kept = work.meeting.get()] { kept->finish(); };
  device.give(on, std::move(work));
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
