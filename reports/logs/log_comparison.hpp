#pragma once
// Compares a training log with a plan: the log's steps without the first ones, their median and
// spread, and its memory, against the plan's prediction with its interval. Pure; thread-safe.

#include <optional>
#include <string>
#include <vector>

#include "core/json.hpp"
#include "planner/plan/plan.hpp"
#include "reports/comparison.hpp"
#include "reports/logs/training_log.hpp"

namespace reports::logs {

struct StepSpread {
  int steps = 0;                       // that the log has
  int left_out = 0;                    // first ones (kWarmUpRule)
  core::Seconds median{}, p10{}, p90{};
};

// The first step is left out, and those right behind it until one took at most 1.1 times the median
// of the log's second half; never more than half of all. O(n log n).
// REQUIRES: at least one; all above 0.
inline constexpr double kWarm = 1.1;
inline constexpr std::string_view kWarmUpRule =
    "the first, and those right behind it that took more than 1.1 times the median of the second "
    "half";
StepSpread spread_of(const std::vector<core::Seconds>& steps);

struct LogComparison {
  std::string file;
  TrainingLog log;
  std::optional<StepSpread> spread;    // empty: the log has no steps, memory alone
  core::Seconds predicted{}, low{}, high{};
  std::vector<ComparedTerm> terms;     // time.step, throughput.tokens_per_second, memory
  // REQUIRES: a spread.
  bool holds() const { return low <= spread->median && spread->median <= high; }
};

// Problems: a log of another global batch than the plan's; a plan without a strategy.
core::Result<LogComparison> compare_log(const planner::Plan& plan, TrainingLog log,
                                        std::string file);

std::string log_text(const LogComparison& comparison, TextStyle style);
std::string log_markdown(const LogComparison& comparison);
core::Json log_json(const LogComparison& comparison);

}  // namespace reports::logs
