#pragma once
// The graph that a strategy runs of a model, and what a framework's kernels keep in it. Pure.

#include <array>

#include "hw_profiles/profile.hpp"
#include "models/graph.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

models::GraphOptions graph_options(const Job& job, const Strategy& strategy,
                                   const hw_profiles::Framework& framework = {});

// The same for many strategies of one job.
class GraphOptionsOf {
 public:
  GraphOptionsOf(const Job& job, const hw_profiles::Framework& framework);
  models::GraphOptions operator()(const Strategy& strategy) const;

 private:
  models::GraphOptions of_job_;
  double load_;                        // Job::expert_imbalance
  // By Checkpoint. Of an unknown recipe, which is refused before a graph is built, nothing.
  std::array<models::KeptBeside, kCheckpoints> kept_{};
};

// `overlap` of a strategy that the framework runs: whether it reduces gradients, and gathers
// sharded weights, beside computing.
bool overlaps(const Job& job, const hw_profiles::Framework& framework, Sharding sharding);

}  // namespace planner
