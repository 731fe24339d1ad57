#include "reports/validate/predict.hpp"

#include <fmt/format.h>

#include "hw_profiles/load.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/evaluate/step_time.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/stages.hpp"
#include "planner/strategy/job_check.hpp"
#include "sim/cost/measured_network.hpp"

namespace reports::validation {

Predictor::Key Predictor::key_of(const Row& row) {
  return {row.gpu, row.job.framework, row.date, row.gpus_per_node.value_or(0),
          row.internode_gbps.value_or(0),
          row.all_reduce_gbs > 0 ? row.gpus : 0,
          row.all_reduce_gbs,
          row.gather_gbs,
          (row.tf32 ? 1 : 0) + (row.graphs ? 2 : 0) + (row.fused_loss ? 4 : 0) +
              (row.fused_head ? 8 : 0) + (row.polls ? 16 : 0) + 32 * row.nccl_minor};
}

// Bytes kept of a logit where one kernel makes the loss and turns logits into gradients in place:
// its f32 copy (unslothai/unsloth, kernels/cross_entropy_loss.py, which fms-acceleration carries).
static constexpr double kFusedLossKept = 4;
// Liger's head and loss take so few tokens at a time that no more than vocabulary / hidden of the
// logits exist at once (linkedin/Liger-Kernel, ops/fused_linear_cross_entropy.py); as chunks of a
// sample here, which divide it.
static constexpr std::int64_t kHeadPieces = 16;

// What a row measured of its network, and how its kernels ran.
static void use_row(const Row& row, hw_profiles::Profile& profile) {
  hw_profiles::Gpu& gpu = profile.gpu;
  if (row.tf32 && gpu.peak_tf32) gpu.peak_f32 = *gpu.peak_tf32;
  if (row.fused_loss) profile.framework.kept_logits = kFusedLossKept;
  if (row.fused_head) profile.framework.kept_logits = 0;
  if (row.graphs) profile.framework.kernel_submit.reset();
  if (row.graphs) profile.framework.expert_submit.reset();
  if (row.polls) profile.framework.rows_waiting.reset();
  if (row.nccl_minor > 0) profile.node.nccl_minor = row.nccl_minor;
  if (row.all_reduce_gbs <= 0 || row.gather_gbs <= 0) return;
  cost::use_measured_network(profile, {.gpus = row.gpus,
                                       .all_reduce = core::BytesPerSecond(row.all_reduce_gbs * 1e9),
                                       .gather = core::BytesPerSecond(row.gather_gbs * 1e9)});
}

core::Result<hw_profiles::Profile> Predictor::shipped(const Row& row) {
  const std::tuple key{row.gpu, row.job.framework, row.date};
  if (const auto known = shipped_.find(key); known != shipped_.end()) return known->second;
  auto profile = hw_profiles::find_profile(row.gpu);
  if (!profile.ok()) return profile;
  const auto done = hw_profiles::use_framework(*profile, row.job.framework, "framework", row.date);
  if (!done.ok()) return done.problems();
  return shipped_.emplace(key, std::move(profile).value()).first->second;
}

core::Result<hw_profiles::Profile> Predictor::make_profile(const Row& row) {
  auto profile = shipped(row);
  if (!profile.ok()) return profile;
  core::Status done = core::Done{};
  const auto set = [&](std::string_view field, const std::string& text, std::string_view source) {
    return hw_profiles::set(*profile, field, text, source);
  };
  if (row.gpus_per_node)
    done = set("node.gpus_per_node", fmt::format("{}", *row.gpus_per_node), "gpus_per_node");
  if (done.ok() && row.internode_gbps)
    done = set("node.internode_bandwidth", fmt::format("{} Gbps", *row.internode_gbps),
               "internode_gbps");
  if (done.ok()) use_row(row, *profile);
  for (const Override& o : overrides_)
    if (done.ok() && (o.of.empty() || o.of == row.gpu || o.of == profile->framework.id))
      done = set(o.field, o.text, "--set");
  if (done.ok() && site_) done = hw_profiles::use_site(*profile, *site_, "--site");
  if (!done.ok()) return done.problems();
  return profile;
}

core::Result<Prepared> Predictor::prepare(const Row& row) {
  auto known = known_.find(key_of(row));
  if (known == known_.end()) {
    auto profile = make_profile(row);
    if (!profile.ok()) return profile.problems();
    known = known_.emplace(key_of(row), std::move(profile).value()).first;
  }
  const hw_profiles::Profile& profile = known->second;
  planner::Job job = row.job;
  if (job.recipe.empty()) {
    const std::string& own = profile.framework.recipe;
    const bool narrow = profile.framework.gradients_as_reduced.value_or(false) &&
                        job.reduce_dtype && core::bits(*job.reduce_dtype) == 16;
    job.recipe = planner::recipe_accepts(own, job.precision) && !narrow ? own : "mixed";
  }
  if (const auto problems = planner::job_problems(job, profile); !problems.empty())
    return problems;
  planner::Strategy strategy = row.strategy;
  strategy.overlap = planner::overlaps(job, profile.framework, strategy.sharding);
  strategy.bucket_bytes = profile.framework.bucket.value();
  if (row.fused_head && job.seq_len % kHeadPieces == 0) strategy.loss_chunks = kHeadPieces;
  const bool several = strategy.pipeline > 1 && strategy.pipeline <= row.model.layers;
  if (profile.framework.divides_by_cost.value_or(false) && several)
    strategy.stages = planner::stages_by_cost(row.model, strategy.pipeline);
  const auto problems = planner::strategy_problems(row.model, job, strategy, row.gpus);
  if (!problems.empty()) return problems;
  const auto graph =
      models::build_graph(row.model, planner::graph_options(job, strategy, profile.framework));
  if (!graph.ok()) return graph.problems();
  const planner::Strategy resolved = planner::resolve(row.model, job, strategy);
  planner::Question question{.model = row.model,
                             .job = job,
                             .profile = profile,
                             .machine = planner::machine_for(profile, job, row.model),
                             .gpus = row.gpus,
                             .model_flops = models::step_gemm_flops(*graph),
                             .parameters = models::parameter_count(*graph)};
  program::Program program = planner::lower(*graph, job, resolved, policy_of(question));
  return Prepared{std::move(question), resolved, std::move(program)};
}

// What the allocator holds matters where memory was measured, and to verdicts of fit.
static planner::Memory memory_of(const Prepared& p, const Row& row) {
  const hw_profiles::Profile& profile = p.question.profile;
  const bool of_worst = row.memory_kind != MemoryKind::allocated && !row.first_stage;
  if (row.peak_bytes && of_worst) return planner::memory_of(p.program, profile);
  const bool of_first = row.peak_bytes && row.memory_kind != MemoryKind::allocated;
  if (row.fits)
    return planner::verdict_memory_of(p.program, profile,
                                      of_first ? std::optional(0) : std::nullopt);
  return planner::memory_of(p.program, profile, false);
}

core::Result<Prediction> Predictor::predict(const Row& row) {
  const core::Result<Prepared> made = prepare(row);
  if (!made.ok()) return made.problems();
  const Prepared& p = *made;
  std::optional<core::Seconds> closed_form;
  if (row.step)
    closed_form =
        planner::step_time(p.program, p.question.machine, p.strategy.schedule).step;
  planner::Candidate c;
  c.strategy = p.strategy;
  if (row.step) {                      // nothing else is scored by time
    const planner::Timed timed = planner::timed(p.program, p.question.machine, p.strategy.schedule);
    c.time = timed.time;
    c.evaluator = timed.evaluator;
  }
  c.memory = memory_of(p, row);
  c.uncertainty =
      planner::uncertainty_of(p.question, p.program, p.strategy.schedule, c.time, c.memory);
  const int gpus_per_node = p.question.profile.node.gpus_per_node;
  return Prediction{std::move(c), closed_form, p.question.parameters,
                    planner::memory_regime_of(p.program.mesh, gpus_per_node)};
}

}  // namespace reports::validation
