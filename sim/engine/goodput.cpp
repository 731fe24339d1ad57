#include "sim/engine/goodput.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"
#include "core/random.hpp"

namespace engine {

double expected_goodput(const FailureModel& m, std::int64_t interval) {
  PLANNER_CHECK(interval >= 1 && m.between.value() > 0 && m.step.value() > 0);
  const double mean = m.between.value();
  const double work = static_cast<double>(interval) * m.step.value();
  const double cycle =
      mean * std::exp(m.restart.value() / mean) * std::expm1((work + m.save.value()) / mean);
  return std::isfinite(cycle) ? work / cycle : 0;
}

// The goodput has one maximum: it rises while a cycle is mostly saving, and falls once failures
// cost more than saves.
std::int64_t best_interval(const FailureModel& m) {
  std::int64_t low = 1;
  const double most = 20 * m.between.value() / m.step.value();
  std::int64_t high = std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(most, 1e15)));
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (expected_goodput(m, middle) < expected_goodput(m, middle + 1))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

GoodputRun play_failures(const FailureModel& m, std::int64_t interval, core::Seconds horizon,
                         std::uint64_t seed) {
  PLANNER_CHECK(interval >= 1 && m.between.value() > 0 && m.step.value() > 0);
  const core::Random random(seed, 0x6661696c);  // a stream of its own
  std::uint64_t drawn = 0;
  const auto next_failure = [&] {
    return -m.between.value() * core::portable_log(1 - random.uniform(drawn++));
  };
  const double work = static_cast<double>(interval) * m.step.value();
  const double cycle = work + m.save.value();
  GoodputRun run;
  double now = 0, failure = next_failure();
  while (now < horizon.value()) {
    // Whole cycles until the failure, or the end, at once.
    const double clear = std::floor((failure - now) / cycle);
    const double wanted = std::ceil((horizon.value() - now) / cycle);
    const double cycles = std::min(clear, wanted);
    if (cycles >= 1) {
      now += cycles * cycle;
      run.steps += interval * static_cast<std::int64_t>(cycles);
      run.saves += static_cast<std::int64_t>(cycles);
      if (cycles == wanted) break;
    }
    ++run.failures;
    run.lost_steps += std::min(
        interval, static_cast<std::int64_t>(std::max(0.0, failure - now) / m.step.value()));
    // Restarts fail, too, and begin again.
    now = failure;
    failure = now + next_failure();
    while (failure < now + m.restart.value()) {
      ++run.failures;
      now = failure;
      failure = now + next_failure();
    }
    now += m.restart.value();
  }
  run.goodput = static_cast<double>(run.steps) * m.step.value() / now;
  return run;
}

}  // namespace engine
