// torchtitan's job file, v0.2 (torchtitan/config/job_config.py).
#include <algorithm>
#include <array>
#include <utility>

#include "reports/emit/parts.hpp"

namespace reports::emit {
namespace {

using planner::Checkpoint;
using planner::Schedule;
using planner::Sharding;

constexpr std::array<std::pair<Schedule, std::string_view>, 4> kTitanSchedules{{
    {Schedule::gpipe, "GPipe"},
    {Schedule::one_f_one_b, "1F1B"},
    {Schedule::interleaved, "Interleaved1F1B"},
    {Schedule::zb_v, "ZBVZeroBubble"},
}};

std::string_view titan_schedule(Schedule schedule) {
  const auto found = std::ranges::find(kTitanSchedules, schedule,
                                       &std::pair<Schedule, std::string_view>::first);
  return found == kTitanSchedules.end() ? std::string_view() : found->second;
}

// Its name for one of its own sizes; empty: a size of one's own.
std::string_view flavor(const models::ModelSpec& m) {
  if (m.name == "llama3-8b") return "8B";
  if (m.name == "llama3-70b") return "70B";
  if (m.name == "llama3.1-405b") return "405B";
  return "";
}

void check_for_torchtitan(Question& q) {
  const planner::Strategy& s = q.s;
  q.require_common("torchtitan", "params");
  q.require(q.model().family == models::Family::llama,
            fmt::format("family {}", models::name(q.model().family)),
            "family llama, torchtitan's llama3", "emit for megatron");
  q.require(s.schedule == Schedule::none || !titan_schedule(s.schedule).empty(),
            fmt::format("schedule={}", name(s.schedule)),
            "schedule=gpipe, 1f1b, interleaved or zb_v, which torch's pipelining has",
            "plan with --pin schedule=1f1b, or another of them");
  q.require(s.sharding == Sharding::none || s.sharding == Sharding::zero2 ||
                s.sharding == Sharding::zero3,
            fmt::format("sharding={}", name(s.sharding)),
            "sharding=none (replicas), zero2 or zero3 (fully_shard)",
            "plan with --pin sharding=zero3, or emit for megatron");
  q.require(s.checkpoint != Checkpoint::memory_poor && s.checkpoint != Checkpoint::selective,
            fmt::format("checkpoint={}", name(s.checkpoint)),
            "checkpoint=none, every_k or selective_op",
            fmt::format("plan with --forbid checkpoint={}", name(s.checkpoint)));
  q.require(s.context_method != planner::ContextMethod::exchange || s.context == 1,
            "context_method=exchange", "context_method=gather or ring",
            "plan with --pin context_method=ring");
  q.require(q.recipe.compute != core::DType::f16, "precision fp16",
            "bf16 or f32: torchtitan's mixed_precision_param has no float16", "emit for deepspeed");
  q.require(s.loss_chunks == 1, fmt::format("loss_chunks={}", s.loss_chunks), "loss_chunks=1",
            "plan with --pin loss_chunks=1");
  using enum planner::Degree;
  q.require(q.has_order({tensor, context, data, pipeline}), q.order_text(),
            "mesh_order=tensor,context,data,pipeline",
            "plan with --pin mesh_order=tensor,context,data,pipeline");
  q.require(s.tensor == 1 || s.sequence_parallel, "sequence_parallel=false",
            "sequence_parallel=true, the only way torchtitan divides layers",
            "plan with --pin sequence_parallel=true");
}

std::string parallelism(const planner::Strategy& s) {
  const std::int64_t sharded = s.sharding == Sharding::none ? 1 : s.shard_group / s.context;
  std::string text = fmt::format(
      "[parallelism]\n"
      "data_parallel_replicate_degree = {}\n"
      "data_parallel_shard_degree = {}\n",
      s.data / std::max<std::int64_t>(1, sharded), sharded);
  if (s.sharding != Sharding::none)
    text += fmt::format("fsdp_reshard_after_forward = \"{}\"\n",
                        s.sharding == Sharding::zero3 ? "always" : "never");
  text += fmt::format("tensor_parallel_degree = {}\nenable_async_tensor_parallel = {}\n", s.tensor,
                      s.tp_overlap);
  text += fmt::format("context_parallel_degree = {}\n", s.context);
  if (s.context > 1)
    text += fmt::format("context_parallel_rotate_method = \"{}\"\n",
                        s.context_method == planner::ContextMethod::ring ? "alltoall"
                                                                         : "allgather");
  text += fmt::format("pipeline_parallel_degree = {}\n", s.pipeline);
  if (s.pipeline > 1)
    text += fmt::format(
        "pipeline_parallel_schedule = \"{}\"\npipeline_parallel_microbatch_size = {}\n",
        titan_schedule(s.schedule), s.micro_batch);
  return text + '\n';
}

std::string checkpointing(const planner::Strategy& s) {
  std::string_view mode = "none", option = "op";
  std::string every;
  if (s.checkpoint == Checkpoint::every_k && s.checkpoint_every == 1) mode = "full";
  if (s.checkpoint == Checkpoint::every_k && s.checkpoint_every > 1) {
    mode = "selective";
    every = std::to_string(s.checkpoint_every);
    option = every;
  }
  if (s.checkpoint == Checkpoint::selective_op) mode = "selective";
  std::string text = fmt::format("[activation_checkpoint]\nmode = \"{}\"\n", mode);
  if (mode == "selective") text += fmt::format("selective_ac_option = \"{}\"\n", option);
  return text + '\n';
}

std::vector<std::string> notes_for_torchtitan(const Question& q) {
  const planner::Strategy& s = q.s;
  std::vector<std::string> all;
  if (flavor(q.model()).empty())
    all.push_back(fmt::format("[model] flavor: add one of {} layers and width {} to "
                              "torchtitan's llama3 and name it there",
                              q.model().layers, q.model().hidden));
  const bool alone = q.plan.profile.framework.recomputes_one_in_k;
  if (s.checkpoint == Checkpoint::every_k && s.checkpoint_every > 1 && !alone)
    all.push_back(fmt::format("checkpoint=every_k: torchtitan recomputes one layer in {0}, the "
                              "plan's framework {1} all of them, in segments of {0}",
                              s.checkpoint_every, q.job().framework));
  if (std::ranges::adjacent_find(s.stages, std::ranges::not_equal_to{}) != s.stages.end())
    all.push_back(fmt::format("stages={}: torchtitan divides layers by weights of its own "
                              "(pipeline_parallel_first_stage_less_layers and so on)",
                              planner::stages_text(s.stages)));
  if (q.recipe.name != "fsdp2")
    all.push_back(fmt::format("recipe {}: torchtitan keeps weights in f32 and computes in 16 "
                              "bits, as recipe fsdp2 does",
                              q.recipe.name));
  if (q.job().framework == "native")
    all.push_back("planned with framework native: `planner --framework fsdp2` predicts what torch "
                  "takes");
  return all;
}

}  // namespace

core::Result<Launch> torchtitan(Question& q) {
  check_for_torchtitan(q);
  if (!q.problems.empty()) return q.problems;
  const planner::Strategy& s = q.s;
  const planner::Job& job = q.job();
  // Without stages a batch is a micro-batch; torchtitan accumulates up to global_batch_size.
  const std::int64_t local = s.pipeline > 1 ? s.micro_batch * s.grad_accum : s.micro_batch;
  Launch launch;
  launch.notes = notes_for_torchtitan(q);
  launch.text = fmt::format(
      "# {} on {} GPUs: {}\n"
      "# CONFIG_FILE=this.toml NGPU={} ./run_train.sh in a checkout of torchtitan.\n\n"
      "[model]\nname = \"llama3\"\nflavor = \"{}\"\n\n"
      "[training]\nlocal_batch_size = {}\nglobal_batch_size = {}\nseq_len = {}\nsteps = 20\n"
      "mixed_precision_param = \"{}\"\nmixed_precision_reduce = \"{}\"\n"
      "enable_cpu_offload = {}\n\n",
      q.model().name, q.plan.gpus, planner::to_text(s), std::min(q.plan.gpus, q.plan.gpus_per_node),
      flavor(q.model()).empty() ? std::string_view("of_your_own") : flavor(q.model()), local,
      job.global_batch, job.seq_len,
      q.recipe.compute == core::DType::f32 ? "float32" : "bfloat16",
      job.reduce_dtype.value_or(q.recipe.gradient) == core::DType::bf16 ? "bfloat16" : "float32",
      s.offloads("params"));
  launch.text += parallelism(s) + checkpointing(s);
  launch.text += fmt::format("[compile]\nenable = {}\n", job.compile);
  if (job.precision == core::DType::f8)
    launch.text += fmt::format(
        "\n[quantize.linear.float8]\nenable_fsdp_float8_all_gather = {}\n{}",
        job.fp8_scaling == "tensorwise",
        job.fp8_scaling == "tensorwise" ? "" : "recipe_name = \"rowwise\"\n");
  return launch;
}

}  // namespace reports::emit
