#include "exec/run/paced.hpp"

#include <algorithm>

#include "core/parse_units.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "sim/cost/link.hpp"
#include "sim/cost/mixed.hpp"

namespace exec {

LocalOptions paced_links(const Paced& paced, const planner::Plan& plan, int ranks) {
  LocalOptions options;
  options.links = paced.every;
  if (paced.every) return options;
  cost::Machine machine = planner::machine_for(plan.profile, plan.job, plan.model);
  machine.gpus_per_node = static_cast<int>(plan.gpus_per_node);
  for (int from = 0; from < ranks; ++from)
    for (int to = 0; to < ranks; ++to) {
      if (from == to) continue;
      const std::int64_t low = std::min(from, to), high = std::max(from, to);
      const cost::Link link =
          cost::link_of(cost::place_of(low, 2, high - low, machine.gpus_per_node), machine);
      options.pairs.push_back({from, to, {link.bandwidth, link.latency}});
    }
  return options;
}

std::vector<double> paced_kernels(const planner::Plan& plan, int ranks) {
  const cost::Machine machine = planner::machine_for(plan.profile, plan.job, plan.model);
  if (!machine.mixed) return {};
  std::vector<double> rates;
  for (int rank = 0; rank < ranks; ++rank)
    rates.push_back(cost::product_rate(cost::machine_of_rank(machine, rank)).value());
  const double fastest = std::ranges::max(rates);
  for (double& rate : rates) rate = fastest / rate;
  return rates;
}

std::string to_text(const Paced& paced) {
  if (!paced.every) return "the plan's";
  return core::to_text(paced.every->bandwidth) + ", " + core::to_text(paced.every->latency);
}

}  // namespace exec
