#include "reports/fit/fit.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>

#include <fmt/format.h>

#include "core/random.hpp"
#include "reports/fit/site_variances.hpp"

namespace reports::fit {
namespace {

using validation::ErrorScore;
using Vector = std::vector<double>;
using Chosen = std::vector<std::size_t>;

ErrorScore score_of(const Vector& log_ratios) {
  Vector errors;
  for (const double r : log_ratios) errors.push_back(std::exp(r) - 1);
  return validation::error_score(std::move(errors));
}

// Every run in turn calibrates the others.
ErrorScore after_one_run(const LeftOut& set, const planner::SiteVariances& variances) {
  if (set.runs.size() < 2) return set.time;
  Vector left;                         // logarithms of predicted / measured
  for_each_other(set, variances, [&](const planner::SiteRun& other, const auto& site) {
    left.push_back(planner::log_pace(site, other.gpu, other.slopes) - other.log_ratio);
  });
  return score_of(left);
}

// Each dataset by variances that never saw it.
void calibrate_each(Fitted& fitted) {
  fitted.site = site_variances_of(fitted.left_out);
  for (LeftOut& set : fitted.left_out) {
    std::vector<LeftOut> others;
    for (const LeftOut& other : fitted.left_out)
      if (other.dataset != set.dataset) others.push_back(other);
    set.one_run = after_one_run(set, site_variances_of(others));
    set.one_run_of_all = after_one_run(set, fitted.site);
  }
}

// Start 0 is the prior; the others are drawn about it, within bounds.
Vector start_of(const Cases& cases, const FitOptions& options, int start) {
  Vector values = cases.priors();
  if (start == 0) return values;
  const core::Random random(options.seed, static_cast<std::uint64_t>(start));
  for (std::size_t k = 0; k < values.size(); ++k) {
    const Constant& c = cases.constants()[k];
    const double drawn = values[k] * std::exp(c.spread * random.normal(k));
    values[k] = std::clamp(drawn, c.low, c.high);
  }
  return values;
}

Solution best_of(const Cases& cases, const Chosen& chosen, const FitOptions& options) {
  Solution best = solve(cases, chosen, start_of(cases, options, 0), options.solver);
  for (int s = 1; s < options.starts; ++s) {
    Solution other = solve(cases, chosen, start_of(cases, options, s), options.solver);
    if (other.objective < best.objective) best = std::move(other);
  }
  return best;
}

// is_left_out(case), of some and not all.
template <class Predicate>
LeftOut without(const Cases& cases, const std::string& name, const FitOptions& options,
                Predicate is_left_out) {
  Chosen scored, others;
  for (std::size_t i = 0; i < cases.all().size(); ++i)
    (is_left_out(cases.all()[i]) ? scored : others).push_back(i);
  const Solution solution = best_of(cases, others, options);
  LeftOut out;
  out.dataset = name;
  out.runs = cases.site_runs(scored, solution.values);
  out.regimes = cases.regimes(scored, solution.values);
  Vector ratios;
  for (const planner::SiteRun& run : out.runs) ratios.push_back(-run.log_ratio);
  out.time = score_of(ratios);
  for (std::size_t i = 0; i < scored.size(); ++i)
    out.errors.emplace_back(cases.all()[scored[i]].id, std::exp(ratios[i]) - 1);
  return out;
}

// A group that is all rows, or of whose kind there is no other, is not left out.
void leave_out_groups(const Cases& cases, const FitOptions& options, Fitted& out);

void tell(const FitOptions& options, const std::string& text) {
  if (options.progress) options.progress(text);
}

void leave_out_groups(const Cases& cases, const FitOptions& options, Fitted& out) {
  const auto leave = [&](const std::string& name, auto is_left_out) {
    const auto n = static_cast<std::size_t>(std::ranges::count_if(cases.all(), is_left_out));
    if (n == 0 || n == cases.all().size()) return;
    out.groups.push_back(without(cases, name, options, is_left_out));
    tell(options, fmt::format("without {}: {}", name, percent_text(out.groups.back().time.mape)));
  };
  const auto leave_each = [&](std::string_view what, std::string Case::*kind) {
    std::set<std::string> kinds;
    for (const Case& c : cases.all()) kinds.insert(c.*kind);
    for (const std::string& k : kinds)
      leave(fmt::format("{} {}", what, k), [&](const Case& c) { return c.*kind == k; });
  };
  leave_each("framework", &Case::framework);
  leave_each("GPUs", &Case::family);
  leave(fmt::format("more than {} GPUs", kSmall), [](const Case& c) { return c.gpus > kSmall; });
}

}  // namespace

std::vector<RegimeScore> by_regime(const std::vector<LeftOut>& left_out) {
  std::vector<RegimeScore> all;
  for (std::size_t r = 0; r < planner::kRegimes; ++r) {
    RegimeScore score{.regime = static_cast<planner::Regime>(r)};
    for (const LeftOut& set : left_out) {
      double size = 0, bias = 0;
      std::size_t rows = 0;
      for (std::size_t i = 0; i < set.errors.size(); ++i) {
        if (i >= set.regimes.size() || set.regimes[i] != score.regime) continue;
        ++rows;
        size += std::abs(set.errors[i].second);
        bias += set.errors[i].second;
      }
      if (rows == 0) continue;
      score.rows += rows;
      ++score.datasets;
      score.mape += size / static_cast<double>(rows);
      score.bias += bias / static_cast<double>(rows);
    }
    if (score.datasets == 0) continue;
    score.mape /= static_cast<double>(score.datasets);
    score.bias /= static_cast<double>(score.datasets);
    all.push_back(score);
  }
  return all;
}

Vector ratios_of(const LeftOut& set) {
  Vector ratios;
  for (const auto& [id, error] : set.errors) ratios.push_back(std::log1p(error));
  return ratios;
}

double mean_of_datasets(const std::vector<LeftOut>& sets, ErrorScore LeftOut::*score) {
  double sum = 0;
  for (const LeftOut& set : sets) sum += (set.*score).mape;
  return sets.empty() ? 0 : sum / static_cast<double>(sets.size());
}

double mean_of_rows(const std::vector<LeftOut>& sets, ErrorScore LeftOut::*score) {
  double sum = 0, rows = 0;
  for (const LeftOut& set : sets) {
    sum += (set.*score).mape * static_cast<double>(set.errors.size());
    rows += static_cast<double>(set.errors.size());
  }
  return rows > 0 ? sum / rows : 0;
}

Fitted fit(const Cases& cases, const FitOptions& options) {
  Chosen all(cases.all().size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  Fitted out;
  out.constants = cases.constants();
  out.cases = cases.counts();
  out.sites = cases.sites();
  out.rows = all.size();
  out.seed = options.seed;
  const Solution solution = best_of(cases, all, options);
  out.values = solution.values;
  out.objective = solution.objective;
  out.training = score_of(cases.log_ratios(all, out.values));
  tell(options, fmt::format("all {} rows: {}", all.size(), percent_text(out.training.mape)));
  for (const std::string& dataset : cases.datasets()) {
    out.by_dataset.emplace_back(dataset,
                                score_of(cases.log_ratios(cases.members(dataset), out.values)));
    if (!options.leave_out) continue;
    out.left_out.push_back(
        without(cases, dataset, options, [&](const Case& c) { return c.dataset == dataset; }));
    tell(options, fmt::format("without {}: {}", dataset,
                              percent_text(out.left_out.back().time.mape)));
  }
  calibrate_each(out);
  if (options.leave_out && options.leave_out_groups) leave_out_groups(cases, options, out);
  return out;
}

}  // namespace reports::fit
