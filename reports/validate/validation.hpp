#pragma once
// A file of published runs against the planner: read, predicted, scored, and written as validate/1
// or as a page. Thread-safe; pure but for the profiles it loads.

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/text.hpp"
#include "reports/validate/predict.hpp"
#include "reports/validate/score.hpp"

namespace reports::validation {

struct Request {
  std::vector<std::string> leave_out;    // datasets that are not scored
  std::vector<Override> overrides{};
  std::optional<hw_profiles::SiteFile> site{};  // all rows are of this site
  std::function<void(std::string_view)> progress{};  // is told now and then how far it is; optional
};

struct Validation {
  Scores scores;
  std::vector<Predicted> rows;
  core::Problems problems;               // of rows that were skipped as bad input
};

// text: a CSV as row.hpp reads it. Errors: no header, missing columns.
core::Result<Validation> validate(std::string_view text, std::string_view source,
                                  const Request& request);

// Both files scored as one. REQUIRES: their rows have different ids.
Validation joined(Validation a, Validation b);

std::string to_json_text(const Scores& scores);
std::string validation_text(const Scores& scores, TextStyle style);

}  // namespace reports::validation
