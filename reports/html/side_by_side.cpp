// Plans and runs beside each other: of the files themselves, or of what `planner compare` wrote.
#include <fmt/format.h>

#include "reports/html/sections.hpp"
#include "reports/subjects_comparison.hpp"

namespace reports::html {
namespace {

using core::Json;

Unit unit_of(FigureUnit unit) {
  switch (unit) {
    case FigureUnit::bytes: return Unit::bytes;
    case FigureUnit::seconds: return Unit::seconds;
    case FigureUnit::count: return Unit::count;
    case FigureUnit::fraction: return Unit::fraction;
    case FigureUnit::number: return Unit::number;
    case FigureUnit::energy: return Unit::energy;
  }
  return Unit::number;
}

// Of each subject the parts of its step, where it has one.
Json bars_of_subjects(const Document& d, std::size_t count) {
  Json bars = Json::array();
  for (std::size_t i = 0; i < count; ++i) {
    const std::string base = fmt::format("/subjects/{}", i);
    Json parts = Json::array();
    for (const char* key : {"compute_seconds", "exposed_communication_seconds", "bubble_seconds",
                            "optimizer_seconds"}) {
      const Json* value = at(d.root, fmt::format("{}/{}", base, key));
      parts.push_back(value == nullptr ? Json() : *value);
    }
    if (!parts.items().front().is_null())
      bars.push_back(Json::object({{"label", cell(d, base + "/label", Unit::text).text},
                                   {"parts", std::move(parts)}}));
  }
  return Json::object({{"bars", std::move(bars)}});
}

}  // namespace

Section subjects_section(const Document& d) {
  const std::size_t count = at(d.root, "/subjects")->size();
  // A figure that nobody knows has no row.
  PageTable table{"Every figure that is known of at least one", {{"figure", false}}, {}, true};
  for (std::size_t i = 0; i < count; ++i)
    table.columns.push_back({cell(d, fmt::format("/subjects/{}/label", i), Unit::text).text});
  const auto row = [&](std::string_view title, std::string_view key, Unit unit) {
    std::vector<Cell> cells{words(std::string(title))};
    bool known = false;
    for (std::size_t i = 0; i < count; ++i) {
      cells.push_back(cell(d, fmt::format("/subjects/{}/{}", i, key), unit));
      known = known || !cells.back().source.empty();
    }
    if (known) table.rows.push_back(std::move(cells));
  };
  row("strategy", "summary", Unit::text);
  row("model", "model", Unit::text);
  row("GPU", "gpu", Unit::text);
  row("GPUs", "gpus", Unit::number);
  row("tokens per sample", "seq_len", Unit::number);
  row("samples per step", "global_batch", Unit::number);
  for (const Figure& figure : figures()) row(figure.title, figure.key, unit_of(figure.unit));
  return {"Side by side",
          {Chart{"time", "Parts of a step, predicted",
                 fmt::format("{} subjects; the table has every figure.", count),
                 bars_of_subjects(d, count)},
           std::move(table)}};
}

Part side_by_side_part(const std::vector<const Document*>& documents) {
  PageTable table{"Plans and runs",
                  {{"file", false}, {"GPU", false}, {"GPUs"}, {"step"}, {"step, measured"},
                   {"memory"}, {"usable"}, {"mfu"}, {"tokens/s"}, {"strategy", false}},
                  {}, true};
  Json bars = Json::array();
  for (const Document* d : documents) {
    const std::string base = d->run ? "/candidate" : "/chosen";
    const planner::Candidate& c = d->run ? d->run->candidate : *d->plan->chosen;
    table.rows.push_back({words(d->name), cell(*d, "/cluster/gpu", Unit::text),
                          cell(*d, "/cluster/gpus", Unit::number),
                          cell(*d, base + "/time/step", Unit::seconds),
                          d->run ? cell(*d, "/time/step_median", Unit::seconds) : words("-"),
                          cell(*d, base + "/memory/device", Unit::bytes),
                          cell(*d, base + "/memory/usable", Unit::bytes),
                          cell(*d, base + "/throughput/mfu", Unit::fraction),
                          cell(*d, base + "/throughput/tokens_per_second", Unit::count),
                          words(planner::to_text(c.strategy))});
    bars.push_back(time_bar(*d, base + "/time", d->name));
  }
  return {"Side by side",
          {{"Plans and runs",
            {Chart{"time", "Parts of a step, predicted",
                   fmt::format("{} plans and runs; the table has the same figures.",
                               documents.size()),
                   Json::object({{"bars", std::move(bars)}})},
             std::move(table)}}}};
}

}  // namespace reports::html
