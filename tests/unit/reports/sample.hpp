#pragma once
// A plan and a run of it, small enough that every compared value can be worked out by hand.

#include "exec/record/run_record.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/plan/plan.hpp"

namespace reports_test {

inline bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

inline planner::Candidate sample_candidate() {
  planner::Candidate c;
  c.strategy.data = 4;
  c.strategy.tensor = 2;
  c.strategy.sharding = planner::Sharding::zero1;
  c.strategy.shard_group = 4;
  c.strategy.stages = {12};
  c.strategy.micro_batch = 8;
  c.strategy.grad_accum = 16;
  for (int i = 0; i < program::kTerms; ++i)
    c.memory.worst.terms[static_cast<std::size_t>(i)] = core::gib(i + 1);
  c.memory.worst.live = core::gib(21);
  c.memory.worst.reserved = core::gib(22);
  c.memory.worst.context = core::gib(1);
  c.memory.worst.device = core::gib(23);
  c.memory.usable = core::gib(79);
  c.memory.stages = {{0, c.memory.worst}};
  c.time = {core::Seconds{1.5}, core::Seconds{1.25},  core::Seconds{0.125},
            core::Seconds{0},   core::Seconds{0.125}, core::Seconds{0.5}, false};
  c.communication = {{"gradients", "all_reduce", "ring", 4, 7, core::Bytes{100},
                      core::Bytes{150}, core::Seconds{0.25}}};
  c.throughput = {341, 349'525, 43'690, 30, 0.25};
  c.uncertainty = {core::Seconds{1.32}, core::Seconds{1.68}, core::gib(22), core::gib(24)};
  return c;
}

inline planner::Plan sample_plan() {
  planner::Plan plan;
  plan.assumptions = {"sequence length 1024: the model's default"};
  plan.model = models::find_model("gpt2-124m").value();
  plan.parameters = 124'439'808;
  plan.gpus = 8;
  plan.gpus_per_node = 8;
  plan.profile = hw_profiles::find_profile("h100-sxm-80g").value();
  plan.job.seq_len = 1024;
  plan.job.global_batch = 512;
  plan.search = {10, 2, 8, 3, 0, core::Seconds{0.5}};
  plan.chosen = sample_candidate();
  plan.alternatives = {sample_candidate()};
  plan.alternatives[0].strategy.tensor = 1;
  plan.alternatives[0].strategy.data = 8;
  plan.alternatives[0].time.step = core::Seconds{1.8};
  plan.rejected = {{planner::Strategy{}, "memory", 90LL << 30, 79LL << 30, "sharding=zero1"}};
  plan.rejected_per_limit = {{"memory", 5}};
  plan.other_machines = {{"rtx3090", {}}, {"h100-sxm-80g", plan.chosen}};
  plan.rules_of_thumb = {{"model state", "16 Psi", 1'991'036'928.0, "B", "[zero] section 3.1"}};
  return plan;
}

// What sample_plan predicts, measured exactly, with a step of 1.2 s.
inline exec::RunRecord sample_run() {
  const planner::Plan plan = sample_plan();
  exec::RunRecord run;
  run.model = plan.model;
  run.parameters = plan.parameters;
  run.profile = plan.profile;
  run.gpus = plan.gpus;
  run.gpus_per_node = plan.gpus_per_node;
  run.job = plan.job;
  run.candidate = *plan.chosen;
  run.backend = "cuda";
  run.communicator = "local";
  run.device = "NVIDIA H100 80GB HBM3";
  run.ranks = 8;
  run.steps = 2;
  run.loss = {10.5, 10.25};
  run.training = exec::default_training(plan.job.optimizer);
  for (std::size_t i = 0; i < program::kTerms; ++i)
    run.memory.terms[i] = plan.chosen->memory.worst.terms[i];
  run.memory.live = core::gib(21);
  run.communication = {{"gradients", "all_reduce", "ring", 4, 7, core::Bytes{100},
                        core::Bytes{150}, core::Seconds{0.125}}};
  run.time.step_median = core::Seconds{1.2};
  run.environment = {{"openblas", "0.3.21"}};
  return run;
}

}  // namespace reports_test
