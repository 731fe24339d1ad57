#include "reports/memory_breakdown.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/parse_units.hpp"
#include "planner/plan/memory_parts.hpp"

namespace reports {
namespace {

using planner::Candidate;
using planner::MemoryTerms;

struct Asked {
  const Candidate* candidate = nullptr;
  std::string term;
};

// "memory.live", "chosen.memory.live", "alternatives.2.memory.live".
Asked asked_of(const planner::Plan& plan, std::string_view field) {
  constexpr std::string_view kMemory = "memory.", kAlternatives = "alternatives.";
  std::int64_t which = 0;
  if (field.starts_with("chosen.")) field.remove_prefix(std::string_view("chosen.").size());
  if (field.starts_with(kAlternatives)) {
    field.remove_prefix(kAlternatives.size());
    const auto [end, error] = std::from_chars(field.data(), field.data() + field.size(), which);
    if (error != std::errc{} || which < 0 || end == field.data() + field.size()) return {};
    field.remove_prefix(static_cast<std::size_t>(end - field.data()) + 1);
    ++which;
  }
  if (!field.starts_with(kMemory)) return {};
  return {planner::candidate_of(plan, which), std::string(field.substr(kMemory.size()))};
}

Breakdown of_terms(std::vector<BreakdownLine> lines, std::string when) {
  Breakdown b;
  b.when = std::move(when);
  for (BreakdownLine& line : lines) {
    b.sum += line.bytes;
    if (line.bytes != core::Bytes{}) b.lines.push_back(std::move(line));
  }
  return b;
}

// What is a sum of other terms; empty: a term of buffers.
std::optional<Breakdown> sum_of_terms(const MemoryTerms& m, std::string_view term) {
  if (term == "reserved")
    return of_terms(
        {{"live", "", m.live},
         {"rounding, segments and fragments of the allocator", "", m.reserved - m.live}},
        "");
  if (term == "device")
    return of_terms({{"reserved", "", m.reserved}, {"waiting", "", m.waiting},
                     {"workspace", "", m.workspace},
                     {"context", "", m.context}, {"communicators", "", m.communicators}}, "");
  if (term != "live") return std::nullopt;
  std::vector<BreakdownLine> lines;
  for (int t = 0; t < program::kTerms; ++t)
    lines.push_back({std::string(name(static_cast<program::Term>(t))), "",
                     m.terms[static_cast<std::size_t>(t)]});
  return of_terms(std::move(lines), "");
}

std::string moment_text(const planner::PeakMoment& m) {
  if (m.block.empty()) return fmt::format("rank {}, before the step: nothing needs more", m.rank);
  return fmt::format("rank {}, when its live memory is first greatest: in {}, layer {}, "
                     "micro-batch {}",
                     m.rank, m.block, m.layer, m.micro_batch);
}

std::string count_text(const planner::MemoryPart& part) {
  const core::Bytes each(part.bytes.value() / part.instances);
  const bool equal = each * part.instances == part.bytes;
  return fmt::format("{} x {}{} in {}", part.instances, equal ? "" : "about ", core::to_text(each),
                     core::name(part.type));
}

std::optional<program::Term> term_named(std::string_view text) {
  for (int t = 0; t < program::kTerms; ++t)
    if (name(static_cast<program::Term>(t)) == text) return static_cast<program::Term>(t);
  return std::nullopt;
}

}  // namespace

core::Result<std::optional<Breakdown>> memory_breakdown(const planner::Plan& plan,
                                                        std::string_view field) {
  const Asked asked = asked_of(plan, field);
  if (asked.candidate == nullptr) return std::optional<Breakdown>();
  const MemoryTerms& memory = asked.candidate->memory.worst;
  std::optional<Breakdown> found = sum_of_terms(memory, asked.term);
  const std::optional<program::Term> term = term_named(asked.term);
  const bool host = asked.term == "host";
  if (!found && !term && !host) return found;
  if (!found) {
    const auto parts = planner::memory_parts(plan, *asked.candidate);
    if (!parts.ok()) return parts.problems();
    std::vector<BreakdownLine> lines;
    for (const planner::MemoryPart& p : parts->parts)
      if (p.host == host && (host || p.term == *term))
        lines.push_back({p.buffer, count_text(p), p.bytes});
    found = of_terms(std::move(lines), moment_text(parts->peak));
    const core::Bytes figure =
        host ? memory.host : memory.terms[static_cast<std::size_t>(*term)];
    PLANNER_CHECK(found->sum == figure, "parts of a term do not sum to it");
  }
  found->field = field;
  return found;
}

std::string breakdown_text(const Breakdown& b, TextStyle style) {
  std::string text;
  if (!b.when.empty()) text += wrapped(b.when, 2, 2, style);
  Table table({{"", Align::left}, {"", Align::left}, {"bytes"}, {""}, {"share"}});
  const auto add = [&](const std::string& name, const std::string& count, core::Bytes bytes) {
    const double share = b.sum.value() == 0 ? 0
                                            : static_cast<double>(bytes.value()) /
                                                  static_cast<double>(b.sum.value());
    table.add({name, count, fmt::format("{}", bytes.value()), core::to_text(bytes),
               percent_text(share)});
  };
  for (const BreakdownLine& line : b.lines) add(line.name, line.count, line.bytes);
  add("sum", "", b.sum);
  table.paint_last(Ink::heading);
  return text + table.text(style);
}

core::Json breakdown_json(const Breakdown& b) {
  core::Json lines = core::Json::array();
  for (const BreakdownLine& line : b.lines)
    lines.push_back(core::Json::object(
        {{"name", line.name},
         {"count", line.count.empty() ? core::Json() : core::Json(line.count)},
         {"bytes", line.bytes.value()}}));
  return core::Json::object({{"when", b.when.empty() ? core::Json() : core::Json(b.when)},
                             {"lines", lines},
                             {"sum", b.sum.value()}});
}

}  // namespace reports
