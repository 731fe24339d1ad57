#include <fmt/format.h>

#include "core/code.hpp"
#include "core/json.hpp"
#include "core/parse_units.hpp"
#include "reports/comparison.hpp"

namespace reports {
namespace {

using core::Json;

Json number(const std::optional<double>& value, TermUnit unit) {
  if (!value) return Json();
  return unit == TermUnit::seconds ? Json(*value) : Json(static_cast<std::int64_t>(*value));
}

Json terms_json(const Comparison& comparison) {
  Json array = Json::array();
  for (const ComparedTerm& t : comparison.terms)
    array.push_back(Json::object({{"term", t.term},
                                  {"predicted", number(t.predicted, t.unit)},
                                  {"measured", number(t.measured, t.unit)},
                                  {"relative_error", t.relative_error()}}));
  return array;
}

Json scaled_json(const Comparison& c) {
  Json figures = Json::array();
  for (const planner::ScaledFigure& f : c.scaled)
    figures.push_back(Json::object({{"name", f.name}, {"planned", f.planned}, {"run", f.run}}));
  return figures;
}

Json hardware_json(const Comparison& c) {
  if (!c.other_hardware) return Json();
  return Json::object({{"run_on", c.other_hardware->run_on},
                       {"planned_for", c.other_hardware->planned_for}});
}

// Exact terms in full, so that a difference of one byte shows.
std::string value_text(const std::optional<double>& value, TermUnit unit) {
  if (!value) return "-";
  if (unit == TermUnit::seconds) return core::to_text(core::Seconds(*value));
  return fmt::format("{}", static_cast<std::int64_t>(*value));
}

// "gradients.all_reduce.wire" for "communication.gradients.all_reduce.wire_bytes_per_rank".
std::string_view short_name(std::string_view term) {
  constexpr std::string_view kCommunication = "communication.";
  if (!term.starts_with(kCommunication)) return term;
  term.remove_prefix(kCommunication.size());
  for (std::string_view suffix : {"_bytes_per_rank", "_bytes"})
    if (term.ends_with(suffix)) return term.substr(0, term.size() - suffix.size());
  return term;
}

std::string_view name(TermUnit unit) {
  if (unit == TermUnit::seconds) return "seconds";
  return unit == TermUnit::bytes ? "bytes" : "count";
}

std::string error_text(const ComparedTerm& t) {
  if (t.assumed && (!t.predicted || !t.measured)) return "-";
  if (t.assumed) return t.differs() ? "other choice" : "as assumed";
  if (t.unit != TermUnit::seconds) return t.differs() ? "differs" : "equal";
  if (!t.comparable && t.predicted && t.measured) return "not comparable";
  const auto error = t.relative_error();
  if (!error) return "-";
  return signed_percent_text(*error);
}

// What was predicted and measured, where that is not the planned job.
std::string scaled_text(const Comparison& c) {
  return "Predicted and measured are both of the scaled-down job: " + planner::to_text(c.scaled);
}

Json library_json(const Comparison& c) { return Json::array_of(c.library); }

// Where NCCL ran something else than the plan assumes; each a line.
std::string library_text(const Comparison& c, TextStyle style) {
  std::string text;
  for (const std::string& sentence : c.library) text += wrapped(sentence, 0, 2, style);
  return text;
}

// Why times stand side by side without an error; empty where they have one.
std::string times_text(const Comparison& c) {
  if (!c.other_hardware) return "";
  return "Times are not comparable: " + to_text(*c.other_hardware) + ".";
}

struct Verdict {
  std::string text;
  bool all = false;                    // bytes and counts are equal
};
Verdict verdict(const Comparison& comparison) {
  const EqualTerms n = equal_terms(comparison);
  return {fmt::format("{} of {} bytes and counts are equal", n.equal, n.all), n.equal == n.all};
}

}  // namespace

std::string to_json_text(const std::vector<Comparison>& comparisons) {
  Json root = Json::object({{"schema", "compare/1"}});
  root.set("terms", comparisons.empty() ? Json::array() : terms_json(comparisons.front()));
  if (!comparisons.empty()) root.set("other_hardware", hardware_json(comparisons.front()));
  if (!comparisons.empty()) root.set("scaled_down", scaled_json(comparisons.front()));
  if (!comparisons.empty()) root.set("library", library_json(comparisons.front()));
  if (comparisons.size() > 1) {
    Json runs = Json::array();
    for (const Comparison& c : comparisons)
      runs.push_back(Json::object(
          {{"run", c.run}, {"terms", terms_json(c)}, {"other_hardware", hardware_json(c)},
           {"scaled_down", scaled_json(c)}, {"library", library_json(c)}}));
    root.set("runs", std::move(runs));
  }
  return core::dump(root) + '\n';
}

std::string comparisons_csv(const std::vector<Comparison>& comparisons) {
  const auto exact = [](const Json& value) {
    return value.is_null() ? core::Code() : core::Code::json(value, 0);
  };
  core::Code text = "run,term,unit,predicted,measured,relative_error\n";
  for (const Comparison& c : comparisons)
    for (const ComparedTerm& t : c.terms)
      text += core::csv_row(c.run, t.term, name(t.unit), exact(number(t.predicted, t.unit)),
                            exact(number(t.measured, t.unit)), exact(Json(t.relative_error())));
  return text.text();
}

std::string comparisons_markdown(const std::vector<Comparison>& comparisons) {
  using core::Code;
  Code text;
  const auto paragraph = [&](const std::string& words) {
    text += core::code("\n{}\n", Code::markdown(words));
  };
  for (const Comparison& c : comparisons) {
    if (!text.empty()) text += "\n";
    text += core::code("## {}\n\n", Code::markdown(c.run));
    if (!c.scaled.empty()) text += core::code("{}\n\n", Code::markdown(scaled_text(c)));
    text += "| term | predicted | measured | error |\n|---|---:|---:|---:|\n";
    for (const ComparedTerm& t : c.terms)
      text += core::markdown_row(short_name(t.term), value_text(t.predicted, t.unit),
                                 value_text(t.measured, t.unit), error_text(t));
    for (const std::string& sentence : c.library) paragraph(sentence);
    if (c.other_hardware) paragraph(times_text(c));
    paragraph(verdict(c).text);
  }
  return text.text();
}

std::string comparison_text(const Comparison& comparison, TextStyle style) {
  Table table({{"term", Align::left}, {"predicted"}, {"measured"}, {"error"}});
  for (const ComparedTerm& t : comparison.terms)
    table.add({std::string(short_name(t.term)), value_text(t.predicted, t.unit),
               value_text(t.measured, t.unit), error_text(t)});
  const Verdict said = verdict(comparison);
  std::string text = painted(comparison.run, Ink::heading, style) + '\n';
  if (!comparison.scaled.empty()) text += wrapped(scaled_text(comparison), 2, 4, style);
  text += table.text(style) + library_text(comparison, style);
  if (comparison.other_hardware) text += wrapped(times_text(comparison), 0, 2, style);
  return text + painted(said.text, said.all ? Ink::good : Ink::bad, style) + '\n';
}

}  // namespace reports
