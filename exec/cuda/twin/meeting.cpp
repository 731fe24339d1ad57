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
