// A plan as a part of a page: its sections and their order. The answer is in answer.cpp, what
// follows from playing the plan in plan_play.cpp.
#include <algorithm>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "reports/explanation.hpp"
#include "reports/html/plan_sections.hpp"
#include "reports/sensitivity.hpp"

namespace reports::html {
namespace {

using core::Json;
using planner::Candidate;
using planner::Plan;

// What the sections of a plan are made from.
struct Context {
  const Document& d;
  const std::vector<const Document*>& runs;
  const Progress& progress;
  const std::vector<CandidateRow> rows;  // empty: nothing was chosen
};

core::Result<Section> question_section(const Context& context) {
  const Document& d = context.d;
  PageTable table{"The job and the machine", {{"what", false}, {"value", false}}, {}, true};
  const auto row = [&](const char* what, const char* pointer, Unit unit) {
    table.rows.push_back({words(what), cell(d, pointer, unit)});
  };
  row("model", "/model/name", Unit::text);
  row("parameters", "/model/parameters", Unit::count);
  row("layers", "/model/layers", Unit::number);
  row("GPU", "/cluster/gpu", Unit::text);
  row("GPUs", "/cluster/gpus", Unit::number);
  row("GPUs per node", "/cluster/gpus_per_node", Unit::number);
  row("usable memory per GPU", "/cluster/usable_bytes", Unit::bytes);
  row("mode", "/job/mode", Unit::text);
  row("tokens per sample", "/job/seq_len", Unit::number);
  row("samples per step", "/job/global_batch", Unit::number);
  row("recipe", "/job/recipe", Unit::text);
  row("precision", "/job/precision", Unit::text);
  row("optimizer", "/job/optimizer", Unit::text);
  row("attention", "/job/attention", Unit::text);
  row("framework", "/job/framework", Unit::text);
  row("tokens to train on", "/training/tokens", Unit::count);
  row("time to train", "/training/seconds", Unit::seconds);
  row("GPU hours", "/training/gpu_hours", Unit::number);
  row("rent, USD", "/training/cost_usd", Unit::money);
  row("energy", "/training/energy_joules", Unit::energy);
  return Section{"What was asked", {Text{question_text(*d.plan) + '.'}, std::move(table)}};
}

void add_candidate(const Document& d, const CandidateRow& row, PageTable& table, Json& points) {
  const std::string& base = row.pointer;
  std::vector<Cell> cells{words(row.label),
                          cell(d, base + "/time/step", Unit::seconds),
                          cell(d, base + "/uncertainty/step_low", Unit::seconds),
                          cell(d, base + "/uncertainty/step_high", Unit::seconds),
                          cell(d, base + "/memory/device", Unit::bytes),
                          cell(d, base + "/uncertainty/out_of_memory", Unit::fraction),
                          cell(d, base + "/throughput/mfu", Unit::fraction),
                          cell(d, base + "/throughput/tokens_per_second", Unit::count),
                          words(row.on_front ? "yes" : "no"),
                          words(planner::to_text(row.candidate->strategy))};
  if (base == "/chosen") cells.front().strong = cells.back().strong = true;
  table.rows.push_back(std::move(cells));
  points.push_back(Json::object({{"label", row.label},
                                 {"strategy", planner::to_text(row.candidate->strategy)},
                                 {"step", row.candidate->time.step.value()},
                                 {"low", row.candidate->uncertainty.step_low.value()},
                                 {"high", row.candidate->uncertainty.step_high.value()},
                                 {"device", row.candidate->memory.worst.device.value()},
                                 {"risk", row.candidate->uncertainty.out_of_memory},
                                 {"front", row.on_front}}));
}

// What a chart says of a candidate beside its label: in what it differs from the recommended one.
Json named(Json bar, const Plan& plan, const CandidateRow& row) {
  constexpr std::size_t kMostKeys = 1;
  if (row.pointer != "/chosen")
    bar.set("differs", changed_keys(plan.chosen->strategy, row.candidate->strategy, kMostKeys));
  return bar;
}

// Charts leave out what is kept for the Pareto front alone: a strategy that takes seven times as
// long would squeeze the others. The tables have every candidate.
constexpr const char* kDrawn =
    "The chart has the recommended plan and its alternatives; the table has every candidate.";

// A chart of the bars, and a table with a row for each label, of the memory at its pointer.
void add_memory(const Document& d, const std::string& title, const char* also, Json bars,
                const std::vector<std::pair<std::string, std::string>>& rows, Section& section) {
  const core::Bytes usable = d.plan->chosen->memory.usable;
  Json names = Json::array();
  for (const char* part : kMemoryParts) names.push_back(part);
  section.blocks.push_back(Chart{
      "memory", title,
      fmt::format("A GPU has {} of usable memory. {}", core::to_text(usable), also),
      Json::object({{"names", std::move(names)},
                    {"bars", std::move(bars)},
                    {"usable", usable.value()}})});
  section.blocks.push_back(memory_table(d, title + ", part by part", rows));
}

core::Result<Section> candidates_section(const Context& context) {
  const auto& [d, runs, progress, rows] = context;
  PageTable table{"Candidates",
                  {{"candidate", false}, {"step"}, {"low"}, {"high"}, {"memory"}, {"risk"},
                   {"mfu"}, {"tokens/s"}, {"on the front", false}, {"strategy", false}},
                  {}, true};
  Json points = Json::array();
  std::size_t front = 0;
  for (const CandidateRow& row : rows) {
    add_candidate(d, row, table, points);
    if (row.on_front) ++front;
  }
  Json data = Json::object({{"points", std::move(points)},
                            {"usable", d.plan->chosen->memory.usable.value()}});
  Section section{
      "Candidates",
      {Chart{"candidates", "Step time against memory per GPU",
             fmt::format("The plan keeps {} candidates. {} are on the Pareto front: no other "
                         "candidate is both faster and smaller. A step of the recommended plan "
                         "takes {} and needs {} per GPU. The axis of steps is logarithmic where "
                         "they differ widely.",
                         rows.size(), front, core::to_text(rows.front().candidate->time.step),
                         core::to_text(rows.front().candidate->memory.worst.device)),
             std::move(data)},
       std::move(table)}};
  std::vector<std::pair<std::string, std::string>> memory;
  Json bars = Json::array();
  for (const CandidateRow& row : rows) {
    const auto& [label, pointer] = memory.emplace_back(row.label, row.pointer + "/memory");
    if (!row.front_only) bars.push_back(named(memory_bar(d, pointer, label), *d.plan, row));
  }
  add_memory(d, "Memory of each candidate's fullest GPU", kDrawn, std::move(bars), memory, section);
  return section;
}

core::Result<Section> memory_section(const Context& context) {
  const Document& d = context.d;
  Section section{"Memory per GPU", {memory_of_choice(d)}};
  std::vector<std::pair<std::string, std::string>> stages;
  for (const planner::StageMemory& s : d.plan->chosen->memory.stages)
    stages.emplace_back(fmt::format("stage {}", s.stage),
                        fmt::format("/chosen/memory/stages/{}", stages.size()));
  if (stages.size() <= 1) return section;
  Json bars = Json::array();
  for (const auto& [label, pointer] : stages) bars.push_back(memory_bar(d, pointer, label));
  add_memory(d, "Memory of each pipeline stage", "Every stage has to fit.", std::move(bars), stages,
             section);
  return section;
}

core::Result<Section> time_section(const Context& context) {
  const auto& [d, runs, progress, rows] = context;
  std::vector<std::pair<std::string, std::string>> labels;
  Json bars = Json::array();
  for (const CandidateRow& row : rows) {
    labels.emplace_back(row.label, row.pointer + "/time");
    if (!row.front_only)
      bars.push_back(named(time_bar(d, row.pointer + "/time", row.label), *d.plan, row));
  }
  const planner::Time& t = d.plan->chosen->time;
  return Section{
      "Time of a step",
      {Chart{"time", "Parts of a step on the critical rank",
             fmt::format("A step of the recommended plan takes {}. Its critical rank computes for "
                         "{}, waits for communication for {}, idles in the pipeline for {} and "
                         "updates the weights for {}. {}",
                         core::to_text(t.step), core::to_text(t.compute),
                         core::to_text(t.exposed_communication), core::to_text(t.bubble),
                         core::to_text(t.optimizer), kDrawn),
             Json::object({{"bars", std::move(bars)}})},
       time_table(d, "Parts of a step", labels)}};
}

core::Result<Section> machines_section(const Context& context) {
  const Document& d = context.d;
  if (d.plan->other_machines.empty()) return Section{};
  PageTable table{"Each machine's best strategy",
                  {{"GPU", false}, {"step"}, {"mfu"}, {"memory"}, {"usable"}, {"risk"},
                   {"strategy", false}},
                  {}, true};
  Json bars = Json::array();
  for (std::size_t i = 0; i < d.plan->other_machines.size(); ++i) {
    const planner::OtherMachine& m = d.plan->other_machines[i];
    const std::string base = fmt::format("/other_machines/{}", i);
    table.rows.push_back({cell(d, base + "/gpu", Unit::text),
                          cell(d, base + "/step_seconds", Unit::seconds),
                          cell(d, base + "/candidate/throughput/mfu", Unit::fraction),
                          cell(d, base + "/candidate/memory/device", Unit::bytes),
                          cell(d, base + "/candidate/memory/usable", Unit::bytes),
                          cell(d, base + "/candidate/uncertainty/out_of_memory", Unit::fraction),
                          words(m.candidate ? planner::to_text(m.candidate->strategy)
                                            : std::string("no feasible strategy"))});
    if (m.candidate) bars.push_back(time_bar(d, base + "/candidate/time", m.gpu));
  }
  return Section{"The same job on other machines",
                 {Chart{"time", "A step on each machine", "The table has the same figures.",
                        Json::object({{"bars", std::move(bars)}})},
                  std::move(table)}};
}

core::Result<Section> frameworks_section(const Context& context) {
  const Document& d = context.d;
  if (d.plan->other_frameworks.empty()) return Section{};
  PageTable table{"Each framework's best strategy",
                  {{"framework", false}, {"step"}, {"mfu"}, {"memory"}, {"risk"},
                   {"strategy", false}},
                  {}, true};
  Json bars = Json::array();
  for (std::size_t i = 0; i < d.plan->other_frameworks.size(); ++i) {
    const planner::OtherFramework& f = d.plan->other_frameworks[i];
    const std::string base = fmt::format("/other_frameworks/{}", i);
    table.rows.push_back({cell(d, base + "/framework", Unit::text),
                          cell(d, base + "/candidate/time/step", Unit::seconds),
                          cell(d, base + "/candidate/throughput/mfu", Unit::fraction),
                          cell(d, base + "/candidate/memory/device", Unit::bytes),
                          cell(d, base + "/candidate/uncertainty/out_of_memory", Unit::fraction),
                          words(f.candidate ? planner::to_text(f.candidate->strategy)
                                            : std::string("no strategy that it runs fits"))});
    if (f.candidate) bars.push_back(time_bar(d, base + "/candidate/time", f.framework));
  }
  const char* title = "The same job in other frameworks";
  if (bars.items().empty())
    return Section{title, {Text{"No strategy fits in these frameworks either."}, std::move(table)}};
  return Section{title,
                 {Chart{"time", "A step in each framework",
                        fmt::format("The plan itself is for the framework {}.",
                                    d.plan->job.framework),
                        Json::object({{"bars", std::move(bars)}})},
                  std::move(table)}};
}

// How each field follows, and who says so: the formulas that `planner explain` works out.
PageTable sources_table() {
  PageTable table{"How each number follows, and its source",
                  {{"field", false}, {"formula", false}, {"source", false}}, {}, true};
  for (const Formula& f : formulas())
    table.rows.push_back({words(std::string(f.field)), words(std::string(f.formula)),
                          words(std::string(f.source))});
  return table;
}

core::Result<Section> changes_section(const Context& context) {
  const std::vector<std::string> changes = what_would_change(*context.d.plan);
  if (changes.empty()) return Section{};
  return Section{"What would change the choice", {Bullets{changes}}};
}

core::Result<Section> assumptions_section(const Context& context) {
  const Document& d = context.d;
  const Plan& plan = *d.plan;
  Section section{"Assumptions and sources", {Bullets{plan.assumptions}, sources_table()}};
  if (plan.rules_of_thumb.empty()) return section;
  PageTable table{"Rules of thumb, for comparison only",
                  {{"rule", false}, {"formula", false}, {"value"}, {"unit", false},
                   {"source", false}},
                  {}, true};
  for (std::size_t i = 0; i < plan.rules_of_thumb.size(); ++i) {
    const planner::RuleOfThumb& r = plan.rules_of_thumb[i];
    const std::string base = fmt::format("/rules_of_thumb/{}", i);
    const bool bytes = r.unit == "B";
    table.rows.push_back({words(r.name), words(r.formula),
                          cell(d, base + "/value", bytes ? Unit::bytes : Unit::number),
                          words(r.unit), words(r.source)});
  }
  section.blocks.push_back(std::move(table));
  return section;
}

core::Result<Section> rejected_section(const Context& context) {
  const Document& d = context.d;
  PageTable table{"Some of the rejected strategies, and what would mend them",
                  {{"limit", false}, {"needed"}, {"available"}, {"fix", false},
                   {"strategy", false}},
                  {}, true};
  for (std::size_t i = 0; i < d.plan->rejected.size(); ++i) {
    const planner::Rejection& r = d.plan->rejected[i];
    const std::string base = fmt::format("/rejected/{}", i);
    const bool bytes = r.limit == "memory" || r.limit == "host_memory";
    const Unit unit = bytes ? Unit::bytes : Unit::count;
    table.rows.push_back({words(r.limit), cell(d, base + "/needed", unit),
                          cell(d, base + "/available", unit), words(r.fix),
                          words(planner::to_text(r.strategy))});
  }
  PageTable counts{"How many strategies the search considered",
                   {{"what", false}, {"count"}}, {}, true};
  for (const char* key : {"enumerated", "infeasible", "evaluated", "replayed"})
    counts.rows.push_back({words(key), cell(d, fmt::format("/search/{}", key), Unit::count)});
  for (const auto& [limit, count] : d.plan->rejected_per_limit)
    counts.rows.push_back({words("rejected: " + limit), made(count, Unit::count)});
  const planner::SearchCounts& n = d.plan->search;
  Section section{"Search and rejections",
                  {Text{fmt::format("The search considered {} strategies. It rejected {}, which "
                                    "break a rule or do not fit, and worked out the time and the "
                                    "memory of {}.",
                                    core::count_text(n.enumerated),
                                    core::count_text(n.infeasible),
                                    core::count_text(n.evaluated))},
                   std::move(counts)}};
  if (!table.rows.empty()) section.blocks.push_back(std::move(table));
  return section;
}

// The sections after the answer, in their order. One that has nothing to say has no blocks.
struct SectionMaker {
  core::Result<Section> (*make)(const Context&);
  bool of_choice;  // says something about the chosen candidate: left out where there is none
  bool in_summary = false;
};
constexpr SectionMaker kSections[] = {
    {memory_section, true, true},
    {[](const Context& c) { return timeline_section(c.d, c.progress); }, true},
    {[](const Context& c) { return splits_section(*c.d.plan); }, true},
    {changes_section, true},
    {time_section, true, true},
    {candidates_section, true, true},
    {[](const Context& c) { return core::Result<Section>(robust_section(c.d)); }, true, true},
    {[](const Context& c) { return communication_section(c.d, c.runs); }, true},
    {[](const Context& c) { return plan_scaling_section(c.d, c.progress); }, true},
    {[](const Context& c) { return checkpoint_section(c.d, c.progress); }, true},
    {machines_section, false, true},
    {frameworks_section, false, true},
    {question_section, false, true},
    {assumptions_section, false, true},
    {rejected_section, false},
    {[](const Context& c) { return core::Result<Section>(words_section(*c.d.plan)); }, true},
};

}  // namespace

std::vector<CandidateRow> candidate_rows(const Plan& plan) {
  std::vector<CandidateRow> rows;
  if (!plan.chosen) return rows;
  const auto on_front = [&](const Candidate& c) {
    return std::ranges::any_of(plan.pareto,
                               [&](const Candidate& p) { return p.strategy == c.strategy; });
  };
  rows.push_back({"recommended", "/chosen", &*plan.chosen, on_front(*plan.chosen)});
  const auto add = [&](const std::vector<Candidate>& list, const char* label, const char* pointer) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      const bool there = std::ranges::any_of(
          rows, [&](const CandidateRow& r) { return r.candidate->strategy == list[i].strategy; });
      if (!there)
        rows.push_back({fmt::format("{} {}", label, i + 1), fmt::format("{}/{}", pointer, i),
                        &list[i], on_front(list[i])});
    }
  };
  add(plan.alternatives, "alternative", "/alternatives");
  const std::size_t drawn = rows.size();
  add(plan.pareto, "front", "/pareto");
  for (std::size_t i = drawn; i < rows.size(); ++i) rows[i].front_only = true;
  return rows;
}

core::Result<Part> plan_part(const Document& d, const std::vector<const Document*>& runs,
                             const Progress& progress, Extent extent) {
  const Plan& plan = *d.plan;
  Part part{fmt::format("Plan {}: {} on {}", d.name, plan.model.name, machine_text(plan)), {}};
  part.sections.push_back(answer_section(d));
  const Context context{d, runs, progress, candidate_rows(plan)};
  for (const SectionMaker& maker : kSections) {
    if (maker.of_choice && !plan.chosen) continue;
    if (extent == Extent::summary && !maker.in_summary) continue;
    core::Result<Section> section = maker.make(context);
    if (!section.ok()) return section.problems();
    if (!section->blocks.empty()) part.sections.push_back(std::move(section).value());
  }
  return part;
}

}  // namespace reports::html
