#pragma once
// How far predictions are from measurements, as `planner fit` found on published runs that its
// constants never saw: data, accuracy.json. A run's logarithmic error is its site's plus its own,
//
//   log(measured / predicted) = site + run,  variances `between` and `within`
//
// n runs of a site tell the share b / (b + w/n) of their mean error that is the site's, and leave
// the variance w + b (w/n) / (b + w/n) to the next run. A stated interval is `reach` of its root to
// both sides: as many as `coverage` says of the left-out runs lay inside.
//
// A calibration tells the parts of a site apart (planner/evaluate/site_model.hpp): the variances of
// their paces and of a run beside them are `site`, and `site_reach` covers as many of the left-out
// runs after one other run of their site has calibrated it. Immutable; thread-safe.

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "hw_profiles/site.hpp"
#include "planner/evaluate/regime.hpp"

namespace planner {

// By part, in the order of hw_profiles::kSiteParts: d log(step) / d log(durations of the part).
using SiteSlopes = std::array<double, hw_profiles::kSiteParts.size()>;

// Variances of logarithms: of the parts' paces between sites, and of a run beside them.
struct SiteVariances {
  SiteSlopes parts{};
  double run = 0;
};

// One prediction in ten is off for reasons of its own (an allocator that thrashes, a setting that
// nobody wrote down): five times as far as the others, a contaminated normal distribution
// [tukey1960]. Left-out runs score alike with 3, 5 and 10.
inline constexpr double kOutlierShare = 0.1, kOutlierWidth = 5;

// What a run that dies for lack of memory costs, in shares of the work it was to do: a judgement
// (docs/decisions/0011), as an hour of a day's run.
inline constexpr double kFailedRun = 0.05;

// Left-out runs of a regime (planner/evaluate/regime.hpp), of so many datasets, and the variance by
// which their errors exceed those of all.
struct RegimeAccuracy {
  std::int64_t runs = 0, datasets = 0;
  double more = 0;
};

// Standard deviations of log(measured / predicted) memory: of most runs, and of outliers, whose own
// error is kOutlierWidth times as wide.
struct MemoryError {
  double usual = 0, outlier = 0;
};
// spread: of a run's own error. more: the variance of an error that all runs of a framework or of a
// memory regime have in common.
MemoryError memory_error(double spread, double more = 0);

// The bytes that a prediction asks for, the bytes that there are, and how far off the prediction
// may be.
struct MemoryRisk {
  double device = 0, usable = 0;
  MemoryError error;
};

struct Accuracy {
  double coverage = 0, between = 0, within = 0, reach = 0;
  SiteVariances site;
  double site_reach = 0;
  // Measured over predicted memory: quantiles (1 +- coverage) / 2, and the standard deviation of
  // its logarithm, but for outliers, that makes verdicts of fit likeliest.
  double memory_low = 1, memory_high = 1, memory_spread = 0;
  // For each memory regime: its runs whose memory was compared (a peak, or whether the run fitted),
  // and the variance that is added to the square of memory_spread.
  std::array<RegimeAccuracy, kMemoryRegimes> memory_regimes{};
  // Frameworks whose memory was compared; and the variance between frameworks of the logarithm of
  // memory, which is added for the others.
  std::vector<std::string> memory_frameworks;
  double memory_between = 0;
  // Whose runs were scored: frameworks, and GPU families by the first word of their architecture.
  std::vector<std::string> frameworks, families;
  // Variance of log(step) between frameworks on one job. A step in a framework that was not scored
  // may be off by as much.
  double between_frameworks = 0;
  std::array<RegimeAccuracy, kRegimes> regimes{};

  const RegimeAccuracy& of(Regime regime) const {
    return regimes[static_cast<std::size_t>(regime)];
  }
  bool has_scored_framework(std::string_view framework) const;
  bool has_scored_family(std::string_view architecture) const;
  // What is added to the variance of a step for which no run of its framework, or of its family of
  // GPUs (which counts as another site), was scored.
  double unscored_variance(std::string_view framework, std::string_view architecture) const;

  // Of the mean logarithmic error of so many runs, what is taken for the site's.
  double share_of_site(int runs) const;
  // By how much the interval of a step stretches to either side: a factor above 1. more: variance
  // beside the site's and the run's.
  double step_factor(int runs, double more = 0) const;
  // The same of a step of such slopes where a profile carries a site; never more than without.
  double step_factor(const hw_profiles::Site& site, const SiteSlopes& slopes) const;
  // Of two strategies on one machine, whose site's error is the same: steps further apart than this
  // factor are told apart.
  double tie_factor() const;
  // Of predicted memory: wider in regimes whose runs are further off, and for frameworks of which
  // no memory is known.
  MemoryError memory_error(std::string_view framework, MemoryRegime regime) const;
  bool has_scored_memory(std::string_view framework) const;
};

// Probability that it does not fit.
double out_of_memory(const MemoryRisk& risk);
// The most bytes of `usable` that are predicted with at most that probability of not fitting;
// usable at 1/2 and more.
double safe_device(double usable, double probability, const MemoryError& error);
// What a choice counts a step as: kFailedRun times the step more where it is sure not to fit.
double expected_step(double step, double out_of_memory);

core::Result<Accuracy> read_accuracy(std::string_view text, std::string_view where);
const Accuracy& accuracy();

}  // namespace planner
