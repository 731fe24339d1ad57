#pragma once
// Internal: what layers, embeddings and head cost on a machine, and the pipeline boundaries that
// follow (stages.hpp), for `stages=auto`. Costs are those of the lowered actions: the pieces of the
// closed form, where it describes the strategy, else read from probes of its own, once for each way
// to build the graph, of a transformer from two layers of each kind. What recomputation adds is
// composed. Not thread-safe.
//
// A stage's time is that of a micro-batch where layers are equal; of unequal ones that of a step:
// the micro-batches' and the update of its parameters, which may be another layer's affair.
//
// Of equal layers, all stages between the first and the last are held to the memory of the second,
// which keeps the most micro-batches of them: the closed form describes what follows.

#include <array>
#include <bit>
#include <map>
#include <optional>
#include <tuple>
#include <type_traits>
#include <unordered_map>
#include <vector>

#include "models/graph.hpp"
#include "planner/evaluate/closed_form/evaluator.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/search/stage_costs.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

class StageDivider {
 public:
  // The question and the evaluator, whose pieces tell costs where it has some, outlive the divider.
  StageDivider(const Question& question, closed_form::Evaluator& evaluator);

  // Layers per stage: the fastest division that fits the memory, as the loads estimate it; the
  // fastest of all where none does (what is printed is replayed). One for all micro-batches where
  // layers are alike; else one for each. Of a V its chunks, by their time alone; empty where some
  // rank has one layer: resolve() divides them. REQUIRES: strategy_problems are none; a graph for
  // each set of options, which outlives the divider.
  std::vector<std::int64_t> stages(const Strategy& strategy, const models::ModelGraph& graph);

  // Whether the division depends on the micro-batch.
  bool varies(const models::ModelGraph& graph) const {
    return graph.templates.size() > 1 || !kinds_.empty();
  }

 private:
  // Of keys that are tuples of numbers, pointers and what is as large.
  struct HashOfKey {
    template <class... T>
    std::size_t operator()(const std::tuple<T...>& key) const {
      return static_cast<std::size_t>(number(key));
    }
    static std::uint64_t mixed(std::uint64_t hash, std::uint64_t part) {
      return ((hash ^ part) * 0x9e3779b97f4a7c15ULL) ^ (hash >> 29);
    }
    template <class T>
    static std::uint64_t number(const T& part) {
      if constexpr (std::is_pointer_v<T>) return std::bit_cast<std::uintptr_t>(part);
      else return static_cast<std::uint64_t>(part);
    }
    static std::uint64_t number(const WithinLayer& of) {
      return static_cast<std::uint64_t>(of.checkpoint) << 32 | of.modules;
    }
    template <class... T>
    static std::uint64_t number(const std::tuple<T...>& part) {
      std::uint64_t hash = 0;
      std::apply([&](const T&... parts) { ((hash = mixed(hash, number(parts))), ...); }, part);
      return hash;
    }
  };
  // The graph, what layers make again by themselves, micro-batch, chunks of the loss; how rows
  // travel to experts, and how many micro-batches a probe needs.
  using CostsKey = std::tuple<const models::ModelGraph*, WithinLayer, std::int64_t, std::int64_t,
                              ExpertDispatch, std::int64_t>;
  // With recomputation, the number of stages, and of a stage's chunks; micro-batches and shards as
  // far as times follow them.
  using FastestKey = std::tuple<CostsKey, Checkpoint, std::int64_t, std::int64_t, std::int64_t,
                                std::int64_t, std::int64_t>;

  void add_state(const StageCosts& costs, const Strategy& s, StageLoads& loads) const;
  StageLimits limits_of(const Strategy& s, bool equal);
  void add_casts(const StageCosts& costs, const Strategy& s, StageLoads& loads) const;
  void add_update(const StageCosts& costs, const Strategy& s, StageLoads& loads) const;
  // Of each stage, on GPUs of several kinds: how much longer its kind takes for the layers.
  std::vector<StagePace> paces(const CostsKey& key, const Strategy& s,
                               const models::ModelGraph& graph);

  StageCosts costs(const Strategy& s, const models::ModelGraph& graph, const CostsKey& key);

  const Question* question_;
  closed_form::Evaluator* evaluator_;
  std::vector<Question> kinds_;        // of GPUs; empty: all are alike
  std::map<CostsKey, std::vector<double>> slowness_;  // by kind
  double weight_ = 0, compute_ = 0, gradient_ = 0, slots_ = 0;  // bytes of an element
  std::unordered_map<CostsKey, StageCosts, HashOfKey> costs_;
  std::map<CostsKey, std::vector<StageProbe>> probes_;  // by template, at any micro-batch (0)
  std::unordered_map<FastestKey, std::vector<std::int64_t>, HashOfKey> fastest_;
  std::map<std::int64_t, std::vector<std::int64_t>> latest_;  // of so many stages
  // The memory of a GPU that is left for a stage, for the degrees that were asked about last.
  using Degrees = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                             std::int64_t, std::int64_t, std::int64_t, std::int64_t,
                             std::array<Degree, 4>>;
  std::optional<Degrees> degrees_;
  std::int64_t bytes_ = 0;
  // By schedule, ranks, chunks and micro-batches.
  using ScheduleShape = std::tuple<Schedule, std::int64_t, std::int64_t, std::int64_t>;
  std::unordered_map<ScheduleShape, std::vector<std::int64_t>, HashOfKey> in_flight_;
};

}  // namespace planner
