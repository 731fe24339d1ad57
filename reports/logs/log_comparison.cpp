#include "reports/logs/log_comparison.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/check.hpp"
#include "core/code.hpp"
#include "core/parse_units.hpp"
#include "core/untrusted.hpp"

namespace reports::logs {
namespace {

using core::Json;

// Between the two nearest of the sorted values. REQUIRES: not empty.
core::Seconds quantile(const std::vector<core::Seconds>& sorted, double share) {
  const double place = share * static_cast<double>(sorted.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const std::size_t above = std::min(below + 1, sorted.size() - 1);
  const double part = place - static_cast<double>(below);
  return core::Seconds(sorted[below].value() * (1 - part) + sorted[above].value() * part);
}

core::Seconds median_of(std::vector<core::Seconds> values) {
  std::ranges::sort(values);
  return quantile(values, 0.5);
}

core::Seconds seconds_of(double value, Rate rate, const planner::Plan& plan) {
  const double samples = static_cast<double>(plan.job.global_batch);
  if (rate == Rate::seconds) return core::Seconds(value);
  if (rate == Rate::samples_per_second) return core::Seconds(samples / value);
  return core::Seconds(samples * static_cast<double>(plan.job.seq_len) /
                       (value * static_cast<double>(plan.gpus)));
}

ComparedTerm bytes_term(std::string name, core::Bytes predicted,
                        const std::optional<core::Bytes>& measured) {
  ComparedTerm term{std::move(name), TermUnit::bytes, static_cast<double>(predicted.value()), {}};
  if (measured) term.measured = static_cast<double>(measured->value());
  return term;
}

ComparedTerm seconds_term(std::string name, core::Seconds predicted,
                          const core::Seconds* measured) {
  ComparedTerm term{std::move(name), TermUnit::seconds, predicted.value(), {}};
  if (measured != nullptr) term.measured = measured->value();
  return term;
}

std::string value_in_words(const std::optional<double>& value, TermUnit unit) {
  if (!value) return "-";
  if (unit == TermUnit::seconds) return core::to_text(core::Seconds(*value));
  if (unit == TermUnit::bytes)
    return core::to_text(core::Bytes(static_cast<std::int64_t>(*value)));
  return number_text(*value);
}

std::string error_in_words(const ComparedTerm& term) {
  const auto error = term.relative_error();
  return error ? signed_percent_text(*error) : "-";
}

std::string count_text(const LogComparison& c) {
  if (!c.spread) return "It tells no times of steps.";
  if (c.log.whole_run)
    return fmt::format("One figure: the mean of all steps of the run, the first ones and what was "
                       "saved in between too.");
  if (c.log.format == kExecutionTrace) return "One step: all nodes of the trace.";
  const std::string_view what = c.log.format == kProfile ? "steps" : "steps, or means of steps";
  return fmt::format("{} {}: {} left out ({}). The others: median {}, p10 "
                     "{}, p90 {}.",
                     c.spread->steps, what, c.spread->left_out, kWarmUpRule,
                     core::to_text(c.spread->median), core::to_text(c.spread->p10),
                     core::to_text(c.spread->p90));
}

// What the figures are of; empty where there is nothing to say.
std::string notes_text(const LogComparison& c) {
  std::string text = fmt::format("{}", fmt::join(c.log.notes, " "));
  if (c.log.format != kProfile) return text;
  text += "The profiler itself lengthens steps.";
  if (c.log.device)
    text += fmt::format(" Kernels are those of one rank, a mean of all steps: NCCL's took {}, part "
                        "of it beside other kernels. The rest is exposed, and holds what a rank "
                        "waits for others: the bubble of a pipeline is predicted with it, and the "
                        "optimizer with computation.",
                        core::to_text(c.log.device->communication));
  return text;
}

std::string interval_text(const LogComparison& c) {
  if (!c.spread)
    return "Predicted is the fullest rank of the plan; measured is the process that wrote this.";
  return fmt::format("Predicted: {} to {}. The measured step is {} this interval.",
                     core::to_text(c.low), core::to_text(c.high),
                     c.holds() ? "within" : c.spread->median < c.low ? "below" : "above");
}

}  // namespace

StepSpread spread_of(const std::vector<core::Seconds>& steps) {
  PLANNER_CHECK(!steps.empty(), "a log without steps");
  const std::size_t half = steps.size() / 2;
  const auto at = [&](std::size_t i) { return steps.begin() + static_cast<std::ptrdiff_t>(i); };
  std::size_t left_out = std::min<std::size_t>(1, half);
  if (half > 0) {
    const core::Seconds warm = median_of({at(half), steps.end()}) * kWarm;
    while (left_out < half && steps[left_out] > warm) ++left_out;
  }
  std::vector<core::Seconds> kept(at(left_out), steps.end());
  std::ranges::sort(kept);
  return {static_cast<int>(steps.size()), static_cast<int>(left_out), quantile(kept, 0.5),
          quantile(kept, 0.1), quantile(kept, 0.9)};
}

core::Result<LogComparison> compare_log(const planner::Plan& plan, TrainingLog log,
                                        std::string file) {
  if (!plan.chosen)
    return core::Problem{"plan", "a plan with a feasible strategy", "none", "plan anew"};
  if (log.global_batch && *log.global_batch != plan.job.global_batch)
    return core::Problem{file, fmt::format("the plan's global batch, {}", plan.job.global_batch),
                         std::to_string(*log.global_batch),
                         fmt::format("plan with --global-batch {}", *log.global_batch)};
  std::vector<core::Seconds> steps;
  for (const LoggedStep& step : log.steps)
    steps.push_back(seconds_of(step.value, log.rate, plan));
  LogComparison c;
  c.file = std::move(file);
  if (!steps.empty()) c.spread = spread_of(steps);
  const planner::Candidate& chosen = *plan.chosen;
  c.predicted = chosen.time.step;
  c.low = chosen.uncertainty.step_low;
  c.high = chosen.uncertainty.step_high;
  const double tokens = static_cast<double>(plan.job.global_batch) *
                        static_cast<double>(plan.job.seq_len);
  const core::Seconds* const step = c.spread ? &c.spread->median : nullptr;
  c.terms = {seconds_term("time.step", c.predicted, step),
             {"throughput.tokens_per_second", TermUnit::count, tokens / c.predicted.value(),
              step != nullptr ? std::optional(tokens / step->value()) : std::nullopt},
             seconds_term("time.compute", chosen.time.compute + chosen.time.optimizer,
                          log.device ? &log.device->compute : nullptr),
             seconds_term("time.exposed_communication",
                          chosen.time.exposed_communication + chosen.time.bubble,
                          log.device ? &log.device->exposed_communication : nullptr),
             bytes_term("memory.live", chosen.memory.worst.live, log.allocated),
             bytes_term("memory.reserved", chosen.memory.worst.reserved, log.reserved)};
  std::erase_if(c.terms, [](const ComparedTerm& t) { return !t.measured; });
  c.log = std::move(log);
  return c;
}

std::string log_text(const LogComparison& c, TextStyle style) {
  std::string text = core::visible(c.file) + '\n';
  text += wrapped(fmt::format("A log of {} ({}).", c.log.format, c.log.source), 0, 2, style);
  text += wrapped(count_text(c), 0, 2, style);
  Table table({{"term", Align::left}, {"predicted"}, {"measured"}, {"error"}});
  for (const ComparedTerm& t : c.terms)
    table.add({t.term, value_in_words(t.predicted, t.unit), value_in_words(t.measured, t.unit),
               error_in_words(t)});
  text += table.text(style);
  if (const std::string more = notes_text(c); !more.empty()) text += wrapped(more, 0, 2, style);
  return text + wrapped(interval_text(c), 0, 2, style);
}

std::string log_markdown(const LogComparison& c) {
  using core::Code;
  Code text = core::code(
      "## {}\n\n{}: {}\n\n| term | predicted | measured | error |\n"
      "|---|---:|---:|---:|\n",
      Code::markdown(c.file), Code::markdown(c.log.format), Code::markdown(count_text(c)));
  for (const ComparedTerm& t : c.terms)
    text += core::markdown_row(t.term, value_in_words(t.predicted, t.unit),
                               value_in_words(t.measured, t.unit), error_in_words(t));
  if (const std::string more = notes_text(c); !more.empty())
    text += core::code("\n{}\n", Code::markdown(more));
  return (text + core::code("\n{}\n", Code::markdown(interval_text(c)))).text();
}

Json log_json(const LogComparison& c) {
  Json terms = Json::array();
  for (const ComparedTerm& t : c.terms) {
    const auto exact = [&](const std::optional<double>& value) {
      if (!value) return Json();
      return t.unit == TermUnit::bytes ? Json(static_cast<std::int64_t>(*value)) : Json(*value);
    };
    terms.push_back(Json::object({{"term", t.term},
                                  {"predicted", exact(t.predicted)},
                                  {"measured", exact(t.measured)},
                                  {"relative_error", t.relative_error()}}));
  }
  Json root = Json::object({{"log", c.file},
                            {"format", c.log.format},
                            {"source", c.log.source},
                            {"steps", c.spread ? c.spread->steps : 0}});
  if (c.spread) {
    root.set("left_out", c.spread->left_out);
    root.set("left_out_rule", kWarmUpRule);
    root.set("whole_run", c.log.whole_run);
    root.set("step_median", c.spread->median.value());
    root.set("step_p10", c.spread->p10.value());
    root.set("step_p90", c.spread->p90.value());
    root.set("step_low", c.low.value());
    root.set("step_high", c.high.value());
    root.set("within", c.holds());
  }
  if (!c.log.notes.empty()) {
    Json notes = Json::array();
    for (const std::string& note : c.log.notes) notes.push_back(note);
    root.set("notes", std::move(notes));
  }
  root.set("terms", std::move(terms));
  return root;
}

}  // namespace reports::logs
