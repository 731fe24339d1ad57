// Pieces that files of several kinds share: memory, time, scaling.
#include <algorithm>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "reports/html/sections.hpp"

namespace reports::html {
namespace {

using core::Json;

constexpr const char* kTimeParts[] = {"compute", "exposed_communication", "bubble", "optimizer"};

Json value_at(const Document& document, const std::string& pointer) {
  const Json* value = at(document.root, pointer);
  return value == nullptr ? Json() : *value;
}

}  // namespace

std::size_t count_at(const Document& d, const std::string& pointer) {
  const Json* list = at(d.root, pointer);
  return list == nullptr ? 0 : list->size();
}

std::string text_at(const Document& d, const std::string& pointer) {
  const Json* value = at(d.root, pointer);
  return value == nullptr ? "-" : shown(*value, Unit::text);
}

Cell memory_part(const Document& document, const std::string& memory, std::string_view part) {
  if (part != "allocator")
    return cell(document, fmt::format("{}/{}", memory, part), Unit::bytes);
  const Json reserved = value_at(document, memory + "/reserved");
  const Json live = value_at(document, memory + "/live");
  const Json waiting = value_at(document, memory + "/waiting");
  const bool known = reserved.is_int64() && live.is_int64();
  const std::int64_t held = waiting.is_int64() ? waiting.as_int64() : 0;
  return known ? made(reserved.as_int64() + held - live.as_int64(), Unit::bytes) : words("-");
}

Json memory_bar(const Document& document, const std::string& memory, std::string label) {
  Json parts = Json::array();
  for (const std::string_view part : kMemoryParts)
    parts.push_back(memory_part(document, memory, part).value);
  return Json::object({{"label", std::move(label)}, {"parts", std::move(parts)}});
}

PageTable memory_table(const Document& document, std::string caption,
                       const std::vector<std::pair<std::string, std::string>>& rows) {
  PageTable table{std::move(caption), {{"of", false}}, {}, true};
  constexpr const char* kColumns[] = {"weights", "gradients",     "optimizer", "activations",
                                      "logits",  "communication", "live",      "reserved",
                                      "workspace", "context",     "communicators", "device"};
  for (const char* column : kColumns) table.columns.push_back({column});
  for (const auto& [label, memory] : rows) {
    std::vector<Cell> cells{words(label)};
    for (const char* column : kColumns)
      cells.push_back(cell(document, memory + '/' + column, Unit::bytes));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

PageTable time_table(const Document& document, std::string caption,
                     const std::vector<std::pair<std::string, std::string>>& rows) {
  PageTable table{std::move(caption), {{"of", false}, {"step"}, {"compute"},
                  {"exposed communication"}, {"bubble"}, {"optimizer"},
                  {"communication, hidden or not"}}, {}, true};
  for (const auto& [label, time] : rows) {
    std::vector<Cell> cells{words(label)};
    for (const char* key : {"step", "compute", "exposed_communication", "bubble", "optimizer",
                            "communication"})
      cells.push_back(cell(document, time + '/' + key, Unit::seconds));
    table.rows.push_back(std::move(cells));
  }
  return table;
}

Json time_bar(const Document& document, const std::string& time, std::string label) {
  Json parts = Json::array();
  for (const char* part : kTimeParts) parts.push_back(value_at(document, time + '/' + part));
  return Json::object({{"label", std::move(label)}, {"parts", std::move(parts)}});
}

PageTable without_empty_columns(PageTable table) {
  for (std::size_t i = table.columns.size(); i-- > 0;) {
    const bool empty = std::ranges::all_of(
        table.rows, [&](const std::vector<Cell>& row) { return row[i].text == "-"; });
    if (!empty || table.rows.empty()) continue;
    const auto at = static_cast<std::ptrdiff_t>(i);
    table.columns.erase(table.columns.begin() + at);
    for (std::vector<Cell>& row : table.rows) row.erase(row.begin() + at);
  }
  return table;
}

Section scaling_section(const std::vector<planner::ScalePoint>& points, const Document* source) {
  Section section{"Scaling", {}};
  PageTable table{"Data-parallel replicas, each with the same work",
                  {{"replicas"}, {"GPUs"}, {"step"}, {"samples/s"}, {"speed-up"}, {"efficiency"}},
                  {}, true};
  Json data = Json::array();
  for (std::size_t i = 0; i < points.size(); ++i) {
    const planner::ScalePoint& p = points[i];
    std::vector<Cell> cells{made(p.copies, Unit::number), made(p.gpus, Unit::number),
                            made(p.time.step.value(), Unit::seconds),
                            made(p.samples_per_second, Unit::number),
                            made(p.speed_up, Unit::number), made(p.efficiency, Unit::fraction)};
    constexpr const char* kFields[] = {"copies", "gpus", "time/step", "samples_per_second",
                                       "speed_up", "efficiency"};
    if (source != nullptr)
      for (std::size_t c = 0; c < cells.size(); ++c)
        cells[c].source = fmt::format("{}/scaling/{}/{}", source->index, i, kFields[c]);
    table.rows.push_back(std::move(cells));
    data.push_back(Json::array({p.gpus, p.samples_per_second, p.efficiency}));
  }
  if (points.empty()) return section;
  const planner::ScalePoint& last = points.back();
  section.blocks.push_back(
      Chart{"scaling", "Samples a second against GPUs",
            fmt::format(
                "{} GPUs process {:.3g} times as many samples a second as {}. That is {:.1f} % of "
                "perfect scaling.",
                last.gpus, last.speed_up / points.front().speed_up, points.front().gpus,
                100 * last.efficiency),
            std::move(data)});
  section.blocks.push_back(std::move(table));
  return section;
}

}  // namespace reports::html
