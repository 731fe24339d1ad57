#pragma once
// Predictions of published runs by the code that plans: each row's strategy is lowered, replayed
// and timed (planner/evaluate/evaluate.hpp), on the profile that the row names. Nothing here models
// anything. Not thread-safe: profiles are kept from row to row.

#include <map>
#include <optional>
#include <string>
#include <tuple>

#include "hw_profiles/site.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/evaluate/regime.hpp"
#include "reports/validate/row.hpp"

namespace reports::validation {

// A value of a profile's field in place of the shipped one: what a fit varies, what --set states.
struct Override {
  std::string field, text;
  std::string of;                        // applies to this GPU or framework; empty: to all
};

// A row made ready to be evaluated: all of it but durations.
struct Prepared {
  planner::Question question;
  planner::Strategy strategy;            // resolved
  program::Program program;
};

// As a plan would state it, and of a timed row the closed form's step, by which a search ranks.
struct Prediction {
  planner::Candidate candidate;
  std::optional<core::Seconds> closed_form;
  std::int64_t parameters = 0;           // of the model
  planner::MemoryRegime memory_regime{};
};

class Predictor {
 public:
  explicit Predictor(std::vector<Override> overrides = {},
                     std::optional<hw_profiles::SiteFile> site = {})
      : overrides_(std::move(overrides)), site_(std::move(site)) {}

  // Errors: an unknown GPU, a model or job that does not hold, a strategy that is not lowered.
  core::Result<Prepared> prepare(const Row& row);
  core::Result<Prediction> predict(const Row& row);
  // What the row ran on. REQUIRES: prepare() or predict() answered.
  const hw_profiles::Profile& profile(const Row& row) const { return known_.at(key_of(row)); }

 private:
  using Key = std::tuple<std::string, std::string, std::string, std::int64_t, double, std::int64_t,
                         double, double, int>;
  static Key key_of(const Row& row);
  // As shipped, read once; and as the row had it.
  core::Result<hw_profiles::Profile> shipped(const Row& row);
  core::Result<hw_profiles::Profile> make_profile(const Row& row);

  std::vector<Override> overrides_;
  std::optional<hw_profiles::SiteFile> site_;
  std::map<Key, hw_profiles::Profile> known_;
  std::map<std::tuple<std::string, std::string, std::string>, hw_profiles::Profile> shipped_;
};

}  // namespace reports::validation
