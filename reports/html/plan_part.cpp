// A plan as a part of a page: the answer, the candidates, their memory and time, and what was
// assumed. What follows from playing it is in plan_play.cpp.
#include <algorithm>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "reports/explanation.hpp"
#include "reports/html/plan_sections.hpp"
#include "reports/plan_text.hpp"
#include "reports/sensitivity.hpp"

namespace reports::html {
namespace {

using core::Json;
using planner::Candidate;
using planner::Plan;

std::string_view counted_in(const Plan& plan) {
  return models::is_transformer(plan.model.family) ? "tokens" : "samples";
}

std::string gpus_text(const Plan& plan) {
  return fmt::format("{} x {}", plan.gpus, plan.profile.gpu.id);
}

// The three sentences: what to do, what it gives, what it needs and what comes next.
std::vector<Block> answer(const Plan& plan) {
  if (!plan.chosen) return {Text{"No answer: " + why_infeasible(plan) + '.', true}};
  const Candidate& c = *plan.chosen;
  std::vector<Block> blocks;
  blocks.push_back(Text{fmt::format("Train {} on {} with {}.", plan.model.name, gpus_text(plan),
                                    planner::to_text(c.strategy)),
                        true});
  std::string gives = fmt::format(
      "A step of {} samples takes {} ({} to {}), which is {} {} a second at {} of the GPUs' peak",
      plan.job.global_batch, core::to_text(c.time.step), core::to_text(c.uncertainty.step_low),
      core::to_text(c.uncertainty.step_high),
      core::count_text(static_cast<std::int64_t>(c.throughput.tokens_per_second)),
      counted_in(plan), percent_text(c.throughput.mfu));
  if (plan.training)
    gives += fmt::format("; {} tokens take {}",
                         core::count_text(plan.training->tokens),
                         core::to_text(plan.training->seconds));
  blocks.push_back(Text{gives + '.'});
  std::string needs =
      fmt::format("It needs {} of {} usable memory on each GPU",
                  core::to_text(c.memory.worst.device), core::to_text(c.memory.usable));
  if (!plan.alternatives.empty()) {
    const Candidate& next = plan.alternatives.front();
    needs += fmt::format("; the nearest alternative, with {}, takes {:+.1f} %",
                         changed_keys(c.strategy, next.strategy),
                         100 * (next.time.step / c.time.step - 1));
  }
  blocks.push_back(Text{needs + '.'});
  return blocks;
}

PageTable question_table(const Document& d) {
  PageTable table{"What was asked", {{"what", false}, {"value", false}}, {}, true};
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
  row("rent, USD", "/training/cost_usd", Unit::number);
  row("energy, joules", "/training/energy_joules", Unit::number);
  return table;
}

void add_candidate(const Document& d, const CandidateRow& row, PageTable& table, Json& points) {
  const std::string& base = row.pointer;
  std::vector<Cell> cells{words(row.label),
                          cell(d, base + "/time/step", Unit::seconds),
                          cell(d, base + "/uncertainty/step_low", Unit::seconds),
                          cell(d, base + "/uncertainty/step_high", Unit::seconds),
                          cell(d, base + "/memory/device", Unit::bytes),
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
                                 {"front", row.on_front}}));
}

Section candidates_section(const Document& d, const std::vector<CandidateRow>& rows) {
  PageTable table{"Candidates",
                  {{"#", false}, {"step"}, {"low"}, {"high"}, {"memory"}, {"mfu"},
                   {"tokens/s"}, {"on the front", false}, {"strategy", false}},
                  {}, false};
  Json points = Json::array();
  std::size_t front = 0;
  for (const CandidateRow& row : rows) {
    add_candidate(d, row, table, points);
    if (row.on_front) ++front;
  }
  Json data = Json::object({{"points", std::move(points)},
                            {"usable", d.plan->chosen->memory.usable.value()}});
  return {"Candidates",
          {Chart{"candidates", "Step time against memory per GPU",
                 fmt::format("{} candidates; {} are on the Pareto front: nothing else is both "
                             "faster and smaller. The recommended one takes {} and {}.",
                             rows.size(), front, core::to_text(rows.front().candidate->time.step),
                             core::to_text(rows.front().candidate->memory.worst.device)),
                 std::move(data)},
           std::move(table)}};
}

Section memory_section(const Document& d, const std::vector<CandidateRow>& rows) {
  const Candidate& c = *d.plan->chosen;
  Section section{"Memory per GPU", {}};
  const auto add = [&](std::string title, std::string words_, auto labels_and_pointers) {
    Json bars = Json::array();
    for (const auto& [label, memory] : labels_and_pointers)
      bars.push_back(memory_bar(d, memory, label));
    Json names = Json::array();
    for (const char* part : kMemoryParts) names.push_back(part);
    section.blocks.push_back(Chart{"memory", title, std::move(words_),
                                   Json::object({{"names", std::move(names)},
                                                 {"bars", std::move(bars)},
                                                 {"usable", c.memory.usable.value()}})});
    section.blocks.push_back(memory_table(d, title + ", in bytes by term", labels_and_pointers));
  };
  std::vector<std::pair<std::string, std::string>> candidates, stages;
  for (const CandidateRow& row : rows) candidates.emplace_back(row.label, row.pointer + "/memory");
  for (std::size_t i = 0; i < c.memory.stages.size(); ++i)
    stages.emplace_back(fmt::format("stage {}", c.memory.stages[i].stage),
                        fmt::format("/chosen/memory/stages/{}", i));
  const std::string limit = fmt::format(
      "The card's limit is {}; the recommended candidate takes {}.",
      core::to_text(c.memory.usable), core::to_text(c.memory.worst.device));
  add("Memory of each candidate's fullest GPU", limit, candidates);
  if (stages.size() > 1) add("Memory of each stage of the recommended candidate", limit, stages);
  return section;
}

Section time_section(const Document& d, const std::vector<CandidateRow>& rows) {
  std::vector<std::pair<std::string, std::string>> labels;
  Json bars = Json::array();
  for (const CandidateRow& row : rows) {
    labels.emplace_back(row.label, row.pointer + "/time");
    bars.push_back(time_bar(d, row.pointer + "/time", row.label));
  }
  const planner::Time& t = d.plan->chosen->time;
  return {"Time of a step",
          {Chart{"time", "Parts of a step on the critical rank",
                 fmt::format("Of {} a step of the recommended candidate computes {}, waits for "
                             "communication {} and idles in the pipeline {}.",
                             core::to_text(t.step), core::to_text(t.compute),
                             core::to_text(t.exposed_communication), core::to_text(t.bubble)),
                 Json::object({{"bars", std::move(bars)}})},
           time_table(d, "Parts of a step", labels)}};
}

Section machines_section(const Document& d) {
  PageTable table{"The same job on other machines",
                  {{"GPU", false}, {"step"}, {"mfu"}, {"memory"}, {"usable"}, {"strategy", false}},
                  {}, false};
  Json bars = Json::array();
  for (std::size_t i = 0; i < d.plan->other_machines.size(); ++i) {
    const planner::OtherMachine& m = d.plan->other_machines[i];
    const std::string base = fmt::format("/other_machines/{}", i);
    table.rows.push_back({cell(d, base + "/gpu", Unit::text),
                          cell(d, base + "/step_seconds", Unit::seconds),
                          cell(d, base + "/candidate/throughput/mfu", Unit::fraction),
                          cell(d, base + "/candidate/memory/device", Unit::bytes),
                          cell(d, base + "/candidate/memory/usable", Unit::bytes),
                          words(m.candidate ? planner::to_text(m.candidate->strategy)
                                            : std::string("no feasible strategy"))});
    if (m.candidate) bars.push_back(time_bar(d, base + "/candidate/time", m.gpu));
  }
  return {"Other machines",
          {Chart{"time", "A step on each machine", "The table below says the same.",
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

Section assumptions_section(const Document& d) {
  const Plan& plan = *d.plan;
  Section section{"Assumptions and sources", {Bullets{plan.assumptions}}};
  if (plan.chosen)
    if (const std::vector<std::string> changes = what_would_change(plan); !changes.empty()) {
      section.blocks.push_back(Text{"What would change the choice:"});
      section.blocks.push_back(Bullets{changes});
    }
  section.blocks.push_back(sources_table());
  if (plan.rules_of_thumb.empty()) return section;
  PageTable table{"Rules of thumb, for comparison only",
                  {{"rule", false}, {"formula", false}, {"value"}, {"unit", false},
                   {"source", false}},
                  {}, false};
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

Section rejected_section(const Document& d) {
  PageTable table{"Rejected: the most instructive",
                  {{"limit", false}, {"needed"}, {"available"}, {"fix", false},
                   {"strategy", false}},
                  {}, false};
  for (std::size_t i = 0; i < d.plan->rejected.size(); ++i) {
    const planner::Rejection& r = d.plan->rejected[i];
    const std::string base = fmt::format("/rejected/{}", i);
    const bool bytes = r.limit == "memory" || r.limit == "host_memory";
    const Unit unit = bytes ? Unit::bytes : Unit::count;
    table.rows.push_back({words(r.limit), cell(d, base + "/needed", unit),
                          cell(d, base + "/available", unit), words(r.fix),
                          words(planner::to_text(r.strategy))});
  }
  PageTable counts{"The search", {{"what", false}, {"count"}}, {}, false};
  for (const char* key : {"enumerated", "infeasible", "evaluated", "replayed"})
    counts.rows.push_back({words(key), cell(d, fmt::format("/search/{}", key), Unit::count)});
  for (const auto& [limit, count] : d.plan->rejected_per_limit)
    counts.rows.push_back({words("rejected: " + limit), made(count, Unit::count)});
  Section section{"Search and rejections", {std::move(counts)}};
  if (!table.rows.empty()) section.blocks.push_back(std::move(table));
  return section;
}

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
  add(plan.pareto, "front", "/pareto");
  return rows;
}

core::Result<Part> plan_part(const Document& d, const std::vector<const Document*>& runs,
                             const Progress& progress) {
  const Plan& plan = *d.plan;
  Part part{fmt::format("Plan {}: {} on {}", d.name, plan.model.name, gpus_text(plan)), {}};
  Section first{"Recommendation", answer(plan)};
  first.blocks.push_back(question_table(d));
  part.sections.push_back(std::move(first));
  if (plan.chosen) {
    const std::vector<CandidateRow> rows = candidate_rows(plan);
    part.sections.push_back(candidates_section(d, rows));
    part.sections.push_back(memory_section(d, rows));
    part.sections.push_back(time_section(d, rows));
    core::Result<std::vector<Section>> played = played_sections(d, runs, progress);
    if (!played.ok()) return played.problems();
    for (Section& section : *played) part.sections.push_back(std::move(section));
  }
  if (!plan.other_machines.empty()) part.sections.push_back(machines_section(d));
  part.sections.push_back(assumptions_section(d));
  part.sections.push_back(rejected_section(d));
  return part;
}

}  // namespace reports::html
