#pragma once
// Every candidate of a small space, lowered.

#include <map>
#include <utility>
#include <vector>

#include "hw_profiles/load.hpp"
#include "hw_profiles/mixed.hpp"
#include "models/zoo.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/space.hpp"
#include "planner/strategy/job_check.hpp"
#include "tests/catch.hpp"

namespace engine_test {

struct Space {
  const char* model;
  const char* gpu;
  std::int64_t gpus, seq_len, batch;
  std::vector<const char*> pins;
  int gpus_per_node = 8;
  std::int64_t every = 1;              // every n-th candidate alone
  double held = 0;                     // cost::held_share inside a node
  const char* second = nullptr;        // the second half of the ranks has this GPU
};

// One of every way to exchange gradients, activations and boundaries.
inline std::vector<Space> exchanges() {
  return {
      Space{"gpt2-124m", "rtx3090", 4, 128, 8, {"data=4", "sharding=none", "checkpoint=none"}},
      Space{"gpt2-124m", "rtx3090", 4, 128, 8, {"data=4", "sharding=zero3", "checkpoint=none"}},
      Space{"gpt2-124m", "rtx3090", 4, 128, 8,
      {"data=2", "pipeline=2", "sharding=zero1", "checkpoint=none"}},
      Space{"gpt2-124m", "rtx3090", 4, 128, 8, {"tensor=2", "data=2", "checkpoint=none"}},
      Space{"gpt2-124m", "rtx3090", 4, 128, 8,
      {"context=4", "context_method=ring", "checkpoint=none"}},
      Space{"gpt2-124m", "rtx3090", 4, 128, 8,
      {"context=4", "context_method=exchange", "checkpoint=none"}},
      Space{"gpt2-124m", "rtx3090", 4, 128, 8, {"data=4", "grad_sync=tree", "checkpoint=none"}},
      Space{"gpt2-124m", "rtx3090", 4, 128, 8,
      {"data=4", "grad_sync=naive_all_reduce", "checkpoint=none"}},
      Space{"gpt2-124m", "rtx3090", 4, 128, 8,
      {"grad_sync=parameter_server", "servers=2", "checkpoint=none"}},
      Space{"gpt2-124m", "rtx3090", 4, 128, 9,
      {"grad_sync=parameter_server", "servers=1", "servers_colocated=false",
      "checkpoint=none"}},
      Space{"gpt2-124m", "rtx3090", 4, 128, 8,
      {"grad_sync=parameter_server", "servers=2", "server_mode=async", "checkpoint=none"}}};
}

// A candidate, and what it was asked about.
struct Lowered {
  const planner::Question& question;
  const planner::Strategy& strategy;   // resolved
  const models::ModelGraph& graph;
  program::Program program;
};

// visit(const Lowered&); returns how many there were.
template <class Visit>
int each_candidate(const Space& space, const Visit& visit) {
  const models::ModelSpec model = models::find_model(space.model).value();
  hw_profiles::Profile profile = hw_profiles::find_profile(space.gpu).value();
  if (space.second != nullptr)
    profile = hw_profiles::mixed({{space.gpus / 2, profile},
                                  {space.gpus / 2, *hw_profiles::find_profile(space.second)}},
                                 false, "test").value();
  planner::Job job;
  job.seq_len = space.seq_len;
  job.global_batch = space.batch;
  planner::take_usual(job, profile, true, true);
  planner::Constraints constraints;
  for (const char* pin : space.pins) REQUIRE(constraints.pin(pin).ok());
  planner::Question question = make_question(model, job, profile, space.gpus).value();
  question.machine.gpus_per_node = space.gpus_per_node;
  if (space.held > 0) question.machine.hold = question.machine.link / space.held;
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, bool, bool>, models::ModelGraph>
      graphs;
  const std::int64_t layers =
      model.layers > 0 ? model.layers : static_cast<std::int64_t>(model.widths.size()) - 1;
  int visited = 0;
  std::int64_t index = 0;
  for (const planner::Structure& structure :
       structures(job, {space.gpus, space.gpus_per_node, layers, model.variants.experts},
                  constraints)) {
    for (const std::int64_t size : structure.micro_batches) {
      const planner::Strategy s = with_micro_batch(structure.strategy, size, space.batch);
      if (!strategy_problems(model, job, s, space.gpus).empty()) continue;
      if (index++ % space.every != 0) continue;
      const planner::Strategy resolved = resolve(model, job, s);
      const std::tuple key{resolved.tensor, resolved.context,
                           resolved.expert + 1000 * resolved.expert_tensor,
                           resolved.sequence_parallel,
                           resolved.checkpoint == planner::Checkpoint::selective_op};
      if (!graphs.contains(key))
        graphs.emplace(key, models::build_graph(
                                model, graph_options(job, resolved, question.profile.framework))
                                .value());
      const models::ModelGraph& graph = graphs.at(key);
      visit(Lowered{question, resolved, graph,
                    planner::lower(graph, job, resolved, policy_of(question))});
      ++visited;
    }
  }
  return visited;
}

}  // namespace engine_test
