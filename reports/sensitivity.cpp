#include "reports/sensitivity.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "planner/accuracy.hpp"
#include "planner/strategy_keys.hpp"
#include "reports/text.hpp"

namespace reports {
namespace {

using core::to_text;
using planner::Candidate;
using planner::Plan;

constexpr double kMostSlowdown = 100;
constexpr int kSlowdowns = 4000;  // tried in each direction, in even ratios of 0.12 %

std::string against(const Candidate& other, const Candidate& chosen) {
  return fmt::format("{:+.1f} %", (other.time.step / chosen.time.step - 1) * 100);
}

// Strategies on one machine share its site's error: what tells them apart is the rest.
std::string nearest_text(const Plan& plan) {
  const Candidate& chosen = *plan.chosen;
  if (plan.alternatives.empty()) return "no other strategy is feasible: there is no alternative";
  const auto nearest = std::ranges::min_element(plan.alternatives, {}, [&](const Candidate& c) {
    return std::abs(c.time.step.value() - chosen.time.step.value());
  });
  const double factor = planner::accuracy().tie_factor();
  const auto ties = std::ranges::count_if(plan.alternatives, [&](const Candidate& c) {
    return c.time.step <= chosen.time.step * factor;
  });
  const std::string tie =
      nearest->time.step > chosen.time.step * factor
          ? ""
          : fmt::format(" and so within the error ({} of {} alternatives are), worth a run of both",
                        ties, plan.alternatives.size());
  return fmt::format("nearest alternative, {}{}: {}", against(*nearest, chosen), tie,
                     changed_keys(chosen.strategy, nearest->strategy));
}

// Every other candidate that the plan holds.
std::vector<const Candidate*> others(const Plan& plan) {
  std::vector<const Candidate*> all;
  for (const auto* list : {&plan.alternatives, &plan.pareto})
    for (const Candidate& c : *list)
      if (!(c.strategy == plan.chosen->strategy)) all.push_back(&c);
  return all;
}

// Where the choice may run out of memory: the fastest that hardly does.
std::string safer_text(const Plan& plan) {
  const auto risk = [](const Candidate& c) { return c.uncertainty.out_of_memory; };
  if (risk(*plan.chosen) < kToldRisk) return "";
  const Candidate* best = nullptr;
  for (const Candidate* c : others(plan))
    if (risk(*c) < kToldRisk && (best == nullptr || c->time.step < best->time.step)) best = c;
  const std::string want = fmt::format("it may run out of memory ({}); ",
                                       percent_text(risk(*plan.chosen)));
  if (best == nullptr) return want + "so may every strategy kept";
  return fmt::format("{}safer: {} ({}, {})", want,
                     changed_keys(plan.chosen->strategy, best->strategy),
                     percent_text(risk(*best)), against(*best, *plan.chosen));
}

bool is_riskier(const Candidate& c, const Candidate& chosen) {
  const double risk = c.uncertainty.out_of_memory;
  return risk >= kToldRisk && risk > chosen.uncertainty.out_of_memory;
}

// What the choice was preferred to because it is likelier to fit: the fastest of them.
std::string bolder_text(const Plan& plan) {
  const Candidate* best = nullptr;
  for (const Candidate* c : others(plan))
    if (is_riskier(*c, *plan.chosen) &&
        c->time.step < (best == nullptr ? *plan.chosen : *best).time.step)
      best = c;
  if (best == nullptr) return "";
  return fmt::format("faster, {}, but may run out of memory ({}): {}", against(*best, *plan.chosen),
                     percent_text(best->uncertainty.out_of_memory),
                     changed_keys(plan.chosen->strategy, best->strategy));
}

std::string less_memory_text(const Plan& plan) {
  const core::Bytes needed = plan.chosen->memory.worst.device;
  const Candidate* best = nullptr;
  for (const Candidate* c : others(plan))
    if (c->memory.worst.device < needed && (best == nullptr || c->time.step < best->time.step))
      best = c;
  const std::string limit = fmt::format("less than {} usable a GPU", to_text(needed));
  if (best == nullptr) return limit + ": none of the strategies kept needs less";
  return fmt::format("{}: then {} ({}, {})", limit,
                     changed_keys(plan.chosen->strategy, best->strategy),
                     to_text(best->memory.worst.device), against(*best, *plan.chosen));
}

std::string more_memory_text(const Plan& plan) {
  const planner::Rejection* least = nullptr;
  for (const planner::Rejection& r : plan.rejected)
    if (r.limit == "memory" && r.needed > r.available &&
        (least == nullptr || r.needed < least->needed))
      least = &r;
  if (least == nullptr) return "";
  return fmt::format("{} usable a GPU lets in {}; how fast it is was not asked",
                     to_text(core::Bytes(least->needed)),
                     changed_keys(plan.chosen->strategy, least->strategy));
}

std::string links_text(const Plan& plan) {
  if (plan.chosen->time.communication.value() <= 0) return "";
  std::optional<double> nearest;
  const Candidate* winner = nullptr;
  for (const Candidate* c : others(plan)) {
    if (is_riskier(*c, *plan.chosen)) continue;  // its speed alone does not decide
    if (c->time.step < plan.chosen->time.step) return "";  // not chosen for its speed
    const auto flip = link_flip(plan.chosen->time, c->time);
    if (!flip || (nearest && std::abs(std::log(*flip)) >= std::abs(std::log(*nearest)))) continue;
    nearest = flip;
    winner = c;
  }
  if (winner == nullptr)
    return "links of another speed do not change the order of the strategies kept";
  const bool slower = *nearest >= 1;
  const double ratio = slower ? *nearest : 1 / *nearest;
  const std::string change =
      ratio < 2 ? fmt::format("{} {}", percent_text(ratio - 1), slower ? "slower" : "faster")
                : fmt::format("{:.3g} times as {}", ratio, slower ? "slow" : "fast");
  return fmt::format("links {}: then {} (if what is hidden now stays hidden)", change,
                     changed_keys(plan.chosen->strategy, winner->strategy));
}

}  // namespace

std::string changed_keys(const planner::Strategy& from, const planner::Strategy& to,
                         std::size_t most) {
  std::string text;
  std::size_t count = 0;
  for (const planner::StrategyKey& key : planner::strategy_keys()) {
    const std::string value = planner::value_text(key, to);
    if (value == planner::value_text(key, from)) continue;
    if (++count > most) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key.name, value);
  }
  if (count > most) text += fmt::format(" and {} more", count - most);
  return text.empty() ? "the same strategy" : text;
}

core::Seconds step_on_slower_links(const planner::Time& t, double slower) {
  const double busy = t.communication.value(), exposed = t.exposed_communication.value();
  const double hidden = std::max(0.0, busy - exposed);
  // More exposed than busy: the rest is waiting for others, which goes with the links too.
  const double moved = std::max(busy, exposed);
  return core::Seconds(t.step.value() - exposed + std::max(0.0, slower * moved - hidden));
}

std::optional<double> link_flip(const planner::Time& chosen, const planner::Time& other) {
  const double ratio = std::pow(kMostSlowdown, 1.0 / kSlowdowns);
  for (int i = 1; i <= kSlowdowns; ++i)
    for (const double slower : {std::pow(ratio, i), std::pow(ratio, -i)})
      if (step_on_slower_links(other, slower) < step_on_slower_links(chosen, slower))
        return slower;
  return std::nullopt;
}

std::vector<std::string> what_would_change(const Plan& plan) {
  if (!plan.chosen) return {};
  std::vector<std::string> lines{nearest_text(plan),     safer_text(plan),       bolder_text(plan),
                                 less_memory_text(plan), more_memory_text(plan), links_text(plan)};
  std::erase(lines, "");
  return lines;
}

}  // namespace reports
