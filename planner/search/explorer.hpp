#pragma once
// Internal: evaluates the structures of a space for several machines at once: in closed form where
// that describes the strategy, by lowering otherwise. Entries are a few words each; a Strategy is
// made again for the few that are looked at. Not thread-safe.

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/evaluate/closed_form/evaluator.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/preference.hpp"
#include "planner/search/space.hpp"
#include "planner/search/stage_divider.hpp"
#include "planner/stage/graph_options.hpp"
#include "planner/strategy/pins.hpp"
#include "sim/program/program.hpp"

namespace planner {

// The bound and step of a strategy on one machine.
struct Measure {
  core::Bytes device{};                // bound
  core::Seconds step{};
  core::Seconds expected{};            // counted_step
  MemoryRegime regime{};
};

// A candidate that fits by the closed-form bound.
struct Entry : Measure {
  std::uint32_t structure = 0;         // index into structures()
  std::int64_t micro_batch = 1;
};

// The smallest micro-batch of a structure that does not fit, or a strategy that cannot be.
struct Miss {
  std::uint32_t structure = 0;
  std::int64_t micro_batch = 1;
  core::Bytes device{};                // bound; 0: not a matter of memory
  std::string limit, fix;              // where it is none
  core::Bytes host{};                  // limit host_memory: what a node's ranks take of it
};

class Explorer {
 public:
  // questions: the machines; the first is the one asked about, and its counts and misses are kept.
  // All have the same model and job. REQUIRES: fewer than 32.
  // max_risk: of what counts as safe (preference.hpp).
  Explorer(std::vector<Question> questions, double max_risk);
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
  // Whether on each machine something is safe, no slower by more than `slack`, a factor, than
  // whatever needs more memory.
  bool serves_all(double slack) const;
  // The structures, from the smallest micro-batch on that is not safe, which would be faster than
  // whatever is safe on some machine, or might be with larger ones.
  std::vector<Structure> short_of_memory() const;
  // More structures, for all machines.
  void explore_also(std::vector<Structure> structures);
  // More structures, for the machines that are not served so far.
  void explore_more(std::vector<Structure> structures, double slack);

  const std::vector<Entry>& entries(std::size_t machine) const { return entries_[machine]; }
  const std::vector<Miss>& misses() const { return misses_; }
  const SearchCounts& counts() const { return counts_; }
  const std::map<std::string, std::int64_t>& per_limit() const { return per_limit_; }
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
  const models::ModelGraph& graph(const Strategy& strategy);
  void count(const std::optional<Candidate>& replayed);
  void explore(std::uint32_t index);
  // Of a structure under way: whether it was asked what it is, is divided for each micro-batch, and
  // is in closed form.
  struct Prepared {
    bool any = false, divides = false, closed = false;
    const models::ModelGraph* graph = nullptr;
  };
  enum class Verdict : std::uint8_t { holds, rejected, forbidden };
  void divide_and_resolve(Strategy& s, const models::ModelGraph& graph);
  Verdict prepare(std::uint32_t index, Prepared& prepared);
  bool has_problems(std::uint32_t index);
  void enter(std::uint32_t index, std::int64_t micro_batch, std::size_t larger, core::Bytes host,
             const std::vector<closed_form::Figures>& figures);
  MemoryRegime regime_on(std::size_t machine, const Strategy& s) const;
  Measure measured(const Strategy& s, std::size_t machine, MemoryRegime regime,
                   const closed_form::Figures& figures) const;
  void miss(std::uint32_t index, std::int64_t micro_batch, std::size_t larger, core::Bytes host,
            const closed_form::Figures& figures);
  void reject(std::uint32_t index, std::int64_t micro_batch, const core::Problems& problems);
  // What a rank keeps in its host's memory: of the strategy that was evaluated last, in closed form
  // or lowered().
  core::Bytes host_bytes(const Strategy& resolved, bool closed) const;
  bool serves(std::size_t machine, double slack) const;
  core::Seconds fastest_safe(std::size_t machine) const;
  void explore_unserved(std::vector<Structure> structures);
  // Figures of a resolved strategy. closed: the evaluator is prepared for it.
  const std::vector<closed_form::Figures>& figures_of(const Strategy& s, bool closed);
  bool share(std::uint32_t index);
  // Figures of a strategy that the closed form does not describe.
  const std::vector<closed_form::Figures>& lowered(const Strategy& resolved);

  const std::vector<Question> questions_;
  std::vector<std::vector<RiskClasses>> risks_;  // by machine and regime
  closed_form::Evaluator evaluator_;
  StageDivider divider_;               // on the first machine
  std::vector<Structure> structures_;
  const Constraints* constraints_ = nullptr;  // of the explore() under way
  std::vector<std::vector<Entry>> entries_;
  // What memory ruled out: the smallest such micro-batch of each structure, by machine.
  struct Missed {
    std::uint32_t structure = 0;
    std::int64_t micro_batch = 1;
    core::Seconds step{};
  };
  std::vector<std::vector<Missed>> missed_;
  std::vector<Miss> misses_;
  std::vector<MemoryRegime> regimes_;  // by machine, of the structure under way
  // Bits by machine: not to ask at all; the structure's micro-batches overflow from here.
  std::uint32_t served_ = 0, full_ = 0;
  std::optional<program::Program> program_;  // of the micro-batch before, changed in place
  std::vector<closed_form::Figures> figures_;
  const GraphOptionsOf graph_options_;
  std::deque<models::ModelGraph> graphs_;  // a few dozen, told apart by their options
  const models::ModelGraph* latest_ = nullptr;  // asked for
  // stages=auto by structure and micro-batch, where it depends on the latter.
  std::map<std::pair<std::uint32_t, std::int64_t>, std::vector<std::int64_t>> divisions_;
  // Strategy::shares of structures that leave them open.
  std::map<std::pair<std::uint32_t, std::int64_t>, std::vector<std::int64_t>> shares_;
  SearchCounts counts_;
  std::map<std::string, std::int64_t> per_limit_;
  std::int64_t* of_memory_ = nullptr;  // in per_limit_
  std::function<void(std::string_view)> progress_;
};

// Whether a bound is certain not to fit: bounds are at most kBoundSlack of the replay.
bool cannot_fit(core::Bytes bound, core::Bytes usable);

}  // namespace planner
