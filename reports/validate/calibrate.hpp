#pragma once
// What a few runs of a site say of its parts' paces. Pure but for the profiles it loads.

#include <string_view>

#include "hw_profiles/site.hpp"
#include "reports/text.hpp"
#include "reports/validate/predict.hpp"

namespace reports::validation {

struct Calibration {
  hw_profiles::SiteFile site;
  double factor_before = 1, factor_after = 1;  // intervals of a step, to either side
  core::Problems problems;                     // of rows that were not used
};

// text: a CSV as row.hpp reads it; its timed rows are runs of one site. What of log(measured /
// predicted) is the site's, and of which of its parts, follows from what the runs spend their time
// on (planner/evaluate/site_model.hpp). Errors: no header, missing columns, no row that is timed
// and predicted. `measured`: fields of the node that the site's collectives showed before; the runs
// are predicted with them, and the site states them beside what the runs say.
core::Result<Calibration> calibrate(std::string_view text, std::string_view source,
                                    std::vector<hw_profiles::MeasuredField> measured = {});

std::string calibration_text(const Calibration& calibration, TextStyle style);

}  // namespace reports::validation
