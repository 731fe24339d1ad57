#include "reports/fit/site_variances.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <span>

#include <nlopt.h>

#include "core/check.hpp"

namespace reports::fit {
namespace {

// What is believed of a part before any site was seen: what constants.json believes of the
// constants that make its time, as variances of logarithms. Device: gemm_sustained within 10 to 25
// %. Host: kernel_submit within 30 to 40 %, of so many kernels, within 40 to 50 %. Links and
// network: 30 %. A run: 14 %.
constexpr double kBelievedDevice = 0.15 * 0.15, kBelievedHost = 0.35 * 0.35 + 0.45 * 0.45,
                 kBelievedLinks = 0.3 * 0.3, kBelievedRun = 0.14 * 0.14;
constexpr std::array kBelieved{kBelievedDevice, kBelievedHost, kBelievedLinks, kBelievedLinks,
                               kBelievedRun};
constexpr double kBelievedSpread = 3.2;
constexpr double kLowestPaceVariance = 1e-5, kHighestPaceVariance = 10;
constexpr unsigned kUnknowns = hw_profiles::kSiteParts.size() + 1;  // the run's own is the last
constexpr int kVarianceEvaluations = 4000;

planner::SiteVariances variances_at(const double* logarithms) {
  planner::SiteVariances v;
  for (std::size_t k = 0; k < v.parts.size(); ++k) v.parts[k] = std::exp(logarithms[k]);
  v.run = std::exp(logarithms[kUnknowns - 1]);
  return v;
}

struct WeighedEvidence {
  planner::SiteEvidence evidence;
  double weight;
};

double misfit_of(unsigned n, const double* logarithms, double*, void* data) {
  const auto& all = *static_cast<const std::vector<WeighedEvidence>*>(data);
  const planner::SiteVariances v = variances_at(logarithms);
  double sum = 0;
  for (const WeighedEvidence& e : all) sum += e.weight * e.evidence.misfit(v);
  for (unsigned k = 0; k < n; ++k) {
    const double apart = (logarithms[k] - std::log(kBelieved[k])) / kBelievedSpread;
    sum += apart * apart;
  }
  return sum;
}

}  // namespace

planner::SiteVariances site_variances_of(const std::vector<LeftOut>& sets) {
  std::vector<WeighedEvidence> all;
  for (const LeftOut& set : sets)
    if (!set.runs.empty())
      all.push_back({planner::SiteEvidence(set.runs), 1 / static_cast<double>(set.runs.size())});
  const std::unique_ptr<nlopt_opt_s, void (*)(nlopt_opt)> opt(
      nlopt_create(NLOPT_LN_SBPLX, kUnknowns), nlopt_destroy);
  PLANNER_CHECK(opt != nullptr, "NLopt has SBPLX");
  nlopt_set_lower_bounds1(opt.get(), std::log(kLowestPaceVariance));
  nlopt_set_upper_bounds1(opt.get(), std::log(kHighestPaceVariance));
  nlopt_set_min_objective(opt.get(), misfit_of, &all);
  nlopt_set_xtol_abs1(opt.get(), 1e-4);
  nlopt_set_maxeval(opt.get(), kVarianceEvaluations);
  std::array<double, kUnknowns> logarithms;
  std::ranges::transform(kBelieved, logarithms.begin(), [](double v) { return std::log(v); });
  double least = 0;
  nlopt_optimize(opt.get(), logarithms.data(), &least);  // a limit reached is an answer too
  return variances_at(logarithms.data());
}

void for_each_other(const LeftOut& set, const planner::SiteVariances& variances,
                    const std::function<void(const planner::SiteRun& other,
                                             const hw_profiles::SiteFile& site)>& call) {
  for (std::size_t i = 0; i < set.runs.size(); ++i) {
    const planner::SiteEvidence evidence(std::span(set.runs).subspan(i, 1));
    const hw_profiles::SiteFile site = evidence.learnt(variances);
    for (std::size_t j = 0; j < set.runs.size(); ++j)
      if (i != j) call(set.runs[j], site);
  }
}

}  // namespace reports::fit
