#pragma once
// Internal: evaluates the structures of a space for several machines at once, on several threads
// (explore_worker.hpp). Entries are a few words each; a Strategy is made again for the few that are
// looked at. Not thread-safe; what it finds does not depend on the number of threads.

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/evaluate/evaluate.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/explore_worker.hpp"
#include "planner/search/preference.hpp"
#include "planner/search/space.hpp"
#include "planner/strategy/pins.hpp"

namespace planner {

class Explorer {
 public:
  // questions: the machines; the first is the one asked about, and its counts and misses are kept.
  // All have the same model and job. REQUIRES: fewer than 32.
  // max_risk: of what counts as safe (preference.hpp). threads: as core::for_each_index takes them.
  Explorer(std::vector<Question> questions, double max_risk, int threads = 1);
  Explorer(const Explorer&) = delete;
  Explorer& operator=(const Explorer&) = delete;

  // Structures that come to a forbidden value (an `auto` that resolves to it) are misses.
  // constraints outlives the explorer.
  void explore(std::vector<Structure> structures, const Constraints& constraints);
  // Is told now and then how many structures were evaluated; empty: nobody asks.
  void tell(std::function<void(std::string_view)> progress) { progress_ = std::move(progress); }
  const RiskClasses& risks(std::size_t machine, MemoryRegime regime) const {
    return risks_[machine][static_cast<std::size_t>(regime)];
  }
  // Whether its bound alone says that it is safe, with what the allocator may hold beside what
  // lives (the few percent that replays show).
  bool is_safe(const Entry& e, std::size_t machine) const {
    return kAllocatorSlack * static_cast<double>(e.device.value()) <=
           static_cast<double>(risks(machine, e.regime).safe().value());
  }
  // The fastest on the first machine that is safe by its replay, as a choice counts its step: of
  // what was found so far, nothing that the bounds call safe is taken to be faster.
  void tell_replayed(core::Seconds fastest) {
    replayed_ = {entries(0).size(), fastest};
  }
  // Whether on each machine something is safe, no slower by more than `slack`, a factor, than
  // whatever needs more memory.
  bool serves_all(double slack) const;
  // The structures, from the smallest micro-batch on that is not safe, which would be faster than
  // whatever is safe on some machine, or might be with larger ones.
  std::vector<Structure> short_of_memory() const;
  // Those of which the bounds promised something safe on the first machine that counts as faster by
  // this factor than what replays showed to be (tell_replayed), with those micro-batches.
  std::vector<Structure> failed_replays(double slack) const;
  // More structures, for all machines.
  void explore_also(std::vector<Structure> structures);
  // More structures, for the machines that are not served so far.
  void explore_more(std::vector<Structure> structures, double slack);

  const std::vector<Entry>& entries(std::size_t machine) const { return found_.entries[machine]; }
  const std::vector<Miss>& misses() const { return found_.misses; }
  const SearchCounts& counts() const { return found_.counts; }
  const std::map<std::string, std::int64_t>& per_limit() const { return found_.per_limit; }
  const std::vector<Structure>& structures() const { return structures_; }
  // Everything but the micro-batch.
  const Strategy& structure(std::uint32_t index) const { return structures_[index].strategy; }
  Strategy strategy(std::uint32_t structure, std::int64_t micro_batch) const;  // resolved
  Strategy strategy(const Entry& e) const { return strategy(e.structure, e.micro_batch); }
  const Question& question() const { return questions_.front(); }
  // resolve(), with stages=auto divided by cost: of one chunk each, or of the two of a V.
  // REQUIRES: strategy_problems are none.
  Strategy resolved(Strategy strategy);

  // Everything about one strategy on one machine; replayed. REQUIRES: it can be lowered.
  Candidate candidate(const Strategy& strategy, std::size_t question = 0);
  // The same, where it fits: less work where it does not. Its memory may be an estimate.
  std::optional<Candidate> fitting(const Strategy& strategy, std::size_t question);
  // Of several on the first machine, in their order, on up to `threads` threads (0: all there are);
  // those whose step would be at most `most` of the same index, where there is one. estimates:
  // their memory may be one.
  std::vector<std::optional<Candidate>> fitting(const std::vector<Strategy>& strategies,
                                                int threads, bool estimates,
                                                std::span<const core::Seconds> most = {});
  // With its exact memory on the first machine, where that fits.
  std::optional<Candidate> settled(const Candidate& candidate, int threads);

  // Of one strategy on the first machine, or nothing where it cannot be lowered.
  std::optional<Measure> measure(const Strategy& strategy);
  // What the framework runs (Constraints::limit).
  bool is_within_limits(const Strategy& s) const { return constraints_->is_within_limits(s); }
  // The same by the closed form alone: nothing where it does not describe the strategy, which is
  // resolved.
  std::optional<Measure> foreseen(const Strategy& strategy);

 private:
  // Beyond so many, threads wait for the structures of the largest graph.
  static constexpr std::size_t kMostWorkers = 16;

  void count(const std::optional<Candidate>& replayed);
  bool serves(std::size_t machine, double slack) const;
  core::Seconds fastest_safe(std::size_t machine) const;
  void explore_unserved(std::vector<Structure> structures);
  // The structures from this index on, by worker, each in order.
  std::vector<std::vector<std::uint32_t>> shared_out(std::size_t first) const;

  const std::vector<Question> questions_;
  const ExploreWorker::Risks risks_;   // by machine and regime
  const int threads_;
  ExploreWorker worker_;               // of this thread
  std::vector<Structure> structures_;
  const Constraints* constraints_ = nullptr;  // of the explore() under way
  Found found_;
  struct { std::size_t entries = 0; core::Seconds fastest{}; } replayed_;  // that was told
  // Of an entry by its index, at least.
  core::Seconds least_of(std::size_t machine, std::size_t i) const {
    const core::Seconds step = found_.entries[machine][i].step;
    return machine == 0 && i < replayed_.entries ? std::max(step, replayed_.fastest) : step;
  }
  std::uint32_t served_ = 0;           // bits of machines that are not asked at all
  std::function<void(std::string_view)> progress_;
};

}  // namespace planner
