#include "reports/validate/calibrate.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "planner/accuracy.hpp"
#include "planner/evaluate.hpp"

namespace reports::validation {

core::Result<Calibration> calibrate(std::string_view text, std::string_view source) {
  Calibration out;
  const core::Result<core::CsvTable> table = core::parse_csv(text, source, &out.problems);
  if (!table.ok()) return table.problems();
  core::Problems missing;
  if (!table->require_columns(required_columns(), missing)) return missing;
  Rows read = read_rows(*table);
  out.problems.insert(out.problems.end(), read.problems.begin(), read.problems.end());

  Predictor predictor;
  double sum = 0;
  for (const Row& row : read.rows) {
    if (!row.step) continue;
    const core::Result<Prepared> ready = predictor.prepare(row);
    if (!ready.ok()) {
      out.problems.push_back(ready.problems().front());
      out.problems.back().where = row.place + ' ' + out.problems.back().where;
      continue;
    }
    const planner::Candidate c =
        planner::evaluate(ready->question, ready->program, ready->strategy, false);
    sum += std::log(row.step->value() / c.time.step.value());
    if (out.site.runs.empty()) {
      out.site.gpu = row.gpu;
      out.site.framework = row.framework;
    }
    out.site.runs.push_back(row.id);
  }
  const auto runs = static_cast<int>(out.site.runs.size());
  if (runs == 0)
    return core::Problem{std::string(source), "at least one row with step_seconds",
                         fmt::format("{} rows, none of them timed and predicted",
                                     read.rows.size() + read.skipped.size()),
                         out.problems.empty() ? "" : core::to_text(out.problems.front())};
  const planner::Accuracy& known = planner::accuracy();
  const double mean = sum / runs;
  out.site.measured_over_predicted = std::exp(mean);
  out.site.pace = std::clamp(std::exp(known.share_of_site(runs) * mean), 1 / hw_profiles::kMostPace,
                             hw_profiles::kMostPace);
  out.factor_before = known.step_factor(0);
  out.factor_after = known.step_factor(runs);
  return out;
}

std::string calibration_text(const Calibration& c, TextStyle style) {
  const auto runs = static_cast<int>(c.site.runs.size());
  return wrapped(
      fmt::format(
          "{} run{} of this site took {:.3f} of what is predicted. {:.0f} % of that is taken "
          "for the site's, the rest for the run's own: pace {:.3f}. {:.0f} % of further "
          "steps are expected within a factor {:.2f} of the prediction; without "
          "calibration it is {:.2f}.",
          runs, runs == 1 ? "" : "s", c.site.measured_over_predicted,
          100 * planner::accuracy().share_of_site(runs), c.site.pace,
          100 * planner::accuracy().coverage, c.factor_after, c.factor_before),
      0, 0, style);
}

}  // namespace reports::validation
