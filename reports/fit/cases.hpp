#pragma once
// Timed runs made ready for a fit: each lowered once, because the constants of time change no
// Program; an evaluation then costs the actions again and walks them. Predictions are those that
// `validate` scores: the sweep's where a step is short, else the closed form's. Derivatives are the
// closed form's, for many values of constants in one walk.
//
// A vector of values has one entry per constant, in base units. Thread-safe to read.

#include <cstdint>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "planner/evaluate/site_model.hpp"
#include "reports/fit/constants.hpp"
#include "reports/validate/predict.hpp"

namespace reports::fit {

struct Case {
  std::string id, dataset, framework, family;  // family: of the GPU, Hopper
  std::string group;                   // alternatives for one job have the same; empty: none
  std::int64_t gpus = 0;
  double measured = 0;                 // seconds
  std::size_t place = 0;               // index among the machines
  validation::Prepared ready;
};

// d log(step) / d log(constant) of one case; constants that do not concern it are left out.
struct Slope {
  std::size_t constant = 0;
  double value = 0;
};
using Slopes = std::vector<Slope>;

class Cases {
 public:
  // Rows without a measured time, and those that cannot be predicted, are left out.
  Cases(const std::vector<validation::Row>& rows, std::vector<Constant> constants);

  const std::vector<Case>& all() const { return cases_; }
  const std::vector<Constant>& constants() const { return constants_; }
  std::vector<std::string> datasets() const;                 // sorted, each once
  std::vector<std::size_t> members(std::string_view dataset) const;
  // How many cases each constant concerns.
  std::vector<std::size_t> counts() const;
  // How many datasets.
  std::vector<std::size_t> sites() const;
  std::vector<double> priors() const;
  // What the shipped profiles say, where they say it.
  std::vector<double> shipped() const;

  // log(predicted / measured) of `chosen`, in their order. O(operations of their steps).
  std::vector<double> log_ratios(std::span<const std::size_t> chosen,
                                 std::span<const double> values) const;
  std::vector<Slopes> slopes(std::span<const std::size_t> chosen,
                             std::span<const double> values) const;
  // What each of `chosen` mostly waits for.
  std::vector<planner::Regime> regimes(std::span<const std::size_t> chosen,
                                       std::span<const double> values) const;
  // As runs of a site: their ratios, measured over predicted, what they spend their time on, and
  // what the datasets that none of them is of have told of their GPUs.
  std::vector<planner::SiteRun> site_runs(std::span<const std::size_t> chosen,
                                          std::span<const double> values) const;

 private:
  std::vector<std::set<std::string>> datasets_of_constants() const;
  // What cases share that run on equal machines: constants that concern them among it.
  struct Place {
    hw_profiles::Profile profile;      // without sources
    planner::Job job;                  // of which its kernels matter
    std::vector<std::size_t> constants;
  };
  std::size_t place_of(const validation::Row& row, const validation::Prepared& ready);
  hw_profiles::Profile profile(const Place& place, std::span<const double> values) const;
  cost::Machine machine(const Place& place, std::span<const double> values) const;
  std::vector<cost::Machine> machines(std::span<const double> values) const;

  std::vector<Constant> constants_;
  std::vector<Place> places_;
  std::vector<Case> cases_;
};

}  // namespace reports::fit
