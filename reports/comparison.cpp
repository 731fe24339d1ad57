#include "reports/comparison.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "planner/strategy/keys.hpp"
#include "reports/comparison_library.hpp"

namespace reports {
namespace {

using exec::MeasuredCommunication;
using exec::MeasuredMemory;
using exec::RunRecord;
using planner::Candidate;
using planner::CommunicationEntry;
using planner::Plan;
using Value = std::optional<double>;

Value value(std::optional<core::Bytes> b) {
  return b ? Value(static_cast<double>(b->value())) : Value();
}
Value value(std::optional<core::Seconds> s) { return s ? Value(s->value()) : Value(); }
Value value(std::optional<std::int64_t> n) {
  return n ? Value(static_cast<double>(*n)) : Value();
}

void add_memory(const planner::MemoryTerms& planned, const MeasuredMemory& run,
                std::vector<ComparedTerm>& terms) {
  const auto add = [&](std::string_view name, core::Bytes predicted,
                       std::optional<core::Bytes> measured) {
    terms.push_back({fmt::format("memory.{}", name), TermUnit::bytes,
                     value(std::optional(predicted)), value(measured)});
  };
  for (std::size_t i = 0; i < run.terms.size(); ++i)
    add(program::name(static_cast<program::Term>(i)), planned.terms[i], run.terms[i]);
  add("live", planned.live, run.live);
  // What only some devices can tell.
  if (run.reserved) add("reserved", planned.reserved, run.reserved);
  if (run.workspace) add("workspace", planned.workspace, run.workspace);
  if (run.context) add("context", planned.context, run.context);
  if (run.communicators) add("communicators", planned.communicators, run.communicators);
  // Shown where there are any; no plan predicts them.
  if (run.message_blocks && *run.message_blocks > core::Bytes(0))
    terms.push_back({.term = "memory.message_blocks", .unit = TermUnit::bytes,
                     .predicted = std::nullopt, .measured = value(run.message_blocks),
                     .assumed = true});
  if (run.device) add("device", planned.device, run.device);
}

// The columns of one communication entry; an entry that is not there has none of them.
struct Totals {
  Value count = 0, payload = 0, wire = 0, seconds = 0;

  void add(const Totals& other) {
    const auto sum = [](Value& into, const Value& more) {
      into = into && more ? Value(*into + *more) : Value();
    };
    sum(count, other.count);
    sum(payload, other.payload);
    sum(wire, other.wire);
    sum(seconds, other.seconds);
  }
};
constexpr Totals kAbsent{std::nullopt, std::nullopt, std::nullopt, std::nullopt};

Totals totals_of(const CommunicationEntry& e) {
  return {value(std::optional(e.count)), value(std::optional(e.payload)),
          value(std::optional(e.wire_per_rank)), value(std::optional(e.seconds))};
}
Totals totals_of(const MeasuredCommunication& e) {
  return {value(e.count), value(e.payload), value(e.wire_per_rank), value(e.seconds)};
}

template <class Entry>
Totals totals(const std::vector<Entry>& entries, std::string_view key) {
  Totals sum;
  bool found = false;
  for (const Entry& e : entries) {
    if (e.what + '.' + e.collective != key) continue;
    sum.add(totals_of(e));
    found = true;
  }
  return found ? sum : kAbsent;
}

// Keys in the plan's order, then those that the run alone has.
std::vector<std::string> entry_keys(const Candidate& planned, const RunRecord& run) {
  std::vector<std::string> keys;
  const auto add = [&](const auto& entries) {
    for (const auto& e : entries) {
      std::string key = e.what + '.' + e.collective;
      if (std::ranges::find(keys, key) == keys.end()) keys.push_back(std::move(key));
    }
  };
  add(planned.communication);
  add(run.communication);
  return keys;
}

void add_communication(const Candidate& planned, const RunRecord& run,
                       std::vector<ComparedTerm>& terms) {
  for (const std::string& key : entry_keys(planned, run)) {
    const Totals p = totals(planned.communication, key);
    const Totals m = totals(run.communication, key);
    const std::string prefix = "communication." + key;
    terms.push_back({prefix + ".count", TermUnit::count, p.count, m.count});
    terms.push_back({prefix + ".payload_bytes", TermUnit::bytes, p.payload, m.payload});
    terms.push_back({prefix + ".wire_bytes_per_rank", TermUnit::bytes, p.wire, m.wire});
    terms.push_back({prefix + ".seconds", TermUnit::seconds, p.seconds, m.seconds});
  }
}

// What NCCL is assumed to run for the entries of a key, or ran. Nothing: it has no such call.
template <class Entry>
std::vector<program::LibraryCalls> library_calls(const std::vector<Entry>& entries,
                                                 std::string_view key) {
  std::vector<program::LibraryCalls> all;
  for (const Entry& e : entries)
    if (e.what + '.' + e.collective == key)
      for (const program::LibraryCalls& c : e.library) program::add_calls(all, c);
  return all;
}

void add_time(const planner::Time& planned, const exec::MeasuredTime& run,
              std::vector<ComparedTerm>& terms) {
  const auto add = [&](std::string_view name, core::Seconds predicted,
                       std::optional<core::Seconds> measured) {
    terms.push_back({fmt::format("time.{}", name), TermUnit::seconds,
                     value(std::optional(predicted)), value(measured)});
  };
  add("step", planned.step, run.step_median);
  add("compute", planned.compute, run.compute);
  add("exposed_communication", planned.exposed_communication, run.exposed_communication);
  add("bubble", planned.bubble, run.bubble);
  add("optimizer", planned.optimizer, run.optimizer);
  add("communication", planned.communication, run.communication);
}

const Candidate* find_candidate(const Plan& plan, const planner::Strategy& strategy) {
  if (plan.chosen && plan.chosen->strategy == strategy) return &*plan.chosen;
  for (const auto* list : {&plan.alternatives, &plan.pareto})
    for (const Candidate& c : *list)
      if (c.strategy == strategy) return &c;
  return nullptr;
}

// "data 4, tensor 2" and "data 8, tensor 1": the keys in which two strategies differ.
struct KeyDifference {
  std::string planned, run;
};
KeyDifference difference(const planner::Strategy& planned, const planner::Strategy& run) {
  KeyDifference d;
  for (const planner::StrategyKey& key : planner::strategy_keys()) {
    const std::string a = value_text(key, planned), b = value_text(key, run);
    if (a == b) continue;
    d.planned += fmt::format("{}{}={}", d.planned.empty() ? "" : " ", key.name, a);
    d.run += fmt::format("{}{}={}", d.run.empty() ? "" : " ", key.name, b);
  }
  return d;
}

// What the plan must hold for the run to be one of it.
struct Question {
  const models::ModelSpec& model;
  const planner::Job& job;
  const planner::Strategy& strategy;
};
Question question_of(const RunRecord& run) {
  if (run.scaled_from)
    return {run.scaled_from->model, run.scaled_from->job, run.scaled_from->strategy};
  return {run.model, run.job, run.candidate.strategy};
}

// The key that tells two models of one name apart is in their texts; the name is enough to say.
void check_same_question(const Plan& plan, const RunRecord& run, std::string_view where,
                         core::Problems& problems) {
  const Question asked = question_of(run);
  const std::string fix = "compare a run with the plan that it was started from";
  const auto expect = [&](bool same, std::string expected, std::string found) {
    if (!same)
      problems.push_back({std::string(where), std::move(expected), std::move(found), fix});
  };
  expect(plan.model == asked.model, fmt::format("a run of {}, as planned", plan.model.name),
         plan.model.name == asked.model.name
             ? std::string("a model of that name with other numbers")
             : asked.model.name);
  expect(plan.job == asked.job, "the job that was planned", "a different job");
  expect(plan.gpus == run.gpus, fmt::format("{} GPUs", plan.gpus), fmt::format("{}", run.gpus));
}

}  // namespace

std::optional<double> ComparedTerm::relative_error() const {
  if (!comparable || !predicted || !measured || *measured == 0) return std::nullopt;
  return (*predicted - *measured) / *measured;
}

EqualTerms equal_terms(const Comparison& comparison) {
  EqualTerms n;
  for (const ComparedTerm& t : comparison.terms) {
    if (t.unit == TermUnit::seconds || t.assumed) continue;
    ++n.all;
    n.equal += t.differs() ? 0 : 1;
  }
  return n;
}

bool ComparedTerm::differs() const {
  if (unit == TermUnit::seconds) return false;
  return predicted != measured;
}

core::Result<Comparison> compare(const Plan& plan, const RunRecord& run,
                                 std::string_view run_name) {
  core::Problems problems;
  check_same_question(plan, run, run_name, problems);
  if (!problems.empty()) return problems;
  const std::string where(run_name);
  if (!plan.chosen)
    return core::Problem{where, "a plan with a chosen strategy", "one that found none feasible",
                         "compare with the plan that the run was started from"};
  const planner::Strategy& strategy = question_of(run).strategy;
  const Candidate* planned = find_candidate(plan, strategy);
  if (planned == nullptr) {
    const KeyDifference d = difference(plan.chosen->strategy, strategy);
    return core::Problem{where + " /candidate/strategy",
                         fmt::format("a strategy of the plan (chosen: {})", d.planned), d.run,
                         "compare a run with the plan that it was started from"};
  }
  if (run.scaled_from) planned = &run.candidate;
  if (planned->memory.rank != run.memory.rank)
    return core::Problem{where + " /memory/rank",
                         fmt::format("memory of rank {}, which the plan names",
                                     planned->memory.rank),
                         fmt::format("rank {}", run.memory.rank), ""};
  Comparison comparison{std::string(run_name), {}, {}, other_hardware(run), {}};
  if (run.scaled_from) comparison.scaled = run.scaled_from->figures;
  add_memory(planned->memory.worst, run.memory, comparison.terms);
  add_communication(*planned, run, comparison.terms);
  for (const std::string& key : entry_keys(*planned, run))
    add_library(key, library_calls(planned->communication, key),
                library_calls(run.communication, key), comparison);
  add_time(planned->time, run.time, comparison.terms);
  for (ComparedTerm& t : comparison.terms)
    t.comparable = t.unit != TermUnit::seconds || !comparison.other_hardware;
  return comparison;
}

}  // namespace reports
