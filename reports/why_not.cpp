#include "reports/why_not.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/parse_units.hpp"
#include "planner/evaluate/candidate_json.hpp"
#include "planner/search/search.hpp"
#include "reports/plan_text.hpp"
#include "reports/sensitivity.hpp"

namespace reports {
namespace {

using planner::Candidate;
using planner::Constraints;

std::string_view key_of(std::string_view text) { return text.substr(0, text.find('=')); }

// The plan's own pins and forbidden values, which it states as assumptions.
std::vector<std::string> asked_of(const planner::Plan& plan) {
  std::vector<std::string> texts;
  for (const std::string& text : plan.assumptions)
    if (text.starts_with(planner::kAskedFor))
      texts.push_back(text.substr(planner::kAskedFor.size()));
  return texts;
}

core::Result<Constraints> constraints_of(const planner::Plan& plan,
                                         const std::vector<std::string>& pins) {
  constexpr std::string_view kPin = "pin ", kForbid = "forbid ";
  Constraints asked;
  core::Problems problems;
  const auto note = [&](const core::Status& done) {
    if (!done.ok()) core::append(problems, done);
  };
  for (const std::string& text : pins) note(asked.pin(text));
  const std::vector<std::string> named = asked.texts();
  const auto is_named = [&](std::string_view key) {
    return std::ranges::any_of(named, [&](std::string_view text) {
      return key_of(text.substr(kPin.size())) == key;
    });
  };
  for (const std::string& text : asked_of(plan)) {
    const bool pin = text.starts_with(kPin);
    if (!pin && !text.starts_with(kForbid)) continue;
    const std::string rest = text.substr(pin ? kPin.size() : kForbid.size());
    if (is_named(key_of(rest))) continue;
    note(pin ? asked.pin(rest) : asked.forbid(rest));
  }
  if (!problems.empty()) return problems;
  return asked;
}

std::string slower_text(double ratio) {
  if (std::abs(ratio - 1) < 5e-4) return "as fast";
  return ratio > 1 ? fmt::format("{} slower", percent_text(ratio - 1))
                   : fmt::format("{} faster", percent_text(1 - ratio));
}

// Where most of the difference lies, in words; "" where the two steps are alike.
std::string main_cause(const planner::Time& chosen, const planner::Time& other) {
  struct Part {
    std::string_view name;
    core::Seconds more;
  };
  const Part parts[] = {{"compute", other.compute - chosen.compute},
                        {"exposed communication",
                         other.exposed_communication - chosen.exposed_communication},
                        {"bubble", other.bubble - chosen.bubble},
                        {"optimizer", other.optimizer - chosen.optimizer}};
  const bool slower = other.step > chosen.step;
  const Part& most = *std::ranges::max_element(parts, {}, [&](const Part& p) {
    return slower ? p.more.value() : -p.more.value();
  });
  const double share = std::abs(most.more.value()) / chosen.step.value();
  if (share < 1e-3) return "";
  return fmt::format(", above all because {} takes {} {}", most.name,
                     core::to_text(core::Seconds(std::abs(most.more.value()))),
                     slower ? "more" : "less");
}

std::string sentence(const WhyNot& w) {
  const std::string pins = fmt::format("{}", fmt::join(w.pins, " "));
  if (!w.nearest) return fmt::format("No plan with {} fits: {}", pins, w.reason);
  if (w.nearest->strategy == w.chosen.strategy)
    return fmt::format("The chosen plan has {}.", pins);
  const double ratio = w.nearest->time.step / w.chosen.time.step;
  std::string text = fmt::format("The best plan with {} is {}{}.", pins, slower_text(ratio),
                                 main_cause(w.chosen.time, w.nearest->time));
  const double risk = w.nearest->uncertainty.out_of_memory;
  if (risk > planner::kHardlyRisky && risk > w.chosen.uncertainty.out_of_memory)
    text += fmt::format(" It runs out of memory with a probability of {}, the chosen one with {}.",
                        percent_text(risk), percent_text(w.chosen.uncertainty.out_of_memory));
  return text;
}

}  // namespace

core::Result<WhyNot> why_not(const planner::Plan& plan, const std::vector<std::string>& pins) {
  if (!plan.chosen)
    return core::Problem{"explain why-not", "a plan that chose a strategy",
                         "one without a feasible strategy", "see its `rejected`"};
  auto constraints = constraints_of(plan, pins);
  if (!constraints.ok()) return constraints.problems();
  planner::Request request;
  request.model = plan.model;
  request.gpus = plan.gpus;
  request.profile = plan.profile;
  request.job = plan.job;
  request.constraints = *constraints;
  request.stale = std::ranges::find(plan.assumptions, planner::kStaleAllowed) !=
                  plan.assumptions.end();
  request.max_risk = plan.max_risk;
  request.top = 0;
  request.fewer = false;
  const core::Result<planner::Plan> other = planner::make_plan(request);
  if (!other.ok()) return other.problems();
  WhyNot answer;
  Constraints own;
  for (const std::string& text : pins)
    if (const core::Status done = own.pin(text); !done.ok()) return done.problems();
  for (const std::string& text : own.texts())
    answer.pins.push_back(text.substr(text.find(' ') + 1));
  answer.chosen = *plan.chosen;
  answer.nearest = other->chosen;
  if (own.admits(plan.chosen->strategy)) answer.nearest = plan.chosen;
  if (!answer.nearest) answer.reason = why_infeasible(*other);
  return answer;
}

std::string why_not_text(const WhyNot& w, TextStyle style) {
  std::string text = wrapped(sentence(w), 0, 2, style);
  if (!w.nearest || w.nearest->strategy == w.chosen.strategy) return text;
  Table table({{"", Align::left}, {"chosen"}, {fmt::format("{}", fmt::join(w.pins, " "))}});
  const auto add = [&](std::string name, const auto& text_of) {
    table.add({std::move(name), text_of(w.chosen), text_of(*w.nearest)});
  };
  const auto seconds = [](core::Seconds planner::Time::*part) {
    return [part](const Candidate& c) { return core::to_text(c.time.*part); };
  };
  add("step", seconds(&planner::Time::step));
  add("  compute", seconds(&planner::Time::compute));
  add("  exposed communication", seconds(&planner::Time::exposed_communication));
  add("  bubble", seconds(&planner::Time::bubble));
  add("  optimizer", seconds(&planner::Time::optimizer));
  add("memory of a GPU", [](const Candidate& c) { return core::to_text(c.memory.worst.device); });
  add("risk of running out of it",
      [](const Candidate& c) { return percent_text(c.uncertainty.out_of_memory); });
  add("mfu", [](const Candidate& c) { return percent_text(c.throughput.mfu); });
  text += '\n' + table.text(style) + '\n';
  text += wrapped("chosen: " + planner::to_text(w.chosen.strategy), 2, 4, style);
  return text + wrapped(fmt::format("{}: {}", fmt::join(w.pins, " "),
                                    planner::to_text(w.nearest->strategy)), 2, 4, style);
}

std::string why_not_json(const WhyNot& w) {
  core::Json root =
      core::Json::object({{"schema", "why_not/1"}, {"pins", core::Json::array_of(w.pins)}});
  root.set("said", sentence(w));
  root.set("chosen", planner::to_json(w.chosen));
  root.set("nearest", w.nearest ? planner::to_json(*w.nearest) : core::Json());
  root.set("reason", w.reason.empty() ? core::Json() : core::Json(w.reason));
  return core::dump(root) + '\n';
}

}  // namespace reports
