#pragma once
// Lowering: model x job x strategy -> Program. Depends on the framework and on the strategy with
// its algorithms resolved, never on the GPU. O(layers + actions of one layer) per pipeline stage.
// Thread-safe (pure).

#include <cstdint>
#include <optional>

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"
#include "models/graph.hpp"
#include "planner/question/job.hpp"
#include "planner/stage/graph_options.hpp"
#include "planner/stage/policy.hpp"
#include "planner/strategy/problems.hpp"
#include "planner/strategy/resolve.hpp"
#include "planner/strategy/strategy.hpp"
#include "sim/program/program.hpp"

namespace planner {

// The ranks of a resolved strategy.
program::Mesh mesh_of(const Strategy& strategy);

// What is lowered to be measured: layers of one template alone, with the model's ends or, on one
// rank, as if these were other ranks' (its messages go nowhere).
struct LayerProbe {
  int layer_template = 0;
  bool ends = true;
};

// policy: stage::policy_of(job, framework), of the framework that the graph was made for.
// REQUIRES: strategy_problems is empty; the strategy is resolved. The graph must be built with
// graph_options().
program::Program lower(const models::ModelGraph& graph, const Job& job, const Strategy& strategy,
                       const stage::Policy& policy, std::optional<LayerProbe> probe = {});

// A strategy as it is run: resolved, and as a Program.
struct LoweredStrategy {
  Strategy strategy;
  program::Program program;
};
// Of the graph that the strategy shapes for the framework. Problems: the strategy's on so many
// GPUs, and the graph's.
core::Result<LoweredStrategy> lower_strategy(const models::ModelSpec& model, const Job& job,
                                             const hw_profiles::Framework& framework,
                                             std::int64_t gpus, const Strategy& strategy);

}  // namespace planner
