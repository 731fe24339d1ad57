#include "planner/strategy/schedules.hpp"

#include <algorithm>

namespace planner {

program::Algorithm algorithm_of(GradSync sync) {
  switch (sync) {
    case GradSync::tree: return program::Algorithm::tree;
    case GradSync::naive_all_reduce: return program::Algorithm::naive_all_reduce;
    case GradSync::parameter_server: return program::Algorithm::parameter_server;
    default: return program::Algorithm::ring;
  }
}

bool receives_ahead(const Strategy& s) {
  const bool several = s.grad_accum * s.virtual_stages > 1 || !flushes(s.schedule);
  return s.pipeline > 1 && !schedule_def(s.schedule).takes_turns && several;
}

bool releases_late(const Strategy& s) {
  return schedule_def(s.schedule).forwards_first && s.grad_accum > 1;
}

bool schedule_takes(Schedule schedule, std::int64_t pipeline, std::int64_t micro_batches) {
  return schedule_def(schedule).micro_batches.take(micro_batches, pipeline);
}

std::int64_t place_of_chunk(Schedule schedule, std::int64_t rank, std::int64_t ranks,
                            std::int64_t chunk) {
  return runs_upwards(schedule, chunk) ? 2 * ranks - 1 - rank : chunk * ranks + rank;
}

program::RankSchedule schedule_of(const Strategy& s, int stage, std::int64_t micro_batches) {
  const ScheduleDef& def = schedule_def(s.schedule);
  const PipelinePlace place{stage, s.pipeline, s.virtual_stages, micro_batches};
  const auto slots = [&](OfPlace of) { return of == nullptr ? 0 : of(place); };
  program::RankSchedule schedule;
  schedule.micro_batches = micro_batches;
  schedule.ranks = static_cast<int>(s.pipeline);
  schedule.rank = stage;
  schedule.chunks = static_cast<int>(s.virtual_stages);
  schedule.order = def.order;
  schedule.pairs = def.pairs;
  schedule.split = def.splits_backward;
  schedule.flushes = def.flushes;
  schedule.lag = slots(def.lag);
  schedule.delay = slots(def.delay);
  const std::int64_t most = micro_batches * s.virtual_stages;  // of a step
  schedule.warm_up = def.flushes ? std::min(slots(def.warm_up), most) : slots(def.warm_up);
  return schedule;
}

}  // namespace planner
