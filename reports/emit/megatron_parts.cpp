#include "reports/emit/megatron_parts.hpp"

#include <algorithm>

#include <fmt/ranges.h>

#include "models/layer_kinds.hpp"
#include "reports/emit/megatron_layers.hpp"

namespace reports::emit {

using planner::Checkpoint;
using planner::Sharding;

bool has_narrow_moments(const Question& q) { return q.recipe.name == "megatron_bf16_moments"; }

core::DType megatron_sums(const Question& q) {
  return q.job().reduce_dtype.value_or(q.recipe.gradient);
}

std::string megatron_layout(const planner::Strategy& s, std::int64_t mtp_layers) {
  std::string text = "E";
  for (std::size_t i = 0; i < s.stages.size(); ++i)
    text += fmt::format("{}t*{}", i > 0 ? "|" : "", s.stages[i]);
  return text + std::string(static_cast<std::size_t>(mtp_layers), 'm') + "L";
}

std::string_view megatron_context_method(const planner::Strategy& s) {
  if (s.context_method == planner::ContextMethod::ring) return "p2p";
  return s.context_method == planner::ContextMethod::exchange ? "a2a" : "all_gather";
}

bool has_softmax_before_choice(const models::Variants& v) {
  return v.scoring == models::Scoring::softmax && (!v.normalised_gates || v.experts_per_token == 1);
}

bool maps_stages_before_data(const Question& q) {
  using enum planner::Degree;
  return !q.has_order({tensor, context, data, pipeline});
}

std::string_view megatron_attention(const Question& q) {
  constexpr int kHopper = 90;
  if (!q.job().attention.starts_with("flash")) return "unfused";
  const hw_profiles::Profile& p = q.plan.profile;
  const bool vendor = p.framework.vendor_attention && p.gpu.compute_capability >= kHopper;
  return vendor ? "fused" : "flash";
}

void check_for_megatron(Question& q) {
  const planner::Strategy& s = q.s;
  q.require_common("megatron", "optimizer");
  q.require_known_layers("megatron", without_options(q.model()));
  const MegatronLayers own = megatron_layers(q.model());
  const models::Variants& v = own.variants;
  q.require(own.sayable, "layers of several kinds: " + models::kinds_text(q.model()),
            "kinds that differ in experts, rotation and windows alone, for pretrain_gpt.py", "");
  q.require(v.residual == models::Residual::pre,
            fmt::format("residual={}", models::name(v.residual)),
            "residual=pre: Megatron's layers add attention first, then the feed-forward, each "
            "behind its norm", "");
  q.require(v.causal, "attention to later tokens", "a decoder, for pretrain_gpt.py", "");
  q.require(are_biases_sayable(v), "biases of some linear layers",
            "biases of all or of none, or of queries, keys and values alone", "");
  q.require(v.ffn != models::Ffn::clamped_swiglu || v.experts > 0, "ffn=clamped_swiglu",
            "clamped gates in experts alone", "");
  q.require(!v.embedding_norm, "embedding_norm", "embeddings without a norm", "");
  q.require(v.position_kind == models::Positions::learned ||
                v.position_kind == models::Positions::rotary,
            fmt::format("position_kind={}", models::name(v.position_kind)),
            "learned or rotary positions", "");
  q.require(v.ffn == models::Ffn::swiglu || q.model().activation != models::Activation::relu,
            "a feed-forward with ReLU", "GELU or SwiGLU: pretrain_gpt.py has no option for ReLU",
            "");
  q.require(own.window == 0 || s.context == 1, fmt::format("context={}", s.context),
            "context=1: its context ranks are not known to take windows",
            "plan with --pin context=1");
  q.require(planner::schedule_def(s.schedule).megatron,
            fmt::format("schedule={}", name(s.schedule)),
            "schedule=1f1b or interleaved, which Megatron-LM runs",
            "plan with --pin schedule=1f1b, or --pin schedule=interleaved");
  q.require(s.sharding == Sharding::none || s.sharding == Sharding::zero1,
            fmt::format("sharding={}", name(s.sharding)),
            "sharding=none or zero1, its distributed optimizer",
            "plan with --pin sharding=zero1, or emit for torchtitan");
  q.require(s.sharding == Sharding::none || s.shard_group == s.data_ranks(),
            fmt::format("shard_group={}", s.shard_group), "all data ranks in one group", "");
  q.require(s.checkpoint == Checkpoint::none || counts_layers(s.checkpoint) ||
                s.checkpoint == Checkpoint::selective || s.checkpoint == Checkpoint::modules,
            fmt::format("checkpoint={}", name(s.checkpoint)),
            "checkpoint=none, every_k, first_k, selective or modules",
            fmt::format("plan with --forbid checkpoint={}", name(s.checkpoint)));
  q.require(q.job().precision != core::DType::f8 || q.job().fp8_scaling != "rowwise",
            "fp8_scaling=rowwise", "tensorwise, delayed, blockwise or mxfp8, which Megatron has",
            "plan with --fp8-scaling tensorwise");
  q.require(!has_narrow_moments(q) || s.sharding == Sharding::zero1,
            "recipe=megatron_bf16_moments without zero1",
            "sharding=zero1: moments in bf16 are its distributed optimizer's",
            "plan with --pin sharding=zero1");
  const std::vector<std::string>& few = q.job().fp8_tensors;
  q.require(std::ranges::all_of(few, [](const auto& tensor) { return tensor == "params"; }),
            "fp8_tensors",
            "params alone: its command line has no flags for others that are in few bits",
            "plan with --fp8-tensors params, or without");
  q.require(few.empty() || s.sharding == Sharding::zero1, "fp8_tensors=params without zero1",
            "sharding=zero1: --fp8-param-gather asks for its distributed optimizer",
            "plan with --pin sharding=zero1");
  q.require(!models::has(s.recompute_modules, models::Module::mlp_act),
            "recompute_modules with mlp_act",
            "modules that Megatron has a word for: mlp makes dense feed-forwards again whole",
            "plan with --pin checkpoint='modules(layernorm)'");
  const auto divides = [&](std::int64_t layers) {
    return s.checkpoint_every > 0 && layers % s.checkpoint_every == 0;
  };
  q.require(s.checkpoint != Checkpoint::every_k || std::ranges::all_of(q.chunks(), divides),
            fmt::format("checkpoint=every_k({})", s.checkpoint_every),
            "a k that divides the layers of each stage: releases before 0.17 fail otherwise",
            "plan with --pin checkpoint='every_k(1)'");
  q.require(!s.offloads("optimizer") || s.sharding == Sharding::zero1 || s.data_ranks() == 1,
            "offload=optimizer without zero1",
            "offload=optimizer with sharding=zero1: Megatron offloads its distributed optimizer",
            "plan with --pin sharding=zero1");
  q.require(q.job().optimizer != planner::OptimizerKind::sgd || s.sharding == Sharding::none,
            "optimizer=sgd with zero1", "sgd with sharding=none: its distributed optimizer is Adam",
            "plan with --pin sharding=none");
  q.require(v.experts == 0 || s.tensor == 1 || s.sequence_parallel,
            "experts and tensor ranks with sequence_parallel=false",
            "sequence_parallel=true, which Megatron demands of experts beside tensor ranks",
            "plan with --pin sequence_parallel=true");
  const bool flash = q.job().attention.starts_with("flash");
  q.require(!flash || q.plan.profile.gpu.attention_flash2.has_value(),
            "attention=" + q.job().attention,
            fmt::format("attention over stored scores on {}, which flash-attention has no kernels "
                        "for", q.plan.profile.gpu.id),
            "plan with --framework megatron");
  q.require(s.loss_chunks == 1, fmt::format("loss_chunks={}", s.loss_chunks), "loss_chunks=1",
            "plan with --pin loss_chunks=1");
  using enum planner::Degree;
  q.require(q.has_order({tensor, context, data, pipeline}) ||
                q.has_order({tensor, context, pipeline, data}),
            q.order_text(), "mesh_order=tensor,context,data,pipeline or pipeline before data",
            "plan with --pin mesh_order=tensor,context,data,pipeline");
  const bool adam = q.job().optimizer == planner::OptimizerKind::adamw ||
                    q.job().optimizer == planner::OptimizerKind::adam ||
                    q.job().optimizer == planner::OptimizerKind::sgd;
  q.require(adam, fmt::format("optimizer={}", planner::optimizer(q.job().optimizer).name),
            "adam, adamw or sgd", "plan with --optimizer adamw");
}

std::vector<std::string> notes_for_megatron(const Question& q, const MegatronWords& words) {
  std::vector<std::string> all{
      fmt::format("random tokens, 20 steps: {}", words.random_data)};
  if (!q.recipe.name.starts_with("megatron") && q.recipe.name != "fp32")
    all.push_back(fmt::format("recipe {}: Megatron keeps weights in 16 bits and a master copy of "
                              "them, as recipe megatron does",
                              q.recipe.name));
  if (models::has_experts(q.model()))
    all.push_back(fmt::format("{} gives each expert as many tokens, as the plan counts them: "
                              "remove it to train",
                              words.balancing));
  const bool alone = q.plan.profile.framework.recomputes_one_in_k;
  if (q.s.checkpoint == Checkpoint::every_k && q.s.checkpoint_every > 1 && alone)
    all.push_back(fmt::format("checkpoint=every_k: Megatron recomputes all layers, in segments of "
                              "{0}, the plan's framework {1} one layer in {0}",
                              q.s.checkpoint_every, q.job().framework));
  if (q.job().clip == 0)
    all.emplace_back("clip: gradients of any norm are taken, as planned; Megatron-LM by itself "
                     "scales them down to a norm of 1: plan with --clip 1");
  if (q.job().compile)
    all.push_back("compile: the plan counts on a compiler that Megatron-LM has no option for");
  if (q.s.bucket_bytes > 0 && q.s.overlap && q.s.data_ranks() > 1)
    all.push_back("bucket_bytes: Megatron chooses the size of buckets by the number of ranks");
  return all;
}

}  // namespace reports::emit
