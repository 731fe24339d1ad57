#pragma once
// Small questions whose whole space can be lowered: what a search says is held against that.

#include <map>
#include <tuple>
#include <utility>
#include <vector>

#include "planner/evaluate/evaluate.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/space.hpp"
#include "tests/unit/planner/asked.hpp"

namespace planner_test {

// Every candidate of the space that fits, each lowered and replayed.
inline std::vector<planner::Candidate> all_that_fit(const planner::Request& r) {
  using namespace planner;
  const Question q = make_question(r.model, r.job, r.profile, r.gpus).value();
  std::map<std::tuple<std::int64_t, bool>, models::ModelGraph> graphs;
  std::vector<Candidate> all;
  const SpaceOptions options{r.gpus, r.profile.node.gpus_per_node, r.model.layers, 0};
  for (const Structure& structure : structures(q.job, options, {}))
    for (const std::int64_t size : structure.micro_batches) {
      const Strategy s = with_micro_batch(structure.strategy, size, q.job.global_batch);
      if (!strategy_problems(r.model, q.job, s, r.gpus).empty()) continue;
      const Strategy resolved = resolve(r.model, q.job, s);
      const std::tuple key{resolved.tensor, resolved.sequence_parallel};
      if (!graphs.contains(key))
        graphs.emplace(key, models::build_graph(r.model, graph_options(q.job, resolved)).value());
      Candidate c = evaluate(q, graphs.at(key), resolved);
      if (c.memory.worst.device <= c.memory.usable) all.push_back(std::move(c));
    }
  return all;
}

inline planner::Request small_question(const char* model, const char* gpu, std::int64_t gpus,
                       std::int64_t batch) {
  planner::Request r = question(model, gpus, gpu);
  r.job.seq_len = 1024;
  r.job.global_batch = batch;
  return r;
}

}  // namespace planner_test
