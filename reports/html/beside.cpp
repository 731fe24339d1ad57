// Predicted beside measured: a run with its plan, and what `planner compare` wrote of such pairs.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "reports/html/sections.hpp"
#include "reports/text.hpp"

namespace reports::html {
namespace {

using core::Json;

// "time.exposed_communication" as people read it: "time: exposed communication".
std::string readable(std::string term) {
  if (const std::size_t dot = term.find('.'); dot != std::string::npos)
    term.replace(dot, 1, ": ");
  std::ranges::replace(term, '.', ' ');
  std::ranges::replace(term, '_', ' ');
  return term;
}

// Two bars a term, of the terms whose names begin with `group`.
struct Bars {
  std::string group, unit;
  Json bars = Json::array();

  void add(const std::string& term, const Cell& predicted, const Cell& measured) {
    if (!term.starts_with(group) || measured.value.is_null()) return;
    bars.push_back(Json::object({{"label", readable(term.substr(group.size()))},
                                 {"predicted", predicted.value},
                                 {"measured", measured.value}}));
  }
  void draw(std::string title, std::string alternative, std::vector<Block>& blocks) {
    if (bars.items().empty()) return;
    blocks.push_back(Chart{"beside", std::move(title), std::move(alternative),
                           Json::object({{"unit", unit}, {"bars", std::move(bars)}})});
  }
};

// What both sources of terms fill: the bars and the table.
struct Terms {
  Bars times{"time.", "seconds"}, memory{"memory.", "bytes"};
  PageTable table{"Predicted and measured, term by term",
                  {{"term", false}, {"predicted"}, {"measured"}, {"relative error"}}, {}, true};

  void add(const std::string& term, Cell predicted, Cell measured, Cell error) {
    times.add(term, predicted, measured);
    memory.add(term, predicted, measured);
    table.rows.push_back({words(readable(term)), std::move(predicted), std::move(measured),
                          std::move(error)});
  }
};

Json exact(const std::optional<double>& value, Unit unit) {
  if (!value) return {};
  return unit == Unit::seconds ? Json(*value) : Json(static_cast<std::int64_t>(*value));
}

Unit unit_of(TermUnit unit) {
  switch (unit) {
    case TermUnit::seconds: return Unit::seconds;
    case TermUnit::count: return Unit::count;
    case TermUnit::bytes: return Unit::bytes;
  }
  return Unit::number;
}

const ComparedTerm* find(const Comparison& comparison, std::string_view term) {
  const auto found = std::ranges::find(comparison.terms, term, &ComparedTerm::term);
  return found == comparison.terms.end() ? nullptr : &*found;
}

std::string exact_text(EqualTerms n) {
  return n.equal == n.all ? fmt::format("all {} byte and message counts are equal", n.all)
                          : fmt::format("{} of {} byte and message counts differ",
                                        n.all - n.equal, n.all);
}

// "12.0 % longer than", "as long as".
std::string longer_text(double error) {
  if (std::abs(error) < 0.0005) return "as long as";
  return fmt::format("{} {} than", percent_text(std::abs(error)), error > 0 ? "longer" : "shorter");
}

Verdict verdict(const exec::RunRecord& run, const Comparison& comparison) {
  const std::string counts = exact_text(equal_terms(comparison));
  if (const auto& other = comparison.other_hardware)
    return {"Times are not comparable",
            fmt::format("The plan is for {}, and the run used {}; {}.", other->planned_for,
                        other->run_on, counts),
            Tone::plain};
  const ComparedTerm* step = find(comparison, "time.step");
  const std::optional<double> error = step == nullptr ? std::nullopt : step->relative_error();
  if (!error) return {"No step was timed", fmt::format("Of the run, {}.", counts), Tone::plain};
  const planner::Uncertainty& u = run.candidate.uncertainty;
  const bool inside =
      u.step_low.value() <= *step->measured && *step->measured <= u.step_high.value();
  return {inside ? "As predicted" : "Not as predicted",
          fmt::format("The predicted step is {} the measured one, which is {} the predicted range; "
                      "{}.",
                      longer_text(*error), inside ? "inside" : "outside", counts),
          inside ? Tone::good : Tone::bad};
}

// A term with its prediction as the mark on the gauge.
Tile tile(const std::string& title, const Cell& predicted, const Cell& measured) {
  const double p = predicted.value.as_double(), m = measured.value.as_double();
  const double length = std::max({p, m, 1e-30}) * 1.1;
  const std::string note = "predicted " + predicted.text;
  return {title, measured, "", note, Gauge{0, m / length, p / length, note}};
}

Tile step_tile(const exec::RunRecord& run, const Cell& predicted, const Cell& measured) {
  Tile t = tile("Measured step", predicted, measured);
  if (other_hardware(run)) {
    t.note = fmt::format("predicted {}, on other hardware", predicted.text);
    t.gauge.reset();
  }
  return t;
}

Tiles tiles(const exec::RunRecord& run, const Comparison& comparison) {
  Tiles all{"What was measured", {}};
  const auto cells = [&](const ComparedTerm& t) {
    return std::pair(made(exact(t.predicted, unit_of(t.unit)), unit_of(t.unit)),
                     made(exact(t.measured, unit_of(t.unit)), unit_of(t.unit)));
  };
  const auto known = [&](std::string_view term) {
    const ComparedTerm* t = find(comparison, term);
    return t != nullptr && t->predicted && t->measured ? t : nullptr;
  };
  if (const ComparedTerm* t = known("time.step")) {
    const auto [predicted, measured] = cells(*t);
    all.tiles.push_back(step_tile(run, predicted, measured));
  }
  for (const auto& [term, title] : {std::pair{"memory.live", "Live memory"},
                                    std::pair{"memory.device", "Memory of the device"}})
    if (const ComparedTerm* t = known(term)) {
      const auto [predicted, measured] = cells(*t);
      all.tiles.push_back(tile(title, predicted, measured));
    }
  std::int64_t predicted = 0, measured = 0;
  for (const ComparedTerm& t : comparison.terms) {
    if (!t.term.ends_with(".wire_bytes_per_rank")) continue;
    predicted += static_cast<std::int64_t>(t.predicted.value_or(0));
    measured += static_cast<std::int64_t>(t.measured.value_or(0));
  }
  if (predicted > 0 || measured > 0)
    all.tiles.push_back(tile("Bytes sent per step", made(predicted, Unit::bytes),
                             made(measured, Unit::bytes)));
  const EqualTerms n = equal_terms(comparison);
  if (n.all > 0)
    all.tiles.push_back({"Bytes and counts", made(n.equal, Unit::number),
                         fmt::format("of {}", n.all), "are exactly as predicted",
                         Gauge{0, static_cast<double>(n.equal) / n.all, {}, exact_text(n)},
                         n.equal == n.all ? Tone::good : Tone::bad});
  return all;
}

// The step's error bars: the prediction's range, and the percentiles of the measured steps.
void add_ranges(const exec::RunRecord& run, Bars& times) {
  const auto seconds = [](const std::optional<core::Seconds>& s) {
    return s ? Json(s->value()) : Json();
  };
  Json bars = Json::array();
  for (Json bar : times.bars.items()) {
    if (bar.at("label").as_string() == "step") {
      bar.set("predicted_low", run.candidate.uncertainty.step_low.value())
          .set("predicted_high", run.candidate.uncertainty.step_high.value())
          .set("measured_low", seconds(run.time.step_p10))
          .set("measured_high", seconds(run.time.step_p90));
    }
    bars.push_back(std::move(bar));
  }
  times.bars = std::move(bars);
}

}  // namespace

Section beside_section(const Document& plan, const Document& run, const Comparison& comparison) {
  const bool comparable = !comparison.other_hardware;
  Terms terms;
  for (const ComparedTerm& t : comparison.terms) {
    const Unit unit = unit_of(t.unit);
    const bool silent = !t.comparable && t.predicted && t.measured;
    terms.add(t.term, made(exact(t.predicted, unit), unit), made(exact(t.measured, unit), unit),
              silent ? words("not comparable") : made(t.relative_error(), Unit::fraction));
  }
  Section section{fmt::format("{} beside {}", plan.name, run.name),
                  {verdict(*run.run, comparison), tiles(*run.run, comparison)}};
  if (comparable) {
    add_ranges(*run.run, terms.times);
    terms.times.draw("Times of a step",
                     "The error bars are the range of the prediction and the 10th to 90th "
                     "percentile of the measured steps.",
                     section.blocks);
  }
  terms.memory.draw("Memory of one rank",
                    fmt::format("Rank {}, at the moment of its greatest live memory.",
                                run.run->memory.rank),
                    section.blocks);
  section.blocks.push_back(std::move(terms.table));
  return section;
}

// Tables of terms of a comparison: where each is in its file, and what is compared.
static std::vector<std::pair<std::string, std::string>> tables_of(const Document& d) {
  std::vector<std::pair<std::string, std::string>> tables;
  const std::size_t runs = count_at(d, "/runs"), logs = count_at(d, "/logs");
  for (std::size_t i = 0; i < runs; ++i)
    tables.emplace_back(fmt::format("/runs/{}/terms", i),
                        ": " + text_at(d, fmt::format("/runs/{}/run", i)));
  // Without a run, the terms are those of the first log.
  const bool of_run = d.root.find("library") != nullptr || logs == 0;
  if (runs == 0 && of_run && count_at(d, "/terms") > 0) tables.emplace_back("/terms", "");
  for (std::size_t i = 0; i < logs; ++i)
    tables.emplace_back(fmt::format("/logs/{}/terms", i),
                        fmt::format(": {} ({})", text_at(d, fmt::format("/logs/{}/log", i)),
                                    text_at(d, fmt::format("/logs/{}/format", i))));
  return tables;
}

static Unit unit_of(std::string_view term) {
  if (term.starts_with("time.") || term.ends_with(".seconds")) return Unit::seconds;
  if (term.starts_with("throughput.")) return Unit::number;
  return term.ends_with(".count") ? Unit::count : Unit::bytes;
}

Part compare_part(const Document& d) {
  Part part{fmt::format("Comparison {}", d.name), {}};
  if (count_at(d, "/subjects") > 0) part.sections.push_back(subjects_section(d));
  for (const auto& [base, what] : tables_of(d)) {
    Terms terms;
    for (std::size_t i = 0; i < count_at(d, base); ++i) {
      const std::string at_term = fmt::format("{}/{}", base, i);
      const std::string term = text_at(d, at_term + "/term");
      const Unit unit = unit_of(term);
      terms.add(term, cell(d, at_term + "/predicted", unit), cell(d, at_term + "/measured", unit),
                cell(d, at_term + "/relative_error", Unit::fraction));
    }
    Section section{"Predicted beside measured" + what, {}};
    terms.times.draw("Times of a step", "The table has the same figures.", section.blocks);
    terms.memory.draw("Memory of one rank", "The table has the same figures.", section.blocks);
    section.blocks.push_back(std::move(terms.table));
    part.sections.push_back(std::move(section));
  }
  return part;
}

}  // namespace reports::html
