#include "planner/stage/graph_options.hpp"

#include "planner/question/nvfp4.hpp"
#include "planner/stage/policy.hpp"

namespace planner {
namespace {

// Bytes of an element with its share of the scales: a block of 128 has one of f32, a block of 32
// one of 8 bits.
double narrow_bytes(const Job& job) {
  if (job.precision == core::DType::f4) return kNvfp4Bytes;
  return job.fp8_scaling == "blockwise" || job.fp8_scaling == "mxfp8" ? 1 + 1.0 / 32 : 1;
}
constexpr double kE5M6 = 12.0 / 8;

models::KeptBeside kept_beside(const Job& job, Checkpoint checkpoint, const Recipe& recipe,
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
  // torch's checkpoints by operator keep the outputs that they list, and no input of a product.
  if (is_narrow(job.precision) && checkpoint != Checkpoint::selective_op)
    kept.product_input = f.kept_product_input.value_or(0) * narrow_bytes(job);
  if (job.in_few_bits("activation_input")) kept.activation_input = narrow_bytes(job);
  if (job.in_few_bits("attention_output")) kept.attention_output = kE5M6 + narrow_bytes(job) - 1;
  kept.returned_row = f.kept_returned_row.value_or(0);
  if (checkpoint == Checkpoint::selective_op) {  // segment_restore.cpp
    kept.gated = 0;
    kept.activated = activation;
  }
  kept.logits = job.compile ? f.kept_logits_compiled : f.kept_logits;
  kept.gathered_logits = f.gathers_logits;
  kept.aligned_logits = f.aligned_logits.value_or(false);
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
  return GraphOptionsOf(job, framework)(strategy);
}

GraphOptionsOf::GraphOptionsOf(const Job& job, const hw_profiles::Framework& framework)
    : load_(job.expert_imbalance) {
  of_job_.seq_len = job.seq_len;
  of_job_.lora_rank = job.lora_rank;
  of_job_.lora_targets = job.lora_targets;
  of_job_.inference = job.mode == Mode::inference;
  // Of a model whose weights are frozen, nothing further is predicted.
  of_job_.mtp = job.mode == Mode::inference || job.lora_rank > 0 ? 0 : job.mtp_layers;
  const auto recipe = resolve_recipe(job.recipe, job.precision);
  for (std::size_t c = 0; recipe && c < kept_.size(); ++c)
    kept_[c] = kept_beside(job, static_cast<Checkpoint>(c), *recipe, framework);
}

models::GraphOptions GraphOptionsOf::operator()(const Strategy& strategy) const {
  models::GraphOptions options = of_job_;
  options.tensor = strategy.tensor;
  options.sequence_parallel = strategy.sequence_parallel;
  options.context = strategy.context;
  options.exchange_heads = strategy.context_method == ContextMethod::exchange;
  options.expert = strategy.expert;
  options.split = strategy.split;
  options.splits = strategy.splits;
  options.synchronised_norms = strategy.batch_norm == BatchNorm::synchronised;
  // Ranks that hold all experts have all rows, whoever gets them.
  options.expert_load = strategy.expert > 1 ? load_ : 1;
  options.expert_tensor = strategy.expert_tensor;
  options.kept = kept_[static_cast<std::size_t>(strategy.checkpoint)];
  // A loss in pieces writes the gradient over the logits [liger].
  if (strategy.loss_chunks > 1) options.kept.logits = 0;
  // What layers make again by themselves they do not keep in 8 bits either.
  if (strategy.context > 1) options.kept.attention_output = 0;  // parts of it travel
  if (options.kept.product_input > 0) options.kept.again = strategy.made_again();
  return options;
}

}  // namespace planner
