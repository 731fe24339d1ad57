#include "sim/engine/goodput.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/check.hpp"
#include "sim/engine/goodput_cycle.hpp"

namespace engine {
namespace {

double mean_between(const FailureModel& m) { return m.between().value(); }
double finite_or_zero(double share) { return std::isfinite(share) ? share : 0; }

void check_model(const FailureModel& m, std::int64_t interval) {
  PLANNER_CHECK(interval >= 1 && m.step.value() > 0 && !m.parts.empty());
}

// Nodes away per second of running: failures times what each takes, times how long.
double nodes_away(const FailureModel& m) {
  double away = 0;
  for (const FailingParts& p : m.parts)
    away += p.parts / p.between.value() * p.nodes * p.repair.value();
  return away;
}

// While the job runs, n <= spares nodes are away with probability ~ away^n / n!: Erlang's loss
// system, in which the distribution of a repair's length does not matter [erlang]. The times that
// these n still need are spread evenly over a repair. Calls visit(n, probability) for what is
// likely.
template <class Visit>
void visit_away(double away, std::int64_t spares, Visit&& visit) {
  if (away <= 0) return visit(std::int64_t{0}, 1.0);
  const auto peak = std::min(spares, static_cast<std::int64_t>(away));
  const auto spread = static_cast<std::int64_t>(12 * std::sqrt(away) + 40);
  const std::int64_t first = std::max<std::int64_t>(0, peak - spread);
  const std::int64_t last = std::min(spares, peak + spread);
  std::vector<double> weights;
  double weight = 1, sum = 0;
  for (std::int64_t n = first; n <= last; ++n) {
    weights.push_back(weight);
    sum += weight;
    weight *= away / static_cast<double>(n + 1);
    if (weight < 1e200) continue;      // a ratio is all that counts
    for (double& w : weights) w *= 1e-200;
    sum *= 1e-200;
    weight *= 1e-200;
  }
  for (std::int64_t n = first; n <= last; ++n)
    visit(n, weights[static_cast<std::size_t>(n - first)] / sum);
}

// How long a failure that takes nodes away waits until enough of them are back, where n others are
// away: for the least of those returns that are needed, or for its own.
double wait_of(const FailingParts& part, double n, double spares) {
  const double needed = n + part.nodes - spares;
  if (part.nodes == 0 || needed <= 0) return 0;
  return part.repair.value() * (needed > n ? 1 : needed / (n + 1));
}

double mean_wait(const FailureModel& m) {
  if (!m.spares) return 0;
  double wait = 0;
  visit_away(nodes_away(m), *m.spares, [&](std::int64_t n, double probability) {
    for (const FailingParts& p : m.parts)
      wait += probability * p.parts / p.between.value() *
              wait_of(p, static_cast<double>(n), static_cast<double>(*m.spares));
  });
  return wait * mean_between(m);
}

// Failures per second after which copies in memory are lost: those that take two nodes or more, and
// those that hit the other node during a restart.
double lost_in_memory(const FailureModel& m) {
  double whole = 0, single = 0;
  for (const FailingParts& p : m.parts) {
    const double rate = p.parts / p.between.value();
    if (p.nodes >= 2) whole += rate;
    if (p.nodes == 1) single += rate;
  }
  const double others = std::max<double>(1, static_cast<double>(m.nodes) - 1);
  return whole + single * -std::expm1(-m.restart.value() * single) / others;
}

// The greatest `value(k)` over k in [1, most]; it has one maximum.
template <class Value>
std::int64_t best_of(std::int64_t most, Value&& value) {
  std::int64_t low = 1, high = most;
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (value(middle) < value(middle + 1))
      low = middle + 1;
    else
      high = middle;
  }
  return low;
}

std::int64_t steps_near(const FailureModel& m, double seconds) {
  return std::max<std::int64_t>(
      1, static_cast<std::int64_t>(std::min(seconds / m.step.value(), 1e15) + 0.5));
}

}  // namespace

std::string_view name(Saving saving) {
  constexpr std::array<std::string_view, 3> kNames{"sync", "async", "memory"};
  return kNames[static_cast<std::size_t>(saving)];
}

core::Seconds FailureModel::between() const {
  double rate = 0;
  for (const FailingParts& p : parts) {
    PLANNER_CHECK(p.between.value() > 0 && p.parts > 0 && p.nodes >= 0);
    rate += p.parts / p.between.value();
  }
  return core::Seconds(1 / rate);
}

double daly_goodput(const FailureModel& m, std::int64_t interval) {
  check_model(m, interval);
  const double mean = mean_between(m);
  const double work = static_cast<double>(interval) * m.step.value();
  const double cycle =
      mean * std::exp(m.restart.value() / mean) * std::expm1((work + m.save.value()) / mean);
  return finite_or_zero(work / cycle);
}

double first_order_goodput(const FailureModel& m, std::int64_t interval) {
  check_model(m, interval);
  const double work = static_cast<double>(interval) * m.step.value();
  const double lost = (m.restart.value() + work / 2) / mean_between(m);
  return std::max(0.0, 1 - lost) / (1 + m.save.value() / work);
}

double expected_goodput(const FailureModel& m, std::int64_t interval) {
  check_model(m, interval);
  const double mean = mean_between(m);
  const CheckpointCycle cycle(m, interval);
  const double expected = -std::expm1(-cycle.next / mean) * std::exp(cycle.first / mean) * mean *
                          std::exp(m.restart.value() / mean);
  const double goodput = finite_or_zero(cycle.work / expected) *
                         (mean / (mean + mean_wait(m)));
  if (m.saving != Saving::memory) return goodput;
  // From the last copy in storage: half of what lies between two, and what it takes to write one.
  const double apart = static_cast<double>(checkpoints_per_stored(m, interval)) * cycle.next;
  const double more = apart / 2 + m.stored.value() + m.restart_stored.value() - m.restart.value();
  return goodput * std::max(0.0, 1 - lost_in_memory(m) * std::max(0.0, more));
}

core::Seconds expected_wait(const FailureModel& m) {
  return core::Seconds(mean_wait(m));
}

std::int64_t young_interval(const FailureModel& m) {
  return steps_near(m, std::sqrt(2 * m.save.value() * mean_between(m)));
}

std::int64_t daly_interval(const FailureModel& m) {
  const double save = m.save.value(), mean = mean_between(m);
  if (save >= 2 * mean) return steps_near(m, mean);
  const double part = save / (2 * mean);
  return steps_near(m, std::sqrt(2 * save * mean) * (1 + std::sqrt(part) / 3 + part / 9) - save);
}

// The goodput rises while a cycle is mostly saving, and falls once failures cost more than saves.
std::int64_t best_interval(const FailureModel& m) {
  const double most = 20 * (m.between().value() + m.behind.value()) / m.step.value();
  return best_of(std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(most, 1e15))),
                 [&](std::int64_t k) { return expected_goodput(m, k); });
}

std::int64_t checkpoints_per_stored(const FailureModel& m, std::int64_t interval) {
  const double times = std::ceil(m.stored.value() / CheckpointCycle(m, interval).next);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(times, 1e15)));
}

}  // namespace engine
