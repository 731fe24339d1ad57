// A sweep/1 file: its table, and the fastest step or the throughput as a map over two axes.
#include <set>

#include <fmt/format.h>

#include "reports/html/sections.hpp"

namespace reports::html {
namespace {

using core::Json;

std::string text_of(const Document& d, const std::string& pointer) {
  const Json* value = at(d.root, pointer);
  return value == nullptr ? "-" : shown(*value, Unit::number);
}

PageTable sweep_table(const Document& d, std::size_t points) {
  PageTable table{"Every point: the best strategy of each",
                  {{"GPU", false}, {"GPUs"}, {"tokens per sample"}, {"samples per step"}, {"step"},
                   {"tokens/s"}, {"mfu"}, {"memory"}, {"usable"}, {"time to train"},
                   {"GPU hours"}, {"USD"}, {"energy"}, {"strategy or reason", false}},
                  {}, true};
  for (std::size_t i = 0; i < points; ++i) {
    const std::string base = fmt::format("/points/{}", i);
    table.rows.push_back({cell(d, base + "/gpu", Unit::text), cell(d, base + "/gpus", Unit::number),
                          cell(d, base + "/seq_len", Unit::number),
                          cell(d, base + "/global_batch", Unit::number),
                          cell(d, base + "/step_seconds", Unit::seconds),
                          cell(d, base + "/tokens_per_second", Unit::count),
                          cell(d, base + "/mfu", Unit::fraction),
                          cell(d, base + "/device_bytes", Unit::bytes),
                          cell(d, base + "/usable_bytes", Unit::bytes),
                          cell(d, base + "/training_seconds", Unit::seconds),
                          cell(d, base + "/gpu_hours", Unit::number),
                          cell(d, base + "/cost_usd", Unit::money),
                          cell(d, base + "/energy_joules", Unit::energy),
                          cell(d, base + "/summary", Unit::text)});
  }
  return table;
}

}  // namespace

Part sweep_part(const Document& d) {
  const Json* points = at(d.root, "/points");
  const std::size_t n = points == nullptr ? 0 : points->size();
  Part part{fmt::format("Sweep {}", d.name), {}};
  Json cells = Json::array();
  std::set<std::string> across, down;
  std::size_t feasible = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::string base = fmt::format("/points/{}", i);
    const std::string x = text_of(d, base + "/gpus") + " x " + text_of(d, base + "/gpu");
    const std::string y = fmt::format("{} x {} tokens", text_of(d, base + "/global_batch"),
                                      text_of(d, base + "/seq_len"));
    const Json* tokens = at(d.root, base + "/tokens_per_second");
    across.insert(x);
    down.insert(y);
    if (tokens != nullptr && tokens->is_number()) ++feasible;
    cells.push_back(Json::object({{"x", x}, {"y", y},
                                  {"value", tokens == nullptr ? Json() : *tokens}}));
  }
  Section section{"Sweep", {}};
  if (const std::string said = text_at(d, "/said"); said != "-")
    section.blocks.push_back(Text{said, TextKind::lead});
  section.blocks.push_back(
      Chart{"heat", "Tokens a second of the best strategy",
            fmt::format("{} points, {} by {}. A strategy fits at {} of them.", n, across.size(),
                        down.size(), feasible),
            std::move(cells)});
  section.blocks.push_back(without_empty_columns(sweep_table(d, n)));
  part.sections.push_back(std::move(section));
  return part;
}

}  // namespace reports::html
