#include "reports/robust_text.hpp"

#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/parse_units.hpp"
#include "reports/text.hpp"

namespace reports {
namespace {

using core::to_text;
using planner::RobustStep;

std::string_view more_or_less(double growth) { return growth < 0 ? "shorter" : "longer"; }

std::string quantile_line(const planner::Plan& plan) {
  const planner::Robust& r = *plan.robust;
  const RobustStep& own = r.steps.front();
  std::vector<std::string> troubles;
  for (const planner::RandomSlow& kind : r.asked.random) troubles.push_back(trouble_text(kind));
  const double more = own.step / plan.chosen->time.step - 1;
  std::string text = fmt::format(
      "In {} of {} seeded scenarios ({}), a step takes at most {}, {} {} than the step above",
      percent_text(r.asked.quantile), own.scenarios, fmt::join(troubles, "; "), to_text(own.step),
      percent_text(std::abs(more)), more_or_less(more));
  if (r.steps.size() < 2) return text + '.';
  return text + fmt::format("; of alternative 1, {}.", to_text(r.steps[1].step));
}

std::string one_slow_text(const RobustStep::One& one) {
  if (one.link_share < 1)
    return fmt::format("One rank's link at {} of its bandwidth", percent_text(one.link_share));
  return fmt::format("One rank {} slower", percent_text(one.slowdown - 1));
}

std::string one_slow_line(const planner::Robust& r) {
  std::string text;
  for (std::size_t k = 0; k < r.steps.front().one_slow.size(); ++k) {
    const RobustStep::One& one = r.steps.front().one_slow[k];
    text += fmt::format("{}{}: step {} {}", text.empty() ? "" : " ", one_slow_text(one),
                        percent_text(std::abs(one.growth)), more_or_less(one.growth));
    if (r.steps.size() > 1)
      text += fmt::format(" (alternative 1: {})", percent_text(r.steps[1].one_slow[k].growth));
    text += '.';
  }
  return text;
}

}  // namespace

std::string trouble_text(const planner::RandomSlow& kind) {
  std::vector<std::string> effects;
  if (kind.slowdown > 1)
    effects.push_back(fmt::format("computes {:g} times as long", kind.slowdown));
  if (kind.link_share < 1)
    effects.push_back(
        fmt::format("has {} of its link's bandwidth", percent_text(kind.link_share)));
  if (effects.empty()) effects.emplace_back("is as fast as ever");
  std::string text = fmt::format("each rank {} with {} probability", fmt::join(effects, " and "),
                                 percent_text(kind.probability));
  if (kind.steps > 1) text += fmt::format(" a step, for {} steps", kind.steps);
  return text;
}

std::vector<std::string> robust_lines(const planner::Plan& plan) {
  if (!plan.robust || !plan.chosen) return {};
  return {quantile_line(plan), one_slow_line(*plan.robust)};
}

}  // namespace reports
