// The configuration of `accelerate launch` (accelerate 1.15: commands/config/config_args.py,
// utils/dataclasses.py, utils/fsdp_utils.py): replicas, or FSDP2 over all data ranks or within
// groups of them. The training script is the user's; what it must do itself is a note.
#include <algorithm>
#include <string>

#include "reports/emit/parts.hpp"

namespace reports::emit {
namespace {

using core::Code;
using core::code;

using planner::Checkpoint;
using planner::Sharding;

bool uses_fsdp(const Question& q) { return q.s.sharding != Sharding::none; }
bool is_mixed(const Question& q) {
  return q.recipe.compute != core::DType::f32 && q.recipe.weight == core::DType::f32;
}

void check_for_accelerate(Question& q) {
  const planner::Strategy& s = q.s;
  const planner::Job& job = q.job();
  q.require_common("accelerate", "params", true);
  for (const auto& [key, degree] : {std::pair{"tensor", s.tensor}, {"pipeline", s.pipeline},
                                    {"context", s.context}, {"expert", s.expert}})
    q.require(degree == 1, fmt::format("{}={}", key, degree),
              "data ranks that each run the whole model",
              fmt::format("plan with --pin {}=1", key));
  q.require(s.sharding == Sharding::none || s.sharding == Sharding::zero2 ||
                s.sharding == Sharding::zero3,
            fmt::format("sharding={}", name(s.sharding)),
            "sharding=none (replicas), zero2 or zero3 (FSDP2)", "plan with --pin sharding=zero3");
  const bool whole = s.checkpoint == Checkpoint::every_k && s.checkpoint_every == 1;
  q.require(s.checkpoint == Checkpoint::none || whole,
            fmt::format("checkpoint={}", name(s.checkpoint)),
            "checkpoint=none, or every_k(1): all layers are recomputed, or none",
            "plan with --pin checkpoint='none|every_k(1)'");
  q.require_liger();
  q.require(s.offload.empty() || uses_fsdp(q), "offload without sharding",
            "offload with zero2 or zero3", "plan with --pin sharding=zero3");
  q.require_wide_products();
  q.require_dynamic_loss_scale();
  q.require(job.mtp_layers == 0, fmt::format("mtp={}", job.mtp_layers), "mtp=0",
            "plan with --mtp 0");
  q.require(job.lora_rank == 0 && job.quantization == "none", "adapters",
            "training of all parameters: adapters are the script's own",
            "emit for axolotl or llama_factory");
  q.require(q.recipe.name == "fsdp2" || q.recipe.name == "pure_bf16" || q.recipe.name == "fp32",
            "recipe=" + q.recipe.name,
            "recipe=fsdp2 (weights in f32, computed in 16 bits), pure_bf16 or fp32",
            "plan with --recipe fsdp2");
  q.require(uses_fsdp(q) || !job.reduce_dtype || *job.reduce_dtype == q.recipe.gradient,
            "reduce_dtype", "gradients in their own type: DDP has no other word",
            "plan without --reduce-dtype");
}

// accelerate's own policy sums gradients in the type that it computes in; one that the script gives
// stands (utils/dataclasses.py, FullyShardedDataParallelPlugin.set_mixed_precision).
core::DType summed_in(const Question& q) {
  return q.job().reduce_dtype.value_or(q.recipe.gradient);
}
bool needs_policy(const Question& q) {
  return uses_fsdp(q) && is_mixed(q) && summed_in(q) != q.recipe.compute;
}

std::vector<std::string> notes_for_accelerate(const Question& q) {
  const planner::Job& job = q.job();
  std::vector<std::string> all{fmt::format(
      "your script: micro_batch={} samples of seq_len={} a GPU, grad_accum={} "
      "(Accelerator(gradient_accumulation_steps=...)), which make global_batch={}",
      q.s.micro_batch, job.seq_len, q.s.grad_accum, job.global_batch)};
  all.push_back(fmt::format("optimizer={}: make it in your script",
                            planner::optimizer(job.optimizer).name));
  all.push_back(fmt::format("attention={}: load the model with attn_implementation=\"{}\"",
                            job.attention,
                            job.attention.starts_with("flash") ? "flash_attention_2" : "eager"));
  if (needs_policy(q))
    all.push_back(fmt::format(
        "gradients summed in {}: Accelerator(fsdp_plugin=FullyShardedDataParallelPlugin("
        "mixed_precision_policy=MixedPrecisionPolicy(param_dtype=torch.{}, "
        "reduce_dtype=torch.{}))) in your script; without it accelerate sums in {}",
        core::name(summed_in(q)), torch_name(q.recipe.compute), torch_name(summed_in(q)),
        core::name(q.recipe.compute)));
  if (job.clip > 0)
    all.push_back(
        fmt::format("clip: call accelerator.clip_grad_norm_(parameters, {:g})", job.clip));
  if (q.recipe.name == "pure_bf16")
    all.emplace_back("recipe=pure_bf16: load the model with dtype=torch.bfloat16");
  if (q.recipe.name == "fp32") all.emplace_back("recipe=fp32: load the model in f32");
  if (!uses_fsdp(q) && q.s.checkpoint != Checkpoint::none)
    all.emplace_back("checkpoint: call model.gradient_checkpointing_enable()");
  if (!uses_fsdp(q) && q.s.data > 1)
    all.push_back(fmt::format("bucket_bytes: pass DistributedDataParallelKwargs(bucket_cap_mb={})",
                              std::max<std::int64_t>(q.s.bucket_bytes >> 20, 1)));
  if (!q.s.overlap && q.s.data > 1)
    all.emplace_back("overlap=false: gradients are summed behind the backward pass all the same");
  if (uses_fsdp(q)) all.emplace_back("bucket_bytes: FSDP2 gathers and scatters layer by layer");
  note_liger(q, all);
  if (q.plan.nodes > 1)
    all.emplace_back("on each node: accelerate launch --config_file FILE --machine_rank N "
                     "--main_process_ip FIRST_NODE --main_process_port 29500 train.py");
  return all;
}

}  // namespace

core::Result<Written> accelerate(Question& q) {
  check_for_accelerate(q);
  if (!q.problems.empty()) return q.problems;
  const planner::Strategy& s = q.s;
  const Code mixed = Code::own(!is_mixed(q)                            ? "'no'"
                               : q.recipe.compute == core::DType::bf16 ? "bf16"
                                                                       : "fp16");
  Written written;
  written.notes = notes_for_accelerate(q);
  written.text = code(
      "# {}\n"
      "compute_environment: LOCAL_MACHINE\n"
      "distributed_type: {}\n"
      "mixed_precision: {}\n"
      "num_machines: {}\n"
      "num_processes: {}\n"
      "machine_rank: 0\n"
      "main_training_function: main\n"
      "use_cpu: false\n",
      q.title(),
      Code::own(uses_fsdp(q) ? "FSDP"
                : s.data > 1 ? "MULTI_GPU"
                             : "'NO'"),
      mixed, std::max<std::int64_t>(q.plan.nodes, 1), q.plan.gpus);
  if (q.job().compile) written.text += "dynamo_config:\n  dynamo_backend: INDUCTOR\n";
  if (!uses_fsdp(q)) return written;
  written.text += code(
      "fsdp_config:\n"
      "  fsdp_version: 2\n"
      "  fsdp_reshard_after_forward: {}\n"
      "  fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP\n"
      "  fsdp_offload_params: {}\n"
      "  fsdp_activation_checkpointing: {}\n"
      "  fsdp_state_dict_type: SHARDED_STATE_DICT\n",
      yaml_flag(s.sharding == Sharding::zero3), yaml_flag(s.offloads("params")),
      yaml_flag(s.checkpoint != Checkpoint::none));
  if (s.shard_group < s.data_ranks())
    written.text += code(
        "parallelism_config:\n"
        "  parallelism_config_dp_replicate_size: {}\n"
        "  parallelism_config_dp_shard_size: {}\n",
        s.data_ranks() / s.shard_group, s.shard_group);
  return written;
}

}  // namespace reports::emit
