#include "reports/sensitivity.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "planner/evaluate/accuracy.hpp"
#include "planner/search/preference.hpp"
#include "planner/strategy/keys.hpp"
#include "reports/text.hpp"

namespace reports {
namespace {

using core::to_text;
using planner::Candidate;
using planner::Plan;

constexpr double kMostSlowdown = 100;
constexpr int kSlowdowns = 4000;  // tried in each direction, in even ratios of 0.12 %

std::string against(const Candidate& other, const Candidate& chosen) {
  return speed_against(other.time.step, chosen.time.step);
}

// Strategies on one machine share its site's error: what tells them apart is the rest.
std::string nearest_text(const Plan& plan) {
  const Candidate& chosen = *plan.chosen;
  if (plan.alternatives.empty()) return "";
  const auto nearest = std::ranges::min_element(plan.alternatives, {}, [&](const Candidate& c) {
    return std::abs(c.time.step.value() - chosen.time.step.value());
  });
  const double factor = planner::accuracy().tie_factor();
  const auto ties = std::ranges::count_if(plan.alternatives, [&](const Candidate& c) {
    return c.time.step <= chosen.time.step * factor && c.time.step * factor >= chosen.time.step;
  });
  std::string text = fmt::format("The nearest alternative is {}: {}.", against(*nearest, chosen),
                                 changed_keys(chosen.strategy, nearest->strategy));
  if (ties == 0) return text;
  const auto all = std::ssize(plan.alternatives);
  const std::string who = all == 1      ? "It is"
                          : ties == all ? fmt::format("All {} alternatives are", all)
                          : ties == 1   ? fmt::format("One of the {} alternatives is", all)
                                        : fmt::format("{} of the {} alternatives are", ties, all);
  return text + ' ' + who + " too near to tell apart by prediction: measure short runs.";
}

// Every other candidate that the plan holds.
std::vector<const Candidate*> others(const Plan& plan) {
  std::vector<const Candidate*> all;
  for (const auto* list : {&plan.alternatives, &plan.pareto})
    for (const Candidate& c : *list)
      if (!(c.strategy == plan.chosen->strategy)) all.push_back(&c);
  return all;
}

double risk_of(const Candidate& c) { return c.uncertainty.out_of_memory; }

// Where the choice may run out of memory: the fastest that hardly does.
std::string safer_text(const Plan& plan) {
  if (risk_of(*plan.chosen) < planner::kHardlyRisky) return "";
  const Candidate* best = nullptr;
  for (const Candidate* c : others(plan))
    if (risk_of(*c) < planner::kHardlyRisky &&
        (best == nullptr || c->time.step < best->time.step))
      best = c;
  if (best == nullptr) return "";
  return fmt::format("Safer ({} risk of running out of memory instead of {}), and {}: {}.",
                     percent_text(risk_of(*best)), percent_text(risk_of(*plan.chosen)),
                     against(*best, *plan.chosen),
                     changed_keys(plan.chosen->strategy, best->strategy));
}

bool is_riskier(const Candidate& c, const Candidate& chosen) {
  return risk_of(c) >= planner::kHardlyRisky && risk_of(c) > risk_of(chosen);
}

// What the choice was preferred to because it is likelier to fit: the fastest of them.
std::string bolder_text(const Plan& plan) {
  const Candidate* best = nullptr;
  for (const Candidate* c : others(plan))
    if (is_riskier(*c, *plan.chosen) &&
        c->time.step < (best == nullptr ? *plan.chosen : *best).time.step)
      best = c;
  if (best == nullptr) return "";
  return fmt::format("Faster but riskier: {}, with a {} risk of running out of memory: {}.",
                     against(*best, *plan.chosen), percent_text(risk_of(*best)),
                     changed_keys(plan.chosen->strategy, best->strategy));
}

std::string less_memory_text(const Plan& plan) {
  constexpr double kWorthSaving = 0.05;  // of what is needed
  const core::Bytes needed = plan.chosen->memory.worst.device;
  const auto saves = [&](const Candidate& c) {
    const double left = static_cast<double>(c.memory.worst.device.value());
    return left <= (1 - kWorthSaving) * static_cast<double>(needed.value());
  };
  const Candidate* best = nullptr;
  for (const Candidate* c : others(plan))
    if (saves(*c) && (best == nullptr || c->time.step < best->time.step)) best = c;
  if (best == nullptr) return "";
  return fmt::format("A plan that needs less memory ({} instead of {} per GPU) is {}: {}.",
                     to_text(best->memory.worst.device), to_text(needed),
                     against(*best, *plan.chosen),
                     changed_keys(plan.chosen->strategy, best->strategy));
}

std::string more_memory_text(const Plan& plan) {
  const planner::Rejection* least = nullptr;
  for (const planner::Rejection& r : plan.rejected)
    if (r.limit == "memory" && r.needed > r.available &&
        (least == nullptr || r.needed < least->needed))
      least = &r;
  if (least == nullptr) return "";
  return fmt::format("With {} usable per GPU this plan would also fit (its speed was not "
                     "evaluated): {}.",
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
  if (winner == nullptr) return "";
  const bool slower = *nearest >= 1;
  const double ratio = slower ? *nearest : 1 / *nearest;
  const std::string change =
      ratio < 2 ? fmt::format("{} {}", percent_text(ratio - 1), slower ? "slower" : "faster")
                : fmt::format("{:.3g} times as {}", ratio, slower ? "slow" : "fast");
  return fmt::format("If the links were {}, this plan would be faster (provided that hidden "
                     "communication stays hidden): {}.",
                     change, changed_keys(plan.chosen->strategy, winner->strategy));
}

// The value as a change tells it: every_k and first_k with their k. A group that is all data ranks,
// as it is unasked, is not told.
std::string told_value(const planner::StrategyKey& key, const planner::Strategy& s) {
  if (key.name == "checkpoint" && counts_layers(s.checkpoint))
    return fmt::format("{}({})", name(s.checkpoint), s.checkpoint_every);
  if (key.name == "checkpoint_every") return "";
  if (key.name == "shard_group" &&
      (s.sharding == planner::Sharding::none || s.shard_group == s.data_ranks()))
    return "";
  return planner::value_text(key, s);
}

}  // namespace

std::string speed_against(core::Seconds step, core::Seconds other) {
  const double ratio = step / other;
  if (std::abs(ratio - 1) < 0.0005) return "as fast";
  return fmt::format("{} {}", percent_text(std::abs(ratio - 1)), ratio > 1 ? "slower" : "faster");
}

std::string changed_keys(const planner::Strategy& from, const planner::Strategy& to,
                         std::size_t most) {
  std::string text;
  std::size_t count = 0;
  for (const planner::StrategyKey& key : planner::strategy_keys()) {
    const std::string value = told_value(key, to);
    const bool is_group = key.name == "shard_group" && from.shard_group == to.shard_group;
    if (value.empty() || is_group || value == told_value(key, from)) continue;
    if (++count > most) continue;
    text += fmt::format("{}{}={}", text.empty() ? "" : " ", key.name, value);
  }
  if (count > most)
    text += fmt::format(" and {} more key{}", count - most, count - most == 1 ? "" : "s");
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

std::vector<std::string> what_parts_earn(const Plan& plan) {
  std::vector<std::string> lines;
  if (!plan.chosen) return lines;
  const core::Seconds step = plan.chosen->time.step;
  for (const planner::Earned& e : plan.earned) {
    if (!e.without) {
      lines.push_back(fmt::format("{}: without it nothing found fits as safely.", e.part));
      continue;
    }
    const std::string keys = changed_keys(plan.chosen->strategy, *e.without, 3);
    if (step < e.step) {
      lines.push_back(fmt::format("{}: {} faster than the best plan without it, which takes {} "
                                  "({}).", e.part, percent_text(e.step / step - 1),
                                  to_text(e.step), keys));
      continue;
    }
    const std::int64_t seq = plan.job.seq_len;
    const bool simpler =
        planner::complexity(plan.chosen->strategy, seq) < planner::complexity(*e.without, seq);
    lines.push_back(fmt::format("{}: the best plan without it takes {}, {} less ({}){}.", e.part,
                                to_text(e.step), percent_text(1 - e.step / step), keys,
                                simpler ? ", but is less simple" : ""));
  }
  return lines;
}

}  // namespace reports
