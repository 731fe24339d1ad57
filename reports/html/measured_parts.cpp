// Files of what happened, or was played: simulate/1, run/1, validate/1.
#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "reports/html/sections.hpp"
#include "reports/text.hpp"

namespace reports::html {
namespace {

using core::Json;

Json bars_of_memory(const Document& d, const std::vector<std::pair<std::string, std::string>>& of) {
  Json bars = Json::array(), names = Json::array();
  for (const auto& [label, memory] : of) bars.push_back(memory_bar(d, memory, label));
  for (const char* part : kMemoryParts) names.push_back(part);
  const Json* usable = at(d.root, "/memory/usable");
  return Json::object({{"names", std::move(names)},
                       {"bars", std::move(bars)},
                       {"usable", usable == nullptr ? Json() : *usable}});
}

Section streams_section(const Document& d) {
  PageTable streams{"Streams of the steady step",
                    {{"rank"}, {"stream", false}, {"busy"}, {"idle"}}, {}, true};
  for (std::size_t i = 0; i < count_at(d, "/streams"); ++i) {
    const std::string base = fmt::format("/streams/{}", i);
    streams.rows.push_back({cell(d, base + "/rank", Unit::number),
                            cell(d, base + "/stream", Unit::text),
                            cell(d, base + "/busy", Unit::seconds),
                            cell(d, base + "/idle", Unit::seconds)});
  }
  PageTable path{"Critical path of the first step", {{"kind", false}, {"time"}}, {}, false};
  for (std::size_t i = 0; i < count_at(d, "/critical_path"); ++i) {
    const std::string base = fmt::format("/critical_path/{}", i);
    path.rows.push_back({cell(d, base + "/kind", Unit::text),
                         cell(d, base + "/seconds", Unit::seconds)});
  }
  return {"Streams and critical path", {std::move(path), std::move(streams)}};
}

std::vector<planner::ScalePoint> scaling_of(const Document& d) {
  std::vector<planner::ScalePoint> points;
  for (std::size_t i = 0; i < count_at(d, "/scaling"); ++i) {
    const auto value = [&](const char* key) {
      const Json* found = at(d.root, fmt::format("/scaling/{}/{}", i, key));
      return found == nullptr || !found->is_number() ? 0.0 : found->as_double();
    };
    planner::ScalePoint p;
    p.copies = static_cast<std::int64_t>(value("copies"));
    p.gpus = static_cast<std::int64_t>(value("gpus"));
    p.time.step = core::Seconds(value("time/step"));
    p.samples_per_second = value("samples_per_second");
    p.speed_up = value("speed_up");
    p.efficiency = value("efficiency");
    points.push_back(p);
  }
  return points;
}

}  // namespace

Part simulate_part(const Document& d) {
  Part part{fmt::format("Simulation {}", d.name), {}};
  const Cell step = cell(d, "/time/step", Unit::seconds);
  Section first{"Step", {}};
  first.blocks.push_back(Text{
      fmt::format("A step takes {} in the simulation, and {} in the plan. The first step, begun at "
                  "rest, takes {}. {} of {} ranks were played.",
                  step.text, cell(d, "/planned_step", Unit::seconds).text,
                  cell(d, "/first_step", Unit::seconds).text,
                  cell(d, "/ranks_played", Unit::count).text,
                  cell(d, "/ranks", Unit::count).text),
      TextKind::lead});
  first.blocks.push_back(
      Chart{"time", "Parts of a step on the critical rank",
            "The table has the same figures.",
            Json::object({{"bars", Json::array({time_bar(d, "/time", "played")})}})});
  first.blocks.push_back(time_table(d, "Parts of the played step", {{"played", "/time"}}));
  part.sections.push_back(std::move(first));
  std::vector<std::pair<std::string, std::string>> stages{{"fullest rank", "/memory"}};
  for (std::size_t i = 0; i < count_at(d, "/memory/stages"); ++i)
    stages.emplace_back(
        fmt::format("stage {}", text_at(d, fmt::format("/memory/stages/{}/stage", i))),
        fmt::format("/memory/stages/{}", i));
  part.sections.push_back(
      {"Memory",
       {Chart{"memory", "Memory of each stage",
              fmt::format("The fullest GPU needs {} of {} usable.",
                          cell(d, "/memory/device", Unit::bytes).text,
                          cell(d, "/memory/usable", Unit::bytes).text),
              bars_of_memory(d, stages)},
        memory_table(d, "Memory by term", stages)}});
  if (d.root.find("link_loads") != nullptr) part.sections.push_back(links_section(d));
  part.sections.push_back(streams_section(d));
  if (count_at(d, "/scaling") > 0)
    part.sections.push_back(scaling_section(scaling_of(d), &d));
  if (d.root.find("variation") != nullptr) part.sections.push_back(variation_section(d));
  if (d.root.find("goodput") != nullptr) part.sections.push_back(goodput_section(d));
  return part;
}

Part run_part(const Document& d) {
  Part part{fmt::format("Run {}: {} on {} ranks", d.name, d.run->model.name, d.run->ranks), {}};
  PageTable facts{"What was run, and on what", {{"what", false}, {"value", false}}, {}, true};
  const auto row = [&](const char* what, const char* pointer, Unit unit) {
    facts.rows.push_back({words(what), cell(d, pointer, unit)});
  };
  row("device", "/device", Unit::text);
  row("backend", "/backend", Unit::text);
  row("communicator", "/communicator", Unit::text);
  row("links are emulated", "/emulated_links", Unit::text);
  row("ranks", "/ranks", Unit::number);
  row("steps", "/steps", Unit::number);
  row("step, median", "/time/step_median", Unit::seconds);
  row("step, 10th percentile", "/time/step_p10", Unit::seconds);
  row("step, 90th percentile", "/time/step_p90", Unit::seconds);
  row("live memory", "/memory/live", Unit::bytes);
  row("device memory", "/memory/device", Unit::bytes);
  for (const auto& [key, value] : d.run->environment)
    facts.rows.push_back({words(key), words(value)});
  part.sections.push_back(
      {"As run",
       {Text{fmt::format("{} steps on {}{}.", d.run->steps, d.run->device,
                         d.run->time.step_median
                             ? fmt::format(", of {} each (median)",
                                           core::to_text(*d.run->time.step_median))
                             : std::string()),
             TextKind::lead},
        Text{"Strategy: " + planner::to_text(d.run->candidate.strategy) + '.'},
        std::move(facts)}});
  if (d.run->loss.empty()) return part;
  PageTable table{"Loss of each step", {{"step"}, {"loss"}}, {}, true};
  Json data = Json::array();
  for (std::size_t i = 0; i < d.run->loss.size(); ++i) {
    table.rows.push_back({made(static_cast<std::int64_t>(i + 1), Unit::number),
                          cell(d, fmt::format("/loss/{}", i), Unit::number)});
    data.push_back(Json::array({static_cast<std::int64_t>(i + 1), d.run->loss[i]}));
  }
  part.sections.push_back(
      {"Loss",
       {Chart{"loss", "Loss of each step",
              fmt::format("From {:.6g} to {:.6g} in {} steps.", d.run->loss.front(),
                          d.run->loss.back(), d.run->loss.size()),
              std::move(data)},
        std::move(table)}});
  return part;
}

Part validate_part(const Document& d) {
  Part part{fmt::format("Validation {}", d.name), {}};
  PageTable scores{"Scores", {{"what", false}, {"value"}}, {}, true};
  const auto row = [&](const char* what, const char* pointer, Unit unit) {
    scores.rows.push_back({words(what), cell(d, pointer, unit)});
  };
  row("published runs", "/rows", Unit::count);
  row("predicted", "/predicted", Unit::count);
  row("time: rows", "/time/rows", Unit::count);
  row("time: mean error", "/time/mape", Unit::fraction);
  row("time: median error", "/time/median_ape", Unit::fraction);
  row("time: 90th percentile", "/time/p90_ape", Unit::fraction);
  row("time: bias", "/time/bias", Unit::fraction);
  row("memory: mean error", "/memory/mape", Unit::fraction);
  row("memory: worst error", "/memory/max_ape", Unit::fraction);
  row("fits or not: rows", "/fit/rows", Unit::count);
  row("fits or not: right", "/fit/correct", Unit::count);
  row("choice: mean regret", "/ranking/mean_regret", Unit::fraction);
  PageTable by{"By data set, framework and GPU",
               {{"data set", false}, {"framework", false}, {"GPU", false}, {"rows"},
                {"mean error"}, {"bias"}},
               {}, true};
  for (std::size_t i = 0; i < count_at(d, "/by"); ++i) {
    const std::string base = fmt::format("/by/{}", i);
    by.rows.push_back({cell(d, base + "/dataset", Unit::text),
                       cell(d, base + "/framework", Unit::text),
                       cell(d, base + "/gpu", Unit::text), cell(d, base + "/rows", Unit::count),
                       cell(d, base + "/mape", Unit::fraction),
                       cell(d, base + "/bias", Unit::fraction)});
  }
  PageTable rows{"Every run", {{"run", false}, {"kind", false}, {"measured"}, {"predicted"},
                 {"relative error"}}, {}, true};
  Json points = Json::array();
  for (std::size_t i = 0; i < count_at(d, "/per_row"); ++i) {
    const std::string base = fmt::format("/per_row/{}", i), kind = text_at(d, base + "/kind");
    const Unit unit = kind == "time"     ? Unit::seconds
                      : kind == "memory" ? Unit::bytes
                                         : Unit::number;
    const Cell id = cell(d, base + "/id", Unit::text);
    const Cell measured = cell(d, base + "/measured", unit);
    const Cell predicted = cell(d, base + "/predicted", unit);
    rows.rows.push_back({id, words(kind), measured, predicted,
                         cell(d, base + "/relative_error", Unit::fraction)});
    if (kind == "time") points.push_back(Json::array({measured.value, predicted.value, id.text}));
  }
  const std::string said = fmt::format(
      "The step was measured in {} runs. The mean error of its prediction is {}, the median {}.",
      cell(d, "/time/rows", Unit::count).text, cell(d, "/time/mape", Unit::fraction).text,
      cell(d, "/time/median_ape", Unit::fraction).text);
  part.sections.push_back({"Published runs, predicted",
                           {Text{said, TextKind::lead},
                            Chart{"validation", "Step predicted against step measured",
                                  "A point on the dotted line is predicted exactly.",
                                  std::move(points)},
                            std::move(scores), std::move(by), std::move(rows)}});
  return part;
}

}  // namespace reports::html
