#include "planner/search/explore_worker.hpp"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/check.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/strategy/keys.hpp"
#include "planner/strategy/problems.hpp"
#include "planner/strategy/resolve.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner {
namespace {

constexpr std::string_view kForbid = "--forbid";
constexpr std::int64_t kTold = 4;      // examples of a limit: a few say enough

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

bool is_open(const Strategy& s) {
  const bool divided = s.virtual_stages == 1 || in_v(s.schedule);
  return s.stages.empty() && s.pipeline > 1 && divided && s.partition == Partition::layers;
}

template <class T>
void join_by_structure(std::vector<T>& own, std::vector<T>&& other) {
  const auto count = std::ssize(own);
  std::ranges::move(other, std::back_inserter(own));
  std::ranges::inplace_merge(own, own.begin() + count, {}, &T::structure);
}

}  // namespace

bool cannot_fit(core::Bytes bound, core::Bytes usable) {
  return static_cast<double>(bound.value()) / kBoundSlack > static_cast<double>(usable.value());
}

void Found::join(Found&& other) {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    join_by_structure(entries[i], std::move(other.entries[i]));
    join_by_structure(missed[i], std::move(other.missed[i]));
  }
  join_by_structure(misses, std::move(other.misses));
  std::map<std::string, std::int64_t> told;
  std::erase_if(misses, [&](const Miss& m) {
    const bool of_memory = m.limit.empty() || m.host.value() > 0;  // these are all kept
    return !of_memory && ++told[m.limit] > kTold;
  });
  divisions.join(std::move(other.divisions));
  shares.join(std::move(other.shares));
  counts.enumerated += other.counts.enumerated;
  counts.infeasible += other.counts.infeasible;
  counts.evaluated += other.counts.evaluated;
  for (const auto& [limit, n] : other.per_limit) per_limit[limit] += n;
}

ExploreWorker::ExploreWorker(const std::vector<Question>& questions, const Risks& risks)
    : questions_(questions), risks_(risks), evaluator_(questions_),
      divider_(questions_.front(), evaluator_),
      graph_options_(questions_.front().job, questions_.front().profile.framework),
      found_(questions_.size()), regimes_(questions_.size()) {
  PLANNER_CHECK(questions_.size() < 32, "a bit of full_ for each machine");
}

Found ExploreWorker::take() {
  of_memory_ = nullptr;
  return std::exchange(found_, Found(questions_.size()));
}

const models::ModelGraph& ExploreWorker::graph(const Strategy& strategy) {
  const models::GraphOptions options = graph_options_(strategy);
  if (latest_ != nullptr && latest_->options == options) return *latest_;
  const auto found = std::ranges::find(graphs_, options, &models::ModelGraph::options);
  if (found != graphs_.end()) return *(latest_ = &*found);
  core::Result<models::ModelGraph> built =
      models::build_graph(questions_.front().model, options);
  PLANNER_CHECK(built.ok(), "a strategy without problems has no graph");
  return *(latest_ = &graphs_.emplace_back(std::move(built).value()));
}

void ExploreWorker::divide_and_resolve(Strategy& s, const models::ModelGraph& graph) {
  if (is_open(s)) s.stages = divider_.stages(s, graph);
  resolve_in_place(questions_.front().model, s);
}

// Micro-batches ascend and memory with them: once a machine overflows, larger ones are skipped
// there, counted for the machine asked about.
void ExploreWorker::explore(std::uint32_t index, Structure& structure,
                            const Constraints& constraints, std::uint32_t served) {
  const std::int64_t samples = questions_.front().job.global_batch;
  const std::vector<std::int64_t>& sizes = structure.micro_batches;
  Strategy& s = structure.strategy;
  constraints_ = &constraints;
  index_ = index;
  full_ = served;
  program_.reset();
  Prepared prepared;
  const std::int64_t of_replica = samples / s.data;
  for (std::size_t at = 0; at < sizes.size(); ++at) {
    if (full_ + 1 == 1U << questions_.size()) return;
    s.micro_batch = sizes[at];
    if (structure.shares) s.shares.clear();
    s.grad_accum = s.shares.empty() ? std::max<std::int64_t>(1, of_replica / s.micro_batch)
                                    : std::ranges::max(s.shares);
    // Only the batch differs from the micro-batch before.
    // Layers of several kinds are divided for each micro-batch.
    if (!prepared.any || !schedule_takes(s.schedule, s.pipeline, s.grad_accum) ||
        prepared.divides || s.grad_accum * s.micro_batch * s.data != samples) {
      const Verdict verdict = prepare(s, prepared);
      if (verdict == Verdict::forbidden) return;
      if (verdict == Verdict::rejected) continue;
    }
    if (structure.shares && !(prepared.closed && share(s))) continue;
    const auto& figures = figures_of(s, prepared.closed);
    enter(s, sizes.size() - 1 - at, host_bytes(s, prepared.closed), figures);
  }
}

ExploreWorker::Verdict ExploreWorker::prepare(Strategy& s, Prepared& prepared) {
  std::vector<std::int64_t> before;    // the stages of the micro-batch before
  if (prepared.divides) std::swap(s.stages, before);
  if (has_problems(s)) return Verdict::rejected;
  if (prepared.graph == nullptr) prepared.graph = &graph(s);  // whatever the micro-batch
  const models::ModelGraph& built = *prepared.graph;
  prepared.divides = is_open(s) && divider_.varies(built);
  divide_and_resolve(s, built);
  if (prepared.divides) found_.divisions.add(index_, s.micro_batch, s.stages), program_.reset();
  // A value that `auto` came to may be forbidden too.
  if (const std::string_view key = constraints_->forbids(s); !key.empty()) {
    reject(s, {forbidden_value(key, s)});
    return Verdict::forbidden;
  }
  if (!prepared.closed || s.stages != before) prepared.closed = evaluator_.prepare(s, built);
  for (std::size_t i = 0; i < questions_.size(); ++i) regimes_[i] = regime_on(i, s);
  prepared.any = true;
  return Verdict::holds;
}

// The first few problems of each limit are kept as examples, all are counted.
bool ExploreWorker::has_problems(const Strategy& s) {
  const Question& q = questions_.front();
  const core::Problems problems = strategy_problems(q.model, q.job, s, q.gpus, true);
  if (problems.empty()) return false;
  const auto known = found_.per_limit.find(std::string(limit_of(problems.front())));
  if (known == found_.per_limit.end() || known->second < kTold) {
    reject(s, strategy_problems(q.model, q.job, s, q.gpus));
  } else {
    ++found_.counts.enumerated, ++found_.counts.infeasible;
    ++known->second;
  }
  return true;
}

void ExploreWorker::reject(const Strategy& s, const core::Problems& problems) {
  ++found_.counts.enumerated;
  ++found_.counts.infeasible;
  const core::Problem& first = problems.front();
  const std::string limit(limit_of(first));
  if (++found_.per_limit[limit] > kTold) return;
  found_.misses.push_back({index_, s.micro_batch, core::Bytes{}, limit,
                           first.fix.empty() ? first.where + ": " + first.expected : first.fix});
}

void ExploreWorker::enter(const Strategy& s, std::size_t larger, core::Bytes host,
                          const std::vector<closed_form::Figures>& figures) {
  for (std::size_t i = 0; i < questions_.size(); ++i) {
    if ((full_ >> i & 1U) != 0) continue;
    if (i == 0) ++found_.counts.enumerated, ++found_.counts.evaluated;
    const bool host_full = host_overflows(questions_[i].profile.node, questions_[i].gpus, host);
    if (!host_full && !cannot_fit(figures[i].device, questions_[i].profile.gpu.usable)) {
      found_.entries[i].push_back({measured(s, i, regimes_[i], figures[i]), index_,
                                   s.micro_batch});
      continue;
    }
    full_ |= 1U << i;
    found_.missed[i].push_back({index_, s.micro_batch, figures[i].step});
    if (i == 0) miss(s, larger, host_full ? host : core::Bytes{}, figures[0]);
  }
}

MemoryRegime ExploreWorker::regime_on(std::size_t machine, const Strategy& s) const {
  return memory_regime_of(s, questions_[machine].profile.node.gpus_per_node);
}

Measure ExploreWorker::measured(const Strategy& s, std::size_t machine, MemoryRegime regime,
                                const closed_form::Figures& figures) const {
  const RiskClasses& risks = risks_[machine][static_cast<std::size_t>(regime)];
  const Job& job = questions_[machine].job;
  return {figures.device, figures.step,
          counted_step(job, s, figures.step, risks.probability(figures.device)), regime};
}

// On the machine asked about. Of hosts, what all ranks of a node keep there is told.
void ExploreWorker::miss(const Strategy& s, std::size_t larger, core::Bytes host,
                         const closed_form::Figures& figures) {
  const auto skipped = static_cast<std::int64_t>(larger);
  const bool of_host = host.value() > 0;
  found_.counts.enumerated += skipped;
  found_.counts.infeasible += 1 + skipped;
  if (!of_host) {
    if (of_memory_ == nullptr) of_memory_ = &found_.per_limit["memory"];
    *of_memory_ += 1 + skipped;
    Miss& m = found_.misses.emplace_back();
    m.structure = index_, m.micro_batch = s.micro_batch, m.device = figures.device;
    return;
  }
  found_.per_limit["host_memory"] += 1 + skipped;
  const Question& q = questions_.front();
  found_.misses.push_back({index_, s.micro_batch, {}, "host_memory", "",
                           host * std::min<std::int64_t>(q.profile.node.gpus_per_node, q.gpus)});
}

std::optional<Measure> ExploreWorker::measure(const Strategy& s) {
  const Question& q = questions_.front();
  const bool closed = evaluator_.prepare(s, graph(s));
  program_.reset();
  const auto& figures = figures_of(s, closed);
  if (host_overflows(q.profile.node, q.gpus, host_bytes(s, closed))) return std::nullopt;
  return measured(s, 0, regime_on(0, s), figures.front());
}

std::optional<Measure> ExploreWorker::foreseen(const Strategy& s) {
  if (!evaluator_.prepare(s, graph(s))) return std::nullopt;
  return measured(s, 0, regime_on(0, s), figures_of(s, true).front());
}

}  // namespace planner
