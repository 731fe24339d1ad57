// What follows from playing a plan: its timeline, what it sends beside the laws and beside what
// runs measured, its scaling, and checkpoints every K layers.
#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "reports/html/curves.hpp"
#include "reports/html/plan_sections.hpp"
#include "reports/html/timeline.hpp"

namespace reports::html {
namespace {

using core::Json;
using planner::CommunicationEntry;

// Seconds of each lane by kind; what is left of the step is idle.
PageTable lanes_table(const Timeline& t, std::int64_t end) {
  PageTable table{"Lanes of the timeline",
                  {{"rank and stage", false}, {"stream", false}, {"slices"}, {"busy"}, {"idle"},
                   {"by kind", false}},
                  {}, true};
  for (std::size_t lane = 0; lane < t.lanes.size(); ++lane) {
    std::map<std::string, std::int64_t> kinds;
    std::int64_t busy = 0, slices = 0;
    for (const Slice& s : t.slices) {
      if (s.lane != lane) continue;
      kinds[t.kinds[s.kind]] += s.duration;
      busy += s.duration;
      ++slices;
    }
    std::string by_kind;
    for (const auto& [kind, time] : kinds)
      by_kind += fmt::format("{}{} {}", by_kind.empty() ? "" : ", ", kind,
                             core::to_text(core::Seconds(static_cast<double>(time) * 1e-9)));
    const auto seconds = [](std::int64_t ns) {
      return made(static_cast<double>(ns) * 1e-9, Unit::seconds);
    };
    table.rows.push_back({words(t.lanes[lane].place), words(t.lanes[lane].stream),
                          made(slices, Unit::number), seconds(busy), seconds(end - busy),
                          words(by_kind)});
  }
  return table;
}

// Up to when a chart of at most kMostSlices slices shows the step: all of it where it has no more.
std::int64_t shown_until(const Timeline& t, std::int64_t end) {
  if (t.slices.size() <= kMostSlices) return end;
  std::vector<std::int64_t> starts;
  for (const Slice& s : t.slices) starts.push_back(s.start);
  const auto last = starts.begin() + kMostSlices;
  std::ranges::nth_element(starts, last);
  return std::max<std::int64_t>(*last, 1);
}

Json timeline_json(const Timeline& t, std::int64_t end) {
  Json lanes = Json::array(), slices = Json::array();
  for (const Lane& lane : t.lanes)
    lanes.push_back(Json::array({lane.place, lane.stream}));
  for (const Slice& s : t.slices)
    if (s.start < end)
      slices.push_back(Json::array({s.lane, s.start, s.duration, s.name, s.kind, s.micro_batch,
                                    s.layer}));
  return Json::object({{"lanes", std::move(lanes)},
                       {"names", Json::array_of(t.names)},
                       {"kinds", Json::array_of(t.kinds)},
                       {"end", end},
                       {"slices", std::move(slices)}});
}

// What a rank sends for a payload S in a group of K, where a law says it alone (C1, C4 of
// reports/laws.hpp): `factor` times S. The plan pads; the table shows both.
struct Law {
  std::string_view text = "-";
  std::optional<double> factor{};
};
Law law_of(const CommunicationEntry& e) {
  const double k = e.group_size;
  const bool ring = e.algorithm == "ring";
  if (ring && e.collective == "all_reduce") return {"C4: 2 S (K - 1) / K", 2 * (k - 1) / k};
  if (ring && (e.collective == "reduce_scatter" || e.collective == "all_gather"))
    return {"half of C4: S (K - 1) / K", (k - 1) / k};
  if (e.algorithm == "naive_all_reduce") return {"C1: S (K - 1)", k - 1};
  if (e.algorithm == "parameter_server") return {"C2, C3: S, less what stays on the rank", {}};
  if (e.collective == "send") return {"S", 1};
  return {};
}
Json law_value(const CommunicationEntry& e) {
  const Law law = law_of(e);
  return law.factor ? Json(*law.factor * static_cast<double>(e.payload.value())) : Json();
}

// The entry of a run that measured it, as a cell; "-" where none did.
Cell measured_cell(const std::vector<const Document*>& runs, const planner::Candidate& planned,
                   const CommunicationEntry& e, const char* field, Unit unit) {
  for (const Document* run : runs) {
    if (run->run->candidate.strategy != planned.strategy) continue;
    for (std::size_t i = 0; i < run->run->communication.size(); ++i) {
      const exec::MeasuredCommunication& m = run->run->communication[i];
      if (m.what == e.what && m.collective == e.collective && m.algorithm == e.algorithm &&
          m.group_size == e.group_size)
        return cell(*run, fmt::format("/communication/{}/{}", i, field), unit);
    }
  }
  return words("-");
}

}  // namespace

core::Result<Section> timeline_section(const Document& d, const Progress& progress) {
  progress("timeline of " + d.name);
  Section section{"Timeline of a step", {}};
  const core::Result<Timeline> played = timeline_of(*d.plan);
  if (!played.ok()) {
    section.blocks.push_back(Text{"Not drawn: " + core::to_text(played.problems().front())});
    return section;
  }
  std::int64_t end = 0;
  for (const Slice& s : played->slices) end = std::max(end, s.start + s.duration);
  const auto text = [](std::int64_t ns) {
    return core::to_text(core::Seconds(static_cast<double>(ns) * 1e-9));
  };
  const std::int64_t shown = shown_until(*played, end);
  if (shown < end)
    section.blocks.push_back(Text{fmt::format(
        "The step has too many passes for one chart, which shows its first {}.", text(shown))});
  section.blocks.push_back(Chart{
      "timeline", "The first step of a run",
      fmt::format(
          "The simulated step takes {}. Each of the {} lanes is one stream of one rank; one of "
          "the job's {} ranks stands for each pipeline stage. The lanes show {} {}. Grey is idle "
          "time: the compute stream waits for communication or for another stage. To zoom, hold "
          "Ctrl and turn the wheel, spread two fingers, or move the slider. Keys: + and - zoom, "
          "the arrows move, 0 shows the whole step.",
          text(end), played->lanes.size(), played->ranks,
          core::count_text(static_cast<std::int64_t>(played->slices.size())),
          played->passes ? "passes of the schedule" : "blocks of operations"),
      timeline_json(*played, shown)});
  section.blocks.push_back(lanes_table(*played, end));
  return section;
}

core::Result<Section> communication_section(const Document& d,
                                            const std::vector<const Document*>& runs) {
  const planner::Candidate& c = *d.plan->chosen;
  Section section{"Communication of a step", {}};
  if (c.communication.empty()) {
    section.blocks.push_back(Text{"The recommended plan sends nothing."});
    return section;
  }
  PageTable table{"Communication of the busiest rank: what the law says, what was predicted, what "
                  "was measured",
                  {{"what", false}, {"collective", false}, {"algorithm", false}, {"ranks K"},
                   {"calls"}, {"payload S"}, {"law", false}, {"by the law"}, {"predicted"},
                   {"measured"}, {"busy"}, {"busy, measured"}},
                  {}, true};
  Json bars = Json::array();
  core::Bytes sent{};
  for (std::size_t i = 0; i < c.communication.size(); ++i) {
    const CommunicationEntry& e = c.communication[i];
    const std::string base = fmt::format("/chosen/communication/{}", i);
    const Cell measured = measured_cell(runs, c, e, "wire_bytes_per_rank", Unit::bytes);
    table.rows.push_back(
        {words(e.what), words(e.collective), words(e.algorithm),
         cell(d, base + "/group_size", Unit::number), cell(d, base + "/count", Unit::count),
         cell(d, base + "/payload_bytes", Unit::bytes), words(std::string(law_of(e).text)),
         made(law_value(e), Unit::bytes), cell(d, base + "/wire_bytes_per_rank", Unit::bytes),
         measured, cell(d, base + "/seconds", Unit::seconds),
         measured_cell(runs, c, e, "seconds", Unit::seconds)});
    bars.push_back(Json::object({{"label", e.what + ' ' + e.collective},
                                 {"law", law_value(e)},
                                 {"predicted", e.wire_per_rank.value()},
                                 {"measured", measured.value}}));
    sent += e.wire_per_rank;
  }
  section.blocks.push_back(Chart{
      "communication", "Bytes that the busiest rank sends in a step",
      fmt::format("It sends {} in all. The law is the algorithm's formula; padding makes a rank "
                  "send more.",
                  core::to_text(sent)),
      Json::object({{"bars", std::move(bars)}})});
  section.blocks.push_back(without_empty_columns(std::move(table)));
  return section;
}

core::Result<Section> plan_scaling_section(const Document& d, const Progress& progress) {
  progress("scaling of " + d.name);
  const auto scaling = scaling_curve(*d.plan);
  if (!scaling.ok())
    return Section{"Scaling", {Text{"Not drawn: " + core::to_text(scaling.problems().front())}}};
  Section section = scaling_section(*scaling, nullptr);
  section.blocks.insert(
      section.blocks.begin(),
      Text{"This page simulated the recommended strategy with other numbers of data-parallel "
           "replicas. Each replica does the same work, whatever their number."});
  return section;
}

core::Result<Section> checkpoint_section(const Document& d, const Progress& progress) {
  progress("checkpoints of " + d.name);
  const planner::Plan& plan = *d.plan;
  Section section{"Checkpoints every K layers", {}};
  const auto curve = checkpoint_curve(plan);
  if (!curve.ok()) return curve.problems();
  if (curve->strategy != plan.chosen->strategy)
    section.blocks.push_back(Text{fmt::format(
        "The schedule {} takes no checkpoints, so the figures below are for {}.",
        planner::name(plan.chosen->strategy.schedule), planner::name(curve->strategy.schedule))});
  const bool alone = plan.profile.framework.recomputes_one_in_k;
  PageTable table{fmt::format("The recommended strategy with {}; K = 0 recomputes nothing",
                              alone ? "one layer in K recomputed, as its framework does"
                                    : "a checkpoint every K layers"),
                  {{"K"}, {"activations at their peak"}, {"live"}, {"device"}, {"step"}},
                  {}, true};
  const CheckpointPoint* least = nullptr;
  Json data = Json::array();
  for (const CheckpointPoint& p : curve->points) {
    table.rows.push_back({made(p.every, Unit::number), made(p.activations.value(), Unit::bytes),
                          made(p.live.value(), Unit::bytes), made(p.device.value(), Unit::bytes),
                          made(p.step.value(), Unit::seconds)});
    if (p.every == 0) continue;
    if (least == nullptr || p.device < least->device) least = &p;
    data.push_back(Json::array({p.every, p.device.value(), p.step.value()}));
  }
  if (least == nullptr) {
    section.blocks = {Text{"This job takes no checkpoints of its activations."}};
    return section;
  }
  for (std::vector<Cell>& row : table.rows)
    if (row.front().value.as_int64() == least->every) row.front().strong = true;
  section.blocks.push_back(
      Chart{"checkpoints", "Memory and step against the layers between checkpoints",
            fmt::format("K = {} needs the least memory: {} per GPU, with a step of {}.",
                        least->every, core::to_text(least->device), core::to_text(least->step)),
            Json::object({{"points", std::move(data)},
                          {"least", least->every},
                          {"usable", plan.chosen->memory.usable.value()}})});
  section.blocks.push_back(std::move(table));
  return section;
}

}  // namespace reports::html
