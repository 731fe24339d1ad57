#include "planner/search/explorer.hpp"

#include <algorithm>
#include <atomic>
#include <limits>

#include <fmt/format.h>

#include "core/call.hpp"
#include "core/parallel.hpp"
#include "planner/evaluate/accuracy.hpp"
#include "planner/strategy/resolve.hpp"

namespace planner {
namespace {

constexpr core::Seconds kAnyStep{std::numeric_limits<double>::infinity()};

ExploreWorker::Risks risks_of(const std::vector<Question>& questions, double max_risk) {
  ExploreWorker::Risks all;
  for (const Question& q : questions) {
    std::vector<RiskClasses>& of_machine = all.emplace_back();
    for (std::size_t r = 0; r < kMemoryRegimes; ++r)
      of_machine.emplace_back(q.profile.gpu.usable, max_risk,
                              memory_error_of(q, static_cast<MemoryRegime>(r)));
  }
  return all;
}

}  // namespace

Explorer::Explorer(std::vector<Question> questions, double max_risk, int threads)
    : questions_(std::move(questions)), risks_(risks_of(questions_, max_risk)), threads_(threads),
      worker_(questions_, risks_), found_(questions_.size()) {}

Strategy Explorer::resolved(Strategy s) {
  worker_.divide_and_resolve(s, worker_.graph(s));
  return s;
}

Strategy Explorer::strategy(std::uint32_t structure, std::int64_t micro_batch) const {
  const Question& q = questions_.front();
  Strategy s = with_micro_batch(structures_[structure].strategy, micro_batch, q.job.global_batch);
  if (const auto division = found_.divisions.at(structure, micro_batch))
    s.stages.assign(division->begin(), division->end());
  if (const auto shares = found_.shares.at(structure, micro_batch)) {
    s.shares.assign(shares->begin(), shares->end());
    s.grad_accum = std::ranges::max(s.shares);
  }
  return resolve(q.model, q.job, s);
}

void Explorer::explore(std::vector<Structure> all, const Constraints& constraints) {
  constraints_ = &constraints;
  structures_.clear();
  found_.divisions.clear();
  found_.shares.clear();
  explore_also(std::move(all));
}

core::Seconds Explorer::fastest_safe(std::size_t machine) const {
  core::Seconds least = kAnyStep;
  for (std::size_t i = 0; i < found_.entries[machine].size(); ++i)
    if (is_safe(found_.entries[machine][i], machine))
      least = std::min(least, least_of(machine, i));
  return least;
}

bool Explorer::serves(std::size_t machine, double slack) const {
  const core::Seconds least = fastest_safe(machine);
  if (least >= kAnyStep) return false;
  if (slack >= kAnyStep.value()) return true;
  const auto faster = [&](core::Seconds step) { return slack * step < least; };
  return std::ranges::none_of(found_.missed[machine],
                              [&](const OutOfMemory& m) { return faster(m.step); }) &&
         std::ranges::none_of(found_.entries[machine], [&](const Entry& e) {
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
    std::ranges::for_each(found_.missed[i], consider);
    for (std::size_t k = 0; k < found_.entries[i].size(); ++k) {
      const Entry& e = found_.entries[i][k];
      if (!is_safe(e, i) || e.step < least_of(i, k)) consider(e);
    }
  }
  std::vector<Structure> all;
  for (const auto& [index, micro_batch] : smallest) {
    all.push_back(structures_[index]);
    std::erase_if(all.back().micro_batches,
                  [least = micro_batch](std::int64_t size) { return size < least; });
  }
  return all;
}

std::vector<Structure> Explorer::failed_replays(double slack) const {
  constexpr double kAny = 1e9;         // where nothing is safe at all
  std::map<std::uint32_t, std::vector<std::int64_t>> promised;  // micro-batches by structure
  for (std::size_t k = 0; k < replayed_.entries; ++k) {
    const Entry& e = found_.entries[0][k];
    if (is_safe(e, 0) && std::min(slack, kAny) * e.expected < replayed_.fastest)
      promised[e.structure].push_back(e.micro_batch);
  }
  std::vector<Structure> all;
  for (auto& [index, sizes] : promised) {
    all.push_back(structures_[index]);
    all.back().micro_batches = std::move(sizes);
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

// Structures of one graph belong to one worker, which prepares it once: the largest graphs first,
// each to the worker that has the least.
std::vector<std::vector<std::uint32_t>> Explorer::shared_out(std::size_t first) const {
  // Strategies that one thread evaluates in about the time that others need to prepare what it has:
  // some 50 ms in closed form. Those of other models are lowered, one by one.
  const std::size_t few = models::is_transformer(question().model.family) ? 50'000 : 100;
  std::size_t strategies = 0;
  for (std::size_t i = first; i < structures_.size(); ++i)
    strategies += structures_[i].micro_batches.size();
  const auto threads = static_cast<std::size_t>(threads_ > 0 ? threads_ : core::usable_threads());
  std::vector<std::vector<std::uint32_t>> all(strategies < few ? 1
                                                               : std::min(threads, kMostWorkers));
  struct Group {
    models::GraphOptions options;
    std::size_t strategies = 0;
    std::vector<std::uint32_t> structures;
  };
  std::vector<Group> groups;
  const GraphOptionsOf options_of(question().job, question().profile.framework);
  for (auto i = static_cast<std::uint32_t>(first); i < structures_.size(); ++i) {
    if (all.size() == 1) {
      all.front().push_back(i);
      continue;
    }
    const models::GraphOptions options = options_of(structures_[i].strategy);
    auto own = std::ranges::find(groups, options, &Group::options);
    if (own == groups.end()) own = groups.insert(groups.end(), {options, 0, {}});
    own->strategies += structures_[i].micro_batches.size();
    own->structures.push_back(i);
  }
  std::ranges::stable_sort(groups, std::ranges::greater{}, &Group::strategies);
  std::vector<std::size_t> loads(all.size());
  for (Group& group : groups) {
    const auto least = static_cast<std::size_t>(std::ranges::min_element(loads) - loads.begin());
    loads[least] += group.strategies;
    all[least].insert(all[least].end(), group.structures.begin(), group.structures.end());
  }
  for (std::vector<std::uint32_t>& of_worker : all) std::ranges::sort(of_worker);
  return all;
}

void Explorer::explore_unserved(std::vector<Structure> more) {
  const std::size_t before = structures_.size();
  if (before == 0)
    structures_ = std::move(more);
  else
    std::ranges::move(more, std::back_inserter(structures_));
  const std::vector<std::vector<std::uint32_t>> shares = shared_out(before);
  std::vector<Found> found(shares.size(), Found(questions_.size()));
  std::atomic<std::size_t> done = before;
  core::for_each_index(shares.size(), threads_, [&](std::size_t share) {
    std::optional<ExploreWorker> other;
    ExploreWorker& worker = share == 0 ? worker_ : other.emplace(questions_, risks_);
    constexpr std::size_t kStretch = 1024;  // structures, some tens of milliseconds
    for (std::size_t i = 0; i < shares[share].size(); ++i) {
      core::stop_point();
      const std::uint32_t index = shares[share][i];
      worker.explore(index, structures_[index], *constraints_, served_);
      ++done;
      // The first share is this thread's, as whoever is told expects.
      if (progress_ && share == 0 && i % kStretch == kStretch - 1)
        progress_(fmt::format("evaluated {} of {} structures", done.load(), structures_.size()));
    }
    found[share] = worker.take();
  });
  for (Found& one : found) found_.join(std::move(one));
}

}  // namespace planner
