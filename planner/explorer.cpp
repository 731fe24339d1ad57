#include "planner/explorer.hpp"

#include <algorithm>
#include <set>

#include "core/check.hpp"
#include "planner/lower.hpp"
#include "planner/memory.hpp"
#include "planner/rescale.hpp"
#include "planner/step_time.hpp"
#include "sim/program/bound.hpp"

namespace planner {
namespace {

// Keys whose problems are arithmetic of degrees and batches.
std::string limit_of(const core::Problem& problem) {
  static const std::set<std::string, std::less<>> kDegrees{
      "data", "tensor", "pipeline", "context", "micro_batch", "grad_accum", "stages",
      "shard_group"};
  return kDegrees.contains(problem.where) ? "divisibility" : "not_supported";
}

// Live bytes by class, alike on every machine.
std::vector<core::Bytes> live_bounds(const program::Program& program) {
  std::vector<core::Bytes> live;
  for (const program::RankClass& k : program.classes) live.push_back(program::closed_form_live(k));
  return live;
}

}  // namespace

bool cannot_fit(core::Bytes bound, core::Bytes usable) {
  return static_cast<double>(bound.value()) / 1.02 > static_cast<double>(usable.value());
}

const models::ModelGraph& Explorer::graph(const Strategy& strategy) {
  const auto found = graphs_.find(strategy.tensor);
  if (found != graphs_.end()) return found->second;
  const Question& q = questions_.front();
  core::Result<models::ModelGraph> built =
      models::build_graph(q.model, graph_options(q.job, strategy));
  PLANNER_CHECK(built.ok(), "a strategy without problems has no graph");
  return graphs_.emplace(strategy.tensor, std::move(built).value()).first->second;
}

core::Bytes Explorer::device_bound(const Question& q, const program::Program& program,
                                   const std::vector<core::Bytes>& live) const {
  core::Bytes most{};
  for (std::size_t k = 0; k < live.size(); ++k)
    most = std::max(most, live[k] + overhead_bytes(program, program.classes[k], q.profile));
  return most;
}

void Explorer::reject(const Strategy& strategy, const core::Problems& problems) {
  ++counts_.infeasible;
  const core::Problem& first = problems.front();
  const std::string limit = limit_of(first);
  if (++per_limit_[limit] > 4) return;  // a few examples say enough
  std::string fix = first.fix.empty() ? first.where + ": " + first.expected : first.fix;
  rejections_.push_back({strategy, limit, strategy.workers() + strategy.separate_servers(),
                         questions_.front().gpus, std::move(fix)});
}

void Explorer::time_it(const program::Program& program, const Strategy& resolved,
                       const std::vector<core::Bytes>& bounds) {
  std::vector<std::size_t> fitting;
  std::vector<const cost::Machine*> machines;
  for (std::size_t i = 0; i < bounds.size(); ++i)
    if (bounds[i] > core::Bytes{}) {
      fitting.push_back(i);
      machines.push_back(&questions_[i].machine);
    }
  if (machines.empty()) return;
  const std::vector<Time> times = step_times(program, machines, resolved.schedule);
  for (std::size_t i = 0; i < times.size(); ++i)
    entries_[fitting[i]].push_back({resolved, bounds[fitting[i]], times[i].step});
}

// Micro-batches ascend and memory with them: once a machine overflows, larger ones are skipped
// there, counted for the machine asked about.
void Explorer::explore(const Structure& structure) {
  const Question& first = questions_.front();
  std::vector<bool> full(questions_.size(), false);
  std::optional<program::Program> program;  // of the micro-batch before, changed in place
  for (std::size_t at = 0; at < structure.micro_batches.size(); ++at) {
    if (std::ranges::find(full, false) == full.end()) return;
    const std::int64_t index = static_cast<std::int64_t>(at);
    const Strategy s = with_micro_batch(structure.strategy, structure.micro_batches[at],
                                        first.job.global_batch);
    const core::Problems problems = strategy_problems(first.model, first.job, s, first.gpus);
    if (!problems.empty()) {
      ++counts_.enumerated;
      reject(s, problems);
      continue;
    }
    const Strategy resolved = resolve(first.model, first.job, s);
    if (!program || !rescale(*program, resolved))
      program = lower(graph(resolved), first.job, resolved);
    if (!full[0]) ++counts_.enumerated, ++counts_.evaluated;
    const std::vector<core::Bytes> live = live_bounds(*program);
    std::vector<core::Bytes> bounds(questions_.size());
    for (std::size_t i = 0; i < questions_.size(); ++i) {
      if (full[i]) continue;
      const core::Bytes usable = questions_[i].profile.gpu.usable;
      const core::Bytes bound = device_bound(questions_[i], *program, live);
      full[i] = cannot_fit(bound, usable);
      if (!full[i])
        bounds[i] = bound;
      else if (i == 0)
        overflow(resolved, bound, std::ssize(structure.micro_batches) - 1 - index);
    }
    time_it(*program, resolved, bounds);
  }
}

void Explorer::overflow(const Strategy& resolved, core::Bytes bound, std::int64_t larger) {
  counts_.enumerated += larger;
  counts_.infeasible += 1 + larger;
  per_limit_["memory"] += 1 + larger;
  rejections_.push_back({resolved, "memory", bound.value(),
                         questions_.front().profile.gpu.usable.value(), ""});
}

void Explorer::explore(const std::vector<Structure>& all) {
  for (const Structure& structure : all) explore(structure);
}

Candidate Explorer::candidate(const Strategy& strategy, std::size_t question) {
  ++counts_.replayed;
  return evaluate(questions_[question], graph(strategy), strategy);
}

std::optional<Entry> Explorer::measure(const Strategy& strategy) {
  const Question& q = questions_.front();
  if (!strategy_problems(q.model, q.job, strategy, q.gpus).empty()) return std::nullopt;
  const Strategy resolved = resolve(q.model, q.job, strategy);
  const auto known = std::ranges::find(entries_[0], resolved, &Entry::strategy);
  if (known != entries_[0].end()) return *known;
  const program::Program program = lower(graph(resolved), q.job, resolved);
  ++counts_.evaluated;
  return Entry{resolved, device_bound(q, program, live_bounds(program)),
               step_time(program, q.machine, resolved.schedule).step};
}

}  // namespace planner
