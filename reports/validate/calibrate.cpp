#include "reports/validate/calibrate.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "planner/evaluate/accuracy.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/evaluate/site_model.hpp"

namespace reports::validation {

static Predictor predictor_with(const std::vector<hw_profiles::MeasuredField>& measured) {
  if (measured.empty()) return Predictor();
  hw_profiles::SiteFile site;
  site.measured = measured;
  return Predictor({}, std::move(site));
}

core::Result<Calibration> calibrate(std::string_view text, std::string_view source,
                                    std::vector<hw_profiles::MeasuredField> measured) {
  Calibration out;
  const core::Result<core::CsvTable> table = core::parse_csv(text, source, &out.problems);
  if (!table.ok()) return table.problems();
  core::Problems missing;
  if (!table->require_columns(required_columns(), missing)) return missing;
  Rows read = read_rows(*table);
  out.problems.insert(out.problems.end(), read.problems.begin(), read.problems.end());

  Predictor predictor = predictor_with(measured);
  double sum = 0;
  std::vector<planner::SiteRun> runs;
  std::vector<std::string> ids;
  std::string framework;
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
    const planner::Question& q = ready->question;
    runs.push_back({q.profile.gpu.id, std::log(row.step->value() / c.time.step.value()),
                    planner::site_slopes(ready->program, planner::site_machines(q.profile, q.job),
                                         ready->strategy.schedule),
                    std::pow(q.profile.gpu.sustained_spread.value_or(0), 2)});
    sum += runs.back().log_ratio;
    if (ids.empty()) framework = row.framework;
    ids.push_back(row.id);
  }
  if (runs.empty())
    return core::Problem{std::string(source), "at least one row with step_seconds",
                         fmt::format("{} rows, none of them timed and predicted",
                                     read.rows.size() + read.skipped.size()),
                         out.problems.empty() ? "" : core::to_text(out.problems.front())};
  const planner::Accuracy& known = planner::accuracy();
  out.site = planner::SiteEvidence(runs).learnt(known.site);
  out.site.runs = std::move(ids);
  out.site.framework = std::move(framework);
  out.site.measured = std::move(measured);
  out.site.measured_over_predicted = std::exp(sum / static_cast<double>(runs.size()));
  out.factor_before = known.step_factor(0);
  double variance = 0;
  for (const planner::SiteRun& r : runs)
    variance += planner::left_variance(out.site, r.gpu, r.slopes, known.site) /
                static_cast<double>(runs.size());
  out.factor_after = std::min(out.factor_before, std::exp(known.site_reach * std::sqrt(variance)));
  return out;
}

std::string calibration_text(const Calibration& c, TextStyle style) {
  const auto runs = static_cast<int>(c.site.runs.size());
  std::string text = wrapped(
      fmt::format("{} run{} of this site took {:.3f} times as long as predicted. By what the runs "
                  "spent their time on, each part of the site takes so many times as long as its "
                  "profile says:",
                  runs, runs == 1 ? "" : "s", c.site.measured_over_predicted),
      0, 0, style);
  Table table({{"part", Align::left}, {"times as long"}, {"give or take"}});
  const auto add = [&](const std::string& part, const hw_profiles::PartPace& p) {
    table.add({part, fmt::format("{:.3f}", p.pace), percent_text(std::sqrt(p.left))});
  };
  for (const hw_profiles::GpuPace& g : c.site.gpus) {
    add(g.gpu, g.device);
    add("links of " + g.gpu, g.links);
  }
  add("host", c.site.host);
  add("network between nodes", c.site.network);
  text += table.text(style);
  return text + wrapped(fmt::format("{:.0f} % of further steps like these are expected within a "
                                    "factor {:.2f} of the prediction; without calibration it is "
                                    "{:.2f}.",
                                    100 * planner::accuracy().coverage, c.factor_after,
                                    c.factor_before),
                        0, 0, style);
}

}  // namespace reports::validation
