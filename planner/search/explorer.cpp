#include "planner/search/explorer.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include <fmt/format.h>

#include "core/call.hpp"
#include "core/check.hpp"
#include "core/parallel.hpp"
#include "planner/evaluate/communicators.hpp"
#include "planner/evaluate/accuracy.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/evaluate/step_time.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/lowering/rescale.hpp"
#include "planner/search/space.hpp"
#include "planner/strategy/keys.hpp"
#include "planner/strategy/schedules.hpp"
#include "sim/program/bound.hpp"
#include "sim/program/replay.hpp"

namespace planner {
namespace {

constexpr std::string_view kForbid = "--forbid";
constexpr std::int64_t kTold = 4;      // examples of a limit: a few say enough
constexpr core::Seconds kAnyStep{std::numeric_limits<double>::infinity()};

core::Problem forbidden_value(std::string_view key, const Strategy& resolved) {
  const std::string text = fmt::format("{}={}", key, value_text(*find_strategy_key(key), resolved));
  return {std::string(kForbid), "a strategy without " + text, text, "leave out forbid " + text};
}

// Keys whose problems are arithmetic of degrees and batches have a limit of their own.
std::string_view limit_of(const core::Problem& problem) {
  static const std::set<std::string, std::less<>> kDegrees{
      "data",  "tensor",      "pipeline",   "context", "expert",
      "split", "micro_batch", "grad_accum", "shares",  "stages",  "shard_group"};
  if (problem.where == kForbid) return "pins";
  return kDegrees.contains(problem.where) ? "divisibility" : "not_supported";
}

}  // namespace

bool cannot_fit(core::Bytes bound, core::Bytes usable) {
  return static_cast<double>(bound.value()) / kBoundSlack > static_cast<double>(usable.value());
}

Explorer::Explorer(std::vector<Question> questions, double max_risk)
    : questions_(std::move(questions)),
      evaluator_(questions_),
      divider_(questions_.front(), evaluator_),
      entries_(questions_.size()),
      missed_(questions_.size()),
      regimes_(questions_.size()),
      graph_options_(questions_.front().job, questions_.front().profile.framework) {
  PLANNER_CHECK(questions_.size() < 32, "a bit of served_ and full_ for each machine");
  for (const Question& q : questions_) {
    std::vector<RiskClasses>& of_machine = risks_.emplace_back();
    for (std::size_t r = 0; r < kMemoryRegimes; ++r)
      of_machine.emplace_back(q.profile.gpu.usable, max_risk,
                              memory_error_of(q, static_cast<MemoryRegime>(r)));
  }
}

const models::ModelGraph& Explorer::graph(const Strategy& strategy) {
  const models::GraphOptions options = graph_options_(strategy);
  if (latest_ != nullptr && latest_->options == options) return *latest_;
  const auto found = std::ranges::find(graphs_, options, &models::ModelGraph::options);
  if (found != graphs_.end()) return *(latest_ = &*found);
  core::Result<models::ModelGraph> built =
      models::build_graph(questions_.front().model, options);
  PLANNER_CHECK(built.ok(), "a strategy without problems has no graph");
  return *(latest_ = &graphs_.emplace_back(std::move(built).value()));
}

static bool is_open(const Strategy& s) {
  const bool divided = s.virtual_stages == 1 || in_v(s.schedule);
  return s.stages.empty() && s.pipeline > 1 && divided && s.partition == Partition::layers;
}

void Explorer::divide_and_resolve(Strategy& s, const models::ModelGraph& graph) {
  if (is_open(s)) s.stages = divider_.stages(s, graph);
  resolve_in_place(questions_.front().model, s);
}

Strategy Explorer::resolved(Strategy s) {
  divide_and_resolve(s, graph(s));
  return s;
}

Strategy Explorer::strategy(std::uint32_t structure, std::int64_t micro_batch) const {
  const Question& q = questions_.front();
  Strategy s = with_micro_batch(structures_[structure].strategy, micro_batch, q.job.global_batch);
  const auto division = divisions_.find({structure, micro_batch});
  if (division != divisions_.end()) s.stages = division->second;
  if (const auto share = shares_.find({structure, micro_batch}); share != shares_.end()) {
    s.shares = share->second;
    s.grad_accum = std::ranges::max(s.shares);
  }
  return resolve(q.model, q.job, s);
}

void Explorer::reject(std::uint32_t index, std::int64_t micro_batch,
                      const core::Problems& problems) {
  ++counts_.enumerated;
  ++counts_.infeasible;
  const core::Problem& first = problems.front();
  const std::string limit(limit_of(first));
  if (++per_limit_[limit] > kTold) return;
  misses_.push_back({index, micro_batch, core::Bytes{}, limit,
                     first.fix.empty() ? first.where + ": " + first.expected : first.fix});
}

core::Bytes Explorer::host_bytes(const Strategy& resolved, bool closed) const {
  if (resolved.offload.empty()) return {};
  if (closed) return evaluator_.host_bytes();
  core::Bytes most{};
  for (const program::RankClass& k : program_->classes)
    most = std::max(most, program::host_bytes(k));
  return most;
}

// Micro-batches ascend and memory with them: once a machine overflows, larger ones are skipped
// there, counted for the machine asked about.
void Explorer::explore(std::uint32_t index) {
  const std::int64_t samples = questions_.front().job.global_batch;
  const std::vector<std::int64_t>& sizes = structures_[index].micro_batches;
  Strategy& s = structures_[index].strategy;
  full_ = served_;
  program_.reset();
  Prepared prepared;
  const std::int64_t of_replica = samples / s.data;
  for (std::size_t at = 0; at < sizes.size(); ++at) {
    if (full_ + 1 == 1U << questions_.size()) return;
    s.micro_batch = sizes[at];
    if (structures_[index].shares) s.shares.clear();
    s.grad_accum = s.shares.empty() ? std::max<std::int64_t>(1, of_replica / s.micro_batch)
                                    : std::ranges::max(s.shares);
    // Only the batch differs from the micro-batch before.
    // Layers of several kinds are divided for each micro-batch.
    if (!prepared.any || !schedule_takes(s.schedule, s.pipeline, s.grad_accum) ||
        prepared.divides || s.grad_accum * s.micro_batch * s.data != samples) {
      const Verdict verdict = prepare(index, prepared);
      if (verdict == Verdict::forbidden) return;
      if (verdict == Verdict::rejected) continue;
    }
    if (structures_[index].shares && !(prepared.closed && share(index))) continue;
    const auto& figures = figures_of(s, prepared.closed);
    enter(index, sizes[at], sizes.size() - 1 - at, host_bytes(s, prepared.closed), figures);
  }
}

Explorer::Verdict Explorer::prepare(std::uint32_t index, Prepared& prepared) {
  Strategy& s = structures_[index].strategy;
  std::vector<std::int64_t> before;    // the stages of the micro-batch before
  if (prepared.divides) std::swap(s.stages, before);
  if (has_problems(index)) return Verdict::rejected;
  if (prepared.graph == nullptr) prepared.graph = &graph(s);  // whatever the micro-batch
  const models::ModelGraph& built = *prepared.graph;
  prepared.divides = is_open(s) && divider_.varies(built);
  divide_and_resolve(s, built);
  if (prepared.divides) divisions_[{index, s.micro_batch}] = s.stages, program_.reset();
  // A value that `auto` came to may be forbidden too.
  if (const std::string_view key = constraints_->forbids(s); !key.empty()) {
    reject(index, s.micro_batch, {forbidden_value(key, s)});
    return Verdict::forbidden;
  }
  if (!prepared.closed || s.stages != before) prepared.closed = evaluator_.prepare(s, built);
  for (std::size_t i = 0; i < questions_.size(); ++i) regimes_[i] = regime_on(i, s);
  prepared.any = true;
  return Verdict::holds;
}

// A few problems of a limit are told, the others counted.
bool Explorer::has_problems(std::uint32_t index) {
  const Question& q = questions_.front();
  const Strategy& s = structures_[index].strategy;
  const core::Problems problems = strategy_problems(q.model, q.job, s, q.gpus, true);
  if (problems.empty()) return false;
  const auto known = per_limit_.find(std::string(limit_of(problems.front())));
  if (known == per_limit_.end() || known->second < kTold) {
    reject(index, s.micro_batch, strategy_problems(q.model, q.job, s, q.gpus));
  } else {
    ++counts_.enumerated, ++counts_.infeasible;
    ++known->second;
  }
  return true;
}

void Explorer::enter(std::uint32_t index, std::int64_t micro_batch, std::size_t larger,
                     core::Bytes host, const std::vector<closed_form::Figures>& figures) {
  for (std::size_t i = 0; i < questions_.size(); ++i) {
    if ((full_ >> i & 1U) != 0) continue;
    if (i == 0) ++counts_.enumerated, ++counts_.evaluated;
    const bool host_full = host_overflows(questions_[i].profile.node, questions_[i].gpus, host);
    if (!host_full && !cannot_fit(figures[i].device, questions_[i].profile.gpu.usable)) {
      entries_[i].push_back(
          {measured(structures_[index].strategy, i, regimes_[i], figures[i]), index, micro_batch});
      continue;
    }
    full_ |= 1U << i;
    missed_[i].push_back({index, micro_batch, figures[i].step});
    if (i == 0)
      miss(index, micro_batch, larger, host_full ? host : core::Bytes{}, figures[0]);
  }
}

MemoryRegime Explorer::regime_on(std::size_t machine, const Strategy& s) const {
  return memory_regime_of(s, questions_[machine].profile.node.gpus_per_node);
}

Measure Explorer::measured(const Strategy& s, std::size_t machine, MemoryRegime regime,
                           const closed_form::Figures& figures) const {
  const double risk = risks(machine, regime).probability(figures.device);
  const Job& job = questions_[machine].job;
  return {figures.device, figures.step, counted_step(job, s, figures.step, risk), regime};
}

// On the machine asked about. Of hosts, what all ranks of a node keep there is told.
void Explorer::miss(std::uint32_t index, std::int64_t micro_batch, std::size_t larger,
                    core::Bytes host, const closed_form::Figures& figures) {
  const auto skipped = static_cast<std::int64_t>(larger);
  const bool of_host = host.value() > 0;
  counts_.enumerated += skipped;
  counts_.infeasible += 1 + skipped;
  if (!of_host) {
    if (of_memory_ == nullptr) of_memory_ = &per_limit_["memory"];
    *of_memory_ += 1 + skipped;
    Miss& m = misses_.emplace_back();
    m.structure = index, m.micro_batch = micro_batch, m.device = figures.device;
    return;
  }
  per_limit_["host_memory"] += 1 + skipped;
  const Question& q = questions_.front();
  misses_.push_back({index, micro_batch, {}, "host_memory", "",
                     host * std::min<std::int64_t>(q.profile.node.gpus_per_node, q.gpus)});
}

void Explorer::explore(std::vector<Structure> all, const Constraints& constraints) {
  constraints_ = &constraints;
  structures_.clear();
  divisions_.clear();
  shares_.clear();
  explore_also(std::move(all));
}

core::Seconds Explorer::fastest_safe(std::size_t machine) const {
  core::Seconds least = kAnyStep;
  for (const Entry& e : entries_[machine])
    if (is_safe(e, machine)) least = std::min(least, e.step);
  return least;
}

bool Explorer::serves(std::size_t machine, double slack) const {
  const core::Seconds least = fastest_safe(machine);
  if (least >= kAnyStep) return false;
  if (slack >= kAnyStep.value()) return true;
  const auto faster = [&](core::Seconds step) { return slack * step < least; };
  return std::ranges::none_of(missed_[machine], [&](const Missed& m) { return faster(m.step); }) &&
         std::ranges::none_of(entries_[machine], [&](const Entry& e) {
           return !is_safe(e, machine) && faster(e.step);
         });
}

std::vector<Structure> Explorer::short_of_memory() const {
  constexpr double kLargerGain = 1.25;   // of a larger micro-batch: fuller kernels
  std::map<std::uint32_t, std::int64_t> smallest;  // by structure
  for (std::size_t i = 0; i < questions_.size(); ++i) {
    const core::Seconds most = kLargerGain * fastest_safe(i);
    const auto consider = [&](const auto& unsafe) {
      if (unsafe.step > most) return;
      const auto [known, is_new] = smallest.emplace(unsafe.structure, unsafe.micro_batch);
      known->second = std::min(known->second, unsafe.micro_batch);
    };
    std::ranges::for_each(missed_[i], consider);
    for (const Entry& e : entries_[i])
      if (!is_safe(e, i)) consider(e);
  }
  std::vector<Structure> all;
  for (const auto& [index, micro_batch] : smallest) {
    all.push_back(structures_[index]);
    std::erase_if(all.back().micro_batches,
                  [least = micro_batch](std::int64_t size) { return size < least; });
  }
  return all;
}

bool Explorer::serves_all(double slack) const {
  for (std::size_t i = 0; i < questions_.size(); ++i)
    if (!serves(i, slack)) return false;
  return true;
}

void Explorer::explore_more(std::vector<Structure> more, double slack) {
  served_ = 0;
  for (std::size_t i = 0; i < questions_.size(); ++i) served_ |= serves(i, slack) ? 1U << i : 0;
  explore_unserved(std::move(more));
}

void Explorer::explore_also(std::vector<Structure> more) {
  served_ = 0;
  explore_unserved(std::move(more));
}

void Explorer::explore_unserved(std::vector<Structure> more) {
  const std::size_t before = structures_.size();
  if (before == 0)
    structures_ = std::move(more);
  else
    std::ranges::move(more, std::back_inserter(structures_));
  constexpr std::size_t kStretch = 1024;  // structures, some tens of milliseconds
  for (std::size_t i = before; i < structures_.size(); ++i) {
    core::stop_point();
    if (progress_ && i % kStretch == kStretch - 1)
      progress_(fmt::format("evaluated {} of {} structures", i + 1, structures_.size()));
    explore(static_cast<std::uint32_t>(i));
  }
}

}  // namespace planner
