#pragma once
// What a few runs of a site say of its parts' paces. Pure but for the profiles it loads.

#include <string>
#include <string_view>
#include <vector>

#include "hw_profiles/site.hpp"
#include "planner/evaluate/site_model.hpp"
#include "planner/plan/plan.hpp"
#include "reports/text.hpp"
#include "reports/validate/predict.hpp"

namespace reports::validation {

struct Calibration {
  hw_profiles::SiteFile site;
  double factor_before = 1, factor_after = 1;  // intervals of a step, to either side
  core::Problems problems;                     // of rows that were not used
};

// Takes the timed runs of one site, one after the other. What of log(measured / predicted) is the
// site's, and of which of its parts, follows from what the runs spend their time on
// (planner/evaluate/site_model.hpp).
class SiteLearner {
 public:
  // measured: fields of the node that the site's collectives showed before. The runs are predicted
  // with them, and the site states them with what the runs say.
  explicit SiteLearner(std::vector<hw_profiles::MeasuredField> measured = {})
      : measured_(std::move(measured)) {}

  // The timed rows of a CSV as row.hpp reads it. Errors: no header, missing columns, no row that is
  // timed and predicted. Rows that cannot be used are in the calibration's problems.
  core::Status add_rows(std::string_view text, std::string_view source);
  // A run of a plan's candidate, which took `step`. Errors: a plan whose figures a site file has
  // changed already, and what no evaluation takes.
  core::Status add_run(const planner::Plan& plan, const planner::Candidate& candidate,
                       core::Seconds step, std::string id);

  // REQUIRES: at least one run was added.
  Calibration learnt() const;

 private:
  void add(const Prepared& run, core::Seconds step, const std::string& framework, std::string id);

  std::vector<hw_profiles::MeasuredField> measured_;
  std::vector<planner::SiteRun> runs_;
  std::vector<std::string> ids_;
  std::string framework_;
  core::Problems problems_;
};

std::string calibration_text(const Calibration& calibration, TextStyle style);

}  // namespace reports::validation
