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
  const bool several = s.grad_accum * s.virtual_stages > 1 || is_endless(s.schedule);
  return s.pipeline > 1 && s.schedule != Schedule::naive && several;
}

bool releases_late(const Strategy& s) {
  return s.schedule == Schedule::gpipe && s.grad_accum > 1;
}

bool schedule_takes(Schedule schedule, std::int64_t pipeline, std::int64_t micro_batches) {
  switch (schedule) {
    case Schedule::interleaved: return micro_batches % pipeline == 0;
    case Schedule::zb_h1: return micro_batches >= pipeline;
    case Schedule::zb_h2:
    case Schedule::zb_v: return micro_batches >= 2 * pipeline - 1;
    case Schedule::pipedream: return micro_batches == 1;
    case Schedule::pipedream_2bw: return micro_batches >= pipeline;
    default: return true;
  }
}

program::Schedule schedule_of(const Strategy& s, int stage, std::int64_t micro_batches) {
  program::Schedule schedule;
  const std::int64_t p = s.pipeline, v = s.virtual_stages, behind = p - stage - 1;
  schedule.micro_batches = micro_batches;
  schedule.ranks = static_cast<int>(p);
  schedule.rank = stage;
  schedule.chunks = static_cast<int>(v);
  schedule.split = splits_backward(s.schedule);
  switch (s.schedule) {
    case Schedule::gpipe: schedule.warm_up = micro_batches; break;
    case Schedule::one_f_one_b: schedule.warm_up = behind; break;
    case Schedule::interleaved:
      schedule.order = program::Order::interleaved;
      schedule.warm_up = 2 * behind + (v - 1) * p;
      break;
    case Schedule::zb_h1:
      schedule.warm_up = behind;
      schedule.lag = stage;
      break;
    case Schedule::zb_h2:
      schedule.warm_up = 2 * behind;
      schedule.lag = 2 * stage;
      break;
    case Schedule::zb_v: schedule.order = program::Order::v_shape; break;
    case Schedule::pipedream:
    case Schedule::pipedream_2bw:
      schedule.flushes = false;
      schedule.warm_up = behind;
      schedule.delay = s.schedule == Schedule::pipedream ? behind : 1;
      return schedule;
    default: break;
  }
  schedule.warm_up = std::min(schedule.warm_up, micro_batches * v);
  return schedule;
}

}  // namespace planner
