#include "reports/fit/left_out_accuracy.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "core/check.hpp"
#include "core/json.hpp"
#include "hw_profiles/load.hpp"
#include "reports/fit/site_variances.hpp"

namespace reports::fit {
namespace {

constexpr double kCoverage = 0.9;
constexpr std::string_view kBetweenFrameworks =
    "variance of log(step / native's step) about its mean, predicted for fsdp2, megatron_core and "
    "deepspeed on the questions of tests/bench/standard_questions.py that train all weights: 67 "
    "steps";
constexpr std::string_view kMemoryBetween =
    "variance of log(device memory) between nine frameworks on one job, predicted for the 826 runs "
    "of runs_2.csv with an allocator's peak";
// Its buffers equal the prediction to the byte, which tests hold.
constexpr std::string_view kExact = "native";
constexpr double kLeastSpread = 0.005, kMostSpread = 0.5;
constexpr double kLeastVariance = 1e-4;  // 1 %, squared

double quantile(std::vector<double> values, double share) {
  std::ranges::sort(values);
  const double at = share * static_cast<double>(values.size() - 1);
  const auto low = static_cast<std::size_t>(at);
  const std::size_t high = std::min(low + 1, values.size() - 1);
  return values[low] + (at - static_cast<double>(low)) * (values[high] - values[low]);
}

// Distances and their weights; each dataset weighs 1.
using Distances = std::vector<std::pair<double, double>>;

// The distance that `share` of all weight does not exceed.
double covering(Distances all, double share) {
  std::ranges::sort(all);
  double whole = 0, sum = 0;
  for (const auto& [distance, weight] : all) whole += weight;
  for (const auto& [distance, weight] : all) {
    sum += weight;
    if (sum >= share * whole) return distance;
  }
  return all.empty() ? 1 : all.back().first;
}

Distances uncalibrated_distances(const std::vector<LeftOut>& sets) {
  Distances all;
  for (const LeftOut& set : sets)
    for (const double r : ratios_of(set))
      all.emplace_back(std::abs(r), 1 / static_cast<double>(set.errors.size()));
  return all;
}

// After one run, in standard deviations that are left.
Distances calibrated_distances(const std::vector<LeftOut>& sets, const planner::SiteVariances& v) {
  Distances all;
  for (const LeftOut& set : sets) {
    const double n = static_cast<double>(set.runs.size());
    for_each_other(set, v, [&](const planner::SiteRun& other, const auto& site) {
      const double off =
          other.log_ratio - planner::log_pace(site, other.gpu, other.slopes);
      const double left = planner::left_variance(site, other.gpu, other.slopes, v);
      all.emplace_back(std::abs(off) / std::sqrt(left), 1 / (n * (n - 1)));
    });
  }
  return all;
}

// Of an allocator: what else a device holds is not the framework's.
bool has_peak(const validation::Predicted& p) {
  return p.row.peak_bytes && p.row.memory_kind != validation::MemoryKind::device;
}
bool has_memory(const validation::Predicted& p) { return has_peak(p) || p.row.fits; }

// By how much the errors of a regime exceed those of all; of one that fewer than two datasets know,
// as much as sites differ by.
planner::RegimeAccuracy regime_accuracy(const std::vector<LeftOut>& sets, planner::Regime regime,
                                        const planner::Accuracy& a) {
  planner::RegimeAccuracy known;
  Distances all;
  for (const LeftOut& set : sets) {
    const std::vector<double> ratios = ratios_of(set);
    const auto n = std::ranges::count(set.regimes, regime);
    if (n == 0) continue;
    known.runs += n;
    ++known.datasets;
    for (std::size_t i = 0; i < ratios.size(); ++i)
      if (set.regimes[i] == regime)
        all.emplace_back(std::abs(ratios[i]), 1 / static_cast<double>(n));
  }
  const double reached = all.empty() ? 0 : covering(all, kCoverage) / a.reach;
  known.more = std::max(0.0, reached * reached - a.between - a.within);
  if (known.datasets < 2) known.more = std::max(known.more, a.between);
  return known;
}

struct MemoryRows {
  std::vector<const validation::Predicted*> rows;
  std::int64_t datasets = 0;
};

// With an allocator's peak or a verdict.
MemoryRows memory_rows(const std::vector<validation::Predicted>& all,
                       planner::MemoryRegime regime) {
  MemoryRows found;
  std::set<std::string_view> datasets;
  for (const validation::Predicted& p : all) {
    if (!has_memory(p) || p.memory_regime != regime) continue;
    found.rows.push_back(&p);
    datasets.insert(p.row.dataset);
  }
  found.datasets = std::ssize(datasets);
  return found;
}

double share_within(const Distances& all, double most) {
  double whole = 0, inside = 0;
  for (const auto& [distance, weight] : all) {
    whole += weight;
    if (distance <= most) inside += weight;
  }
  return whole > 0 ? inside / whole : 1;
}

double log_likelihood(const std::vector<const validation::Predicted*>& rows, double spread) {
  double sum = 0;
  for (const validation::Predicted* p : rows) {
    if (!p->row.fits) continue;
    const planner::Memory& m = p->candidate.memory;
    const double fails =
        planner::out_of_memory({.device = static_cast<double>(m.worst.device.value()),
                                .usable = static_cast<double>(m.usable.value()),
                                .error = planner::memory_error(spread)});
    sum += std::log(std::max(1e-12, *p->row.fits ? 1 - fails : fails));
  }
  return sum;
}

// The likeliest, on a grid of 1 %.
double likeliest_spread(const std::vector<const validation::Predicted*>& rows) {
  double best = kMostSpread, most = -std::numeric_limits<double>::infinity();
  for (double spread = kLeastSpread; spread <= kMostSpread; spread *= 1.01) {
    const double now = log_likelihood(rows, spread);
    if (now > most) most = now, best = spread;
  }
  return best;
}

void add_once(std::string name, std::vector<std::string>& names) {
  if (std::ranges::find(names, name) == names.end()) names.push_back(std::move(name));
}

// The spread of all rows; what that of each regime exceeds it by, or what frameworks differ by
// where fewer than two datasets tell of it; and whose memory is known: of verdicts, some must have
// been that a run did not fit.
void add_memory_spread(const std::vector<validation::Predicted>& rows, planner::Accuracy& a) {
  a.memory_between = planner::accuracy().memory_between;  // not of these rows
  std::vector<const validation::Predicted*> all;
  for (const validation::Predicted& p : rows) all.push_back(&p);
  a.memory_spread = likeliest_spread(all);
  for (std::size_t r = 0; r < planner::kMemoryRegimes; ++r) {
    const MemoryRows of_regime = memory_rows(rows, static_cast<planner::MemoryRegime>(r));
    planner::RegimeAccuracy& known = a.memory_regimes[r];
    known.runs = std::ssize(of_regime.rows);
    known.datasets = of_regime.datasets;
    const double spread = likeliest_spread(of_regime.rows);
    known.more = std::max(0.0, spread * spread - a.memory_spread * a.memory_spread);
    if (known.datasets < 2) known.more = std::max(known.more, a.memory_between);
  }
  a.memory_frameworks.emplace_back(kExact);
  for (const validation::Predicted& p : rows)
    if (has_peak(p) || (p.row.fits && !*p.row.fits))
      add_once(p.row.job.framework, a.memory_frameworks);
  std::ranges::sort(a.memory_frameworks);
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
  a.reach = covering(uncalibrated_distances(left_out), kCoverage) / std::sqrt(v.between + v.within);
  for (std::size_t r = 0; r < planner::kRegimes; ++r)
    a.regimes[r] = regime_accuracy(left_out, static_cast<planner::Regime>(r), a);
  a.site = site_variances_of(left_out);
  a.site_reach = covering(calibrated_distances(left_out, a.site), kCoverage);
  std::vector<double> memory;
  for (const validation::Predicted& p : rows)
    if (has_peak(p))
      memory.push_back(*p.row.peak_bytes / p.memory_bytes());
  if (!memory.empty()) {
    a.memory_low = std::min(1.0, quantile(memory, (1 - kCoverage) / 2));
    a.memory_high = std::max(1.0, quantile(memory, (1 + kCoverage) / 2));
  }
  add_memory_spread(rows, a);
  for (const validation::Predicted& p : rows) {
    const auto profile = hw_profiles::find_profile(p.row.gpu);
    if (!p.row.step || !profile.ok()) continue;
    const std::string& architecture = profile->gpu.architecture;
    add_once(p.row.job.framework, a.frameworks);
    add_once(architecture.substr(0, architecture.find(' ')), a.families);
  }
  std::ranges::sort(a.frameworks);
  std::ranges::sort(a.families);
  a.between_frameworks = planner::accuracy().between_frameworks;  // not of these rows
  return a;
}

Coverage coverage_of(const std::vector<LeftOut>& sets, const planner::Accuracy& a) {
  Coverage c;
  Distances reaches;                   // in the reach that is stated of each
  for (const LeftOut& set : sets) {
    const std::vector<double> ratios = ratios_of(set);
    for (std::size_t i = 0; i < ratios.size(); ++i) {
      const double more = i < set.regimes.size() ? a.of(set.regimes[i]).more : 0;
      reaches.emplace_back(std::abs(ratios[i]) / std::log(a.step_factor(0, more)),
                           1 / static_cast<double>(ratios.size()));
    }
  }
  c.uncalibrated = share_within(reaches, 1);
  c.one_run = share_within(calibrated_distances(sets, a.site), a.site_reach);
  return c;
}

template <class Regime, std::size_t N>
static core::Json regimes_json(const std::array<planner::RegimeAccuracy, N>& all) {
  core::Json regimes = core::Json::object();
  for (std::size_t r = 0; r < N; ++r)
    regimes.set(name(static_cast<Regime>(r)),
                core::Json::object({{"runs", all[r].runs},
                                    {"datasets", all[r].datasets},
                                    {"more", all[r].more}}));
  return regimes;
}

std::string to_json_text(const planner::Accuracy& a, std::string_view source) {
  core::Json site = core::Json::object();
  for (const hw_profiles::SitePart part : hw_profiles::kSiteParts)
    site.set(name(part), a.site.parts[static_cast<std::size_t>(part)]);
  site.set("run", a.site.run);
  site.set("reach", a.site_reach);
  return core::dump(core::Json::object({{"schema", "accuracy/6"},
                                        {"source", source},
                                        {"coverage", a.coverage},
                                        {"between", a.between},
                                        {"within", a.within},
                                        {"reach", a.reach},
                                        {"site", std::move(site)},
                                        {"memory_low", a.memory_low},
                                        {"memory_high", a.memory_high},
                                        {"memory_spread", a.memory_spread},
                                        {"frameworks", core::Json::array_of(a.frameworks)},
                                        {"families", core::Json::array_of(a.families)},
                                        {"between_frameworks", a.between_frameworks},
                                        {"between_frameworks_source", kBetweenFrameworks},
                                        {"regimes", regimes_json<planner::Regime>(a.regimes)},
                                        {"memory_regimes", regimes_json<planner::MemoryRegime>(
                                                               a.memory_regimes)},
                                        {"memory_frameworks",
                                         core::Json::array_of(a.memory_frameworks)},
                                        {"memory_between", a.memory_between},
                                        {"memory_between_source", kMemoryBetween}})) +
         '\n';
}

}  // namespace reports::fit
