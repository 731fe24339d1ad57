#include "reports/fit/left_out_accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "core/check.hpp"
#include "core/json.hpp"

namespace reports::fit {
namespace {

constexpr double kCoverage = 0.9;
constexpr double kLeastSpread = 0.005, kMostSpread = 0.5;
constexpr double kLeastVariance = 1e-4;  // 1 %, squared

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

// The distance that `share` of the rows do not exceed, each dataset weighing 1.
double covering(const std::vector<LeftOut>& sets, double share) {
  std::vector<std::pair<double, double>> all;  // distance, weight
  for (const LeftOut& set : sets)
    for (const double r : ratios_of(set))
      all.emplace_back(std::abs(r), 1 / static_cast<double>(set.errors.size()));
  std::ranges::sort(all);
  double sum = 0;
  for (const auto& [distance, weight] : all) {
    sum += weight;
    if (sum >= share * static_cast<double>(sets.size())) return distance;
  }
  return all.back().first;
}

double log_likelihood(const std::vector<validation::Predicted>& rows, double spread) {
  planner::Accuracy a;
  a.memory_spread = spread;
  double sum = 0;
  for (const validation::Predicted& p : rows) {
    if (!p.row.fits) continue;
    const double fails =
        a.out_of_memory(static_cast<double>(p.candidate.memory.worst.device.value()),
                        static_cast<double>(p.candidate.memory.usable.value()));
    sum += std::log(std::max(1e-12, *p.row.fits ? 1 - fails : fails));
  }
  return sum;
}

// The likeliest, on a grid of 1 %.
double likeliest_spread(const std::vector<validation::Predicted>& rows) {
  double best = kMostSpread, most = -std::numeric_limits<double>::infinity();
  for (double spread = kLeastSpread; spread <= kMostSpread; spread *= 1.01) {
    const double now = log_likelihood(rows, spread);
    if (now > most) most = now, best = spread;
  }
  return best;
}

}  // namespace

// The mean of each site's variance, each site weighing 1; and what the sites' means vary beyond
// what their runs would make them.
Variances variances_of(const std::vector<LeftOut>& sets) {
  double within = 0, between = 0, sites = 0;
  for (const LeftOut& set : sets) {
    const std::vector<double> ratios = ratios_of(set);
    if (ratios.size() < 2) continue;
    const double n = static_cast<double>(ratios.size());
    const double mean = std::accumulate(ratios.begin(), ratios.end(), 0.0) / n;
    double sum = 0;
    for (const double r : ratios) sum += (r - mean) * (r - mean);
    within += sum / (n - 1);
    between += mean * mean - sum / (n - 1) / n;
    ++sites;
  }
  if (sites == 0) return {kLeastVariance, kLeastVariance};
  return {std::max(kLeastVariance, between / sites), std::max(kLeastVariance, within / sites)};
}

planner::Accuracy accuracy_of(const std::vector<LeftOut>& left_out,
                              const std::vector<validation::Predicted>& rows) {
  PLANNER_CHECK(!left_out.empty(), "no dataset was left out");
  planner::Accuracy a;
  a.coverage = kCoverage;
  const Variances v = variances_of(left_out);
  a.between = v.between;
  a.within = v.within;
  a.reach = covering(left_out, kCoverage) / std::sqrt(v.between + v.within);
  std::vector<double> memory;
  for (const validation::Predicted& p : rows)
    if (p.row.peak_bytes && p.row.memory_kind != validation::MemoryKind::device)
      memory.push_back(*p.row.peak_bytes / p.memory_bytes());
  if (!memory.empty()) {
    a.memory_low = std::min(1.0, quantile(memory, (1 - kCoverage) / 2));
    a.memory_high = std::max(1.0, quantile(memory, (1 + kCoverage) / 2));
  }
  a.memory_spread = likeliest_spread(rows);
  return a;
}

Coverage coverage_of(const std::vector<LeftOut>& sets, const planner::Accuracy& a) {
  Coverage c;
  const double before = std::log(a.step_factor(0)), after = std::log(a.step_factor(1));
  const double share = a.share_of_site(1);
  for (const LeftOut& set : sets) {
    const std::vector<double> ratios = ratios_of(set);
    const double n = static_cast<double>(ratios.size()), each = static_cast<double>(sets.size());
    double inside = 0, inside_one = 0;
    for (std::size_t i = 0; i < ratios.size(); ++i) {
      if (std::abs(ratios[i]) <= before) ++inside;
      for (std::size_t j = 0; j < ratios.size(); ++j)
        if (i != j && std::abs(ratios[j] - share * ratios[i]) <= after) ++inside_one;
    }
    c.uncalibrated += inside / n / each;
    c.one_run += (n > 1 ? inside_one / (n * (n - 1)) : inside / n) / each;
  }
  return c;
}

std::string to_json_text(const planner::Accuracy& a, std::string_view source) {
  return core::dump(core::Json::object({{"schema", "accuracy/1"},
                                        {"source", source},
                                        {"coverage", a.coverage},
                                        {"between", a.between},
                                        {"within", a.within},
                                        {"reach", a.reach},
                                        {"memory_low", a.memory_low},
                                        {"memory_high", a.memory_high},
                                        {"memory_spread", a.memory_spread}})) +
         '\n';
}

}  // namespace reports::fit
