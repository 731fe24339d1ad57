#include "reports/validate/calibrate.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/check.hpp"
#include "planner/evaluate/accuracy.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/job_check.hpp"

namespace reports::validation {

static hw_profiles::SiteFile site_with(const std::vector<hw_profiles::MeasuredField>& measured) {
  hw_profiles::SiteFile site;
  site.measured = measured;
  return site;
}

void SiteLearner::add(const Prepared& run, core::Seconds step, const std::string& framework,
                      std::string id) {
  const planner::Question& q = run.question;
  const planner::Candidate c = planner::evaluate(q, run.program, run.strategy, false);
  const std::vector<cost::Machine> machines =
      planner::site_machines(q.profile, q.job, q.machine.product_share);
  runs_.push_back({q.profile.gpu.id, std::log(step.value() / c.time.step.value()),
                   planner::site_slopes(run.program, machines, run.strategy.schedule),
                   std::pow(q.profile.gpu.sustained_spread.value_or(0), 2)});
  if (ids_.empty()) framework_ = framework;
  ids_.push_back(std::move(id));
}

core::Status SiteLearner::add_rows(std::string_view text, std::string_view source) {
  const core::Result<core::CsvTable> table = core::parse_csv(text, source, &problems_);
  if (!table.ok()) return table.problems();
  core::Problems missing;
  if (!table->require_columns(required_columns(), missing)) return missing;
  Rows read = read_rows(*table);
  problems_.insert(problems_.end(), read.problems.begin(), read.problems.end());

  Predictor predictor = measured_.empty() ? Predictor() : Predictor({}, site_with(measured_));
  const std::size_t before = runs_.size();
  for (const Row& row : read.rows) {
    if (!row.step) continue;
    const core::Result<Prepared> ready = predictor.prepare(row);
    if (ready.ok()) {
      add(*ready, *row.step, row.framework, row.id);
      continue;
    }
    problems_.push_back(ready.problems().front());
    problems_.back().where = row.place + ' ' + problems_.back().where;
  }
  if (runs_.size() > before) return core::Done{};
  return core::Problem{std::string(source), "at least one row with step_seconds",
                       fmt::format("{} rows, none of them timed and predicted",
                                   read.rows.size() + read.skipped.size()),
                       problems_.empty() ? "" : core::to_text(problems_.front())};
}

core::Status SiteLearner::add_run(const planner::Plan& plan, const planner::Candidate& candidate,
                                  core::Seconds step, std::string id) {
  if (plan.profile.site.runs || plan.profile.site.measured)
    return core::Problem{id, "a plan of shipped profiles", "one that was made with --site",
                         "plan without --site: what the site is like is what the runs tell"};
  if (!plan.profile.others.empty())
    return core::Problem{id, "a plan of one kind of GPU", "several",
                         "calibrate with a run on each kind alone"};
  hw_profiles::Profile profile = plan.profile;
  if (!measured_.empty())
    if (const core::Status done = hw_profiles::use_site(profile, site_with(measured_), "--busbw");
        !done.ok())
      return done;
  core::Problems problems = planner::job_problems(plan.job, profile);
  for (core::Problem& p :
       planner::step_length_problems(plan.job, plan.parameters, plan.gpus, profile))
    problems.push_back(std::move(p));
  if (!problems.empty()) return problems;
  auto question = planner::make_question(plan.model, plan.job, profile, plan.gpus);
  if (!question.ok()) return question.problems();
  auto lowered = planner::lower_strategy(plan.model, plan.job, profile.framework, plan.gpus,
                                         candidate.strategy);
  if (!lowered.ok()) return lowered.problems();
  add({std::move(question).value(), lowered->strategy, std::move(lowered->program)}, step,
      plan.job.framework, std::move(id));
  return core::Done{};
}

Calibration SiteLearner::learnt() const {
  PLANNER_CHECK(!runs_.empty(), "a site is learnt from runs");
  const planner::Accuracy& known = planner::accuracy();
  Calibration out;
  out.problems = problems_;
  out.site = planner::SiteEvidence(runs_).learnt(known.site);
  out.site.runs = ids_;
  out.site.framework = framework_;
  out.site.measured = measured_;
  double sum = 0, variance = 0;
  for (const planner::SiteRun& r : runs_) {
    sum += r.log_ratio;
    variance += planner::left_variance(out.site, r.gpu, r.slopes, known.site);
  }
  const auto count = static_cast<double>(runs_.size());
  out.site.measured_over_predicted = std::exp(sum / count);
  out.factor_before = known.step_factor(0);
  out.factor_after =
      std::min(out.factor_before, std::exp(known.site_reach * std::sqrt(variance / count)));
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
