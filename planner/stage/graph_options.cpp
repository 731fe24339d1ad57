#include "planner/stage/graph_options.hpp"

#include "planner/stage/policy.hpp"

namespace planner {
namespace {

models::KeptBeside kept_beside(const Job& job, const Strategy& s, const Recipe& recipe,
                               const hw_profiles::Framework& f) {
  models::KeptBeside kept;
  // A compiler recomputes what it would have to keep beside.
  if (!job.fused_norm && !job.compile) kept.norm = f.kept_norm;
  if (!job.compile) kept.gated = f.kept_gated;
  kept.rotary = f.kept_rotary.value_or(0);
  const double activation = core::bits(recipe.activation) / 8.0;
  if (job.attention == "fused_softmax") kept.scores = f.kept_softmax;
  if (job.attention == "unfused") kept.scores = f.kept_unfused;
  if (job.attention == "fused_softmax" || job.attention == "unfused")
    kept.scores += f.kept_probabilities * activation;
  // What layers make again by themselves they do not keep in 8 bits either.
  const bool again = s.checkpoint == Checkpoint::selective_op ||
                     s.checkpoint == Checkpoint::pointwise;
  if (job.precision == core::DType::f8 && !again)
    kept.product_input = f.kept_product_input.value_or(0);
  if (s.checkpoint == Checkpoint::selective_op) {  // segment_restore.cpp
    kept.gated = 0;
    kept.activated = activation;
  }
  kept.logits = job.compile ? f.kept_logits_compiled : f.kept_logits;
  kept.gathered_logits = f.gathers_logits;
  return kept;
}

}  // namespace

bool overlaps(const Job& job, const hw_profiles::Framework& framework, Sharding sharding) {
  const bool reduces = sharding == Sharding::none
                           ? framework.overlap_gradients
                           : framework.overlap_divided.value_or(framework.overlap_gradients);
  return reduces && !stage::waits_at_adapters(job, framework);
}

models::GraphOptions graph_options(const Job& job, const Strategy& strategy,
                                   const hw_profiles::Framework& framework) {
  models::GraphOptions options;
  options.seq_len = job.seq_len;
  options.tensor = strategy.tensor;
  options.sequence_parallel = strategy.sequence_parallel;
  options.context = strategy.context;
  options.exchange_heads = strategy.context_method == ContextMethod::exchange;
  options.expert = strategy.expert;
  options.lora_rank = job.lora_rank;
  options.lora_targets = job.lora_targets;
  options.inference = job.mode == Mode::inference;
  if (const auto recipe = resolve_recipe(job.recipe, job.precision))
    options.kept = kept_beside(job, strategy, *recipe, framework);
  return options;
}

}  // namespace planner
