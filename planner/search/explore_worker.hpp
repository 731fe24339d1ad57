#pragma once
// Internal: evaluates structures of a space, one after the other: in closed form where that
// describes the strategy, by lowering otherwise. Several workers share a space, each with
// structures of its own, and what they found is joined by structure. What a worker has prepared
// (graphs, pieces, divisions) serves the structures that come after. Not thread-safe; workers know
// nothing of each other.

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/evaluate/closed_form/evaluator.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/plan/plan.hpp"
#include "planner/search/numbers_of.hpp"
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
  std::uint32_t structure = 0;         // index into the space
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

// What memory ruled out: the smallest such micro-batch of a structure.
struct OutOfMemory {
  std::uint32_t structure = 0;
  std::int64_t micro_batch = 1;
  core::Seconds step{};
};

// What exploring found, by ascending structure.
struct Found {
  explicit Found(std::size_t machines) : entries(machines), missed(machines) {}
  // More of other structures; examples of a limit are kept as if one worker had found all.
  void join(Found&& other);

  std::vector<std::vector<Entry>> entries;       // by machine
  std::vector<std::vector<OutOfMemory>> missed;  // by machine
  std::vector<Miss> misses;            // on the first machine
  // stages=auto by structure and micro-batch, where it depends on the latter.
  NumbersOf divisions;
  // Strategy::shares of structures that leave them open.
  NumbersOf shares;
  SearchCounts counts;
  std::map<std::string, std::int64_t> per_limit;
};

class ExploreWorker {
 public:
  using Risks = std::vector<std::vector<RiskClasses>>;  // by machine and regime

  // questions: the machines; the first is the one asked about, and its counts and misses are kept.
  // Both outlive the worker. REQUIRES: fewer than 32 machines.
  ExploreWorker(const std::vector<Question>& questions, const Risks& risks);
  ExploreWorker(const ExploreWorker&) = delete;
  ExploreWorker& operator=(const ExploreWorker&) = delete;

  // The structure of this index, whose strategy is left at the micro-batch it came to.
  // served: bits of machines that are not asked.
  void explore(std::uint32_t index, Structure& structure, const Constraints& constraints,
               std::uint32_t served);
  // What was found since the last time.
  Found take();

  // One for each set of options; it stays as long as the worker.
  const models::ModelGraph& graph(const Strategy& strategy);
  // resolve(), with stages=auto divided by cost: of one chunk each, or of the two of a V.
  // REQUIRES: strategy_problems are none; the strategy's graph.
  void divide_and_resolve(Strategy& strategy, const models::ModelGraph& graph);
  // Of one resolved strategy on the first machine; nothing where its host's memory is too small.
  std::optional<Measure> measure(const Strategy& resolved);
  // The same by the closed form alone: nothing where it does not describe the strategy.
  std::optional<Measure> foreseen(const Strategy& resolved);

 private:
  // Of a structure under way: whether it was asked what it is, is divided for each micro-batch, and
  // is in closed form.
  struct Prepared {
    bool any = false, divides = false, closed = false;
    const models::ModelGraph* graph = nullptr;
  };
  enum class Verdict : std::uint8_t { holds, rejected, forbidden };
  Verdict prepare(Strategy& s, Prepared& prepared);
  bool has_problems(const Strategy& s);
  void enter(const Strategy& s, std::size_t larger, core::Bytes host,
             const std::vector<closed_form::Figures>& figures);
  MemoryRegime regime_on(std::size_t machine, const Strategy& s) const;
  Measure measured(const Strategy& s, std::size_t machine, MemoryRegime regime,
                   const closed_form::Figures& figures) const;
  void miss(const Strategy& s, std::size_t larger, core::Bytes host,
            const closed_form::Figures& figures);
  void reject(const Strategy& s, const core::Problems& problems);
  // What a rank keeps in its host's memory: of the strategy that was evaluated last, in closed form
  // or lowered().
  core::Bytes host_bytes(const Strategy& resolved, bool closed) const;
  // Figures of a resolved strategy. closed: the evaluator is prepared for it.
  const std::vector<closed_form::Figures>& figures_of(const Strategy& s, bool closed);
  bool share(Strategy& s);
  // Figures of a strategy that the closed form does not describe.
  const std::vector<closed_form::Figures>& lowered(const Strategy& resolved);

  const std::vector<Question>& questions_;
  const Risks& risks_;
  closed_form::Evaluator evaluator_;
  StageDivider divider_;               // on the first machine
  const GraphOptionsOf graph_options_;
  std::deque<models::ModelGraph> graphs_;  // a few dozen, told apart by their options
  const models::ModelGraph* latest_ = nullptr;  // asked for
  Found found_;
  // Of the structure under way.
  const Constraints* constraints_ = nullptr;
  std::uint32_t index_ = 0;
  std::vector<MemoryRegime> regimes_;  // by machine
  std::uint32_t full_ = 0;             // bits of machines that it overflows from here on
  std::optional<program::Program> program_;  // of the micro-batch before, changed in place
  std::vector<closed_form::Figures> figures_;
  std::int64_t* of_memory_ = nullptr;  // in found_.per_limit
};

// Whether a bound is certain not to fit: bounds are at most kBoundSlack of the replay.
bool cannot_fit(core::Bytes bound, core::Bytes usable);

}  // namespace planner
