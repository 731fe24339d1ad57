// DeepSpeed's configuration (deepspeed.ai/docs/config-json), for a model that one data rank holds.
#include "core/json.hpp"
#include "reports/emit/parts.hpp"

namespace reports::emit {
namespace {

using planner::Checkpoint;
using planner::Sharding;

constexpr std::string_view kOneRank =
    "one data rank that holds the model: a DeepSpeed configuration says nothing of other degrees";

void check_for_deepspeed(Question& q) {
  const planner::Strategy& s = q.s;
  const bool offloads = s.offloads("params");
  q.require_common("deepspeed", offloads ? "params" : "optimizer");
  for (const auto& [key, degree] : {std::pair{"tensor", s.tensor}, {"pipeline", s.pipeline},
                                    {"context", s.context}, {"expert", s.expert}})
    q.require(degree == 1, fmt::format("{}={}", key, degree), std::string(kOneRank),
              fmt::format("plan with --pin {}=1, or emit for megatron", key));
  q.require(s.sharding == Sharding::none || s.shard_group == s.data_ranks() ||
                s.sharding == Sharding::zero3,
            fmt::format("shard_group={}", s.shard_group), "all data ranks in one group", "");
  const bool whole = s.checkpoint == Checkpoint::every_k && s.checkpoint_every == 1;
  q.require(s.checkpoint == Checkpoint::none || whole,
            s.checkpoint == Checkpoint::every_k
                ? fmt::format("checkpoint=every_k({})", s.checkpoint_every)
                : fmt::format("checkpoint={}", name(s.checkpoint)),
            "checkpoint=none, or every_k(1), which gradient_checkpointing_enable() means",
            "plan with --pin checkpoint='none|every_k(1)'");
  q.require_wide_products();
  q.require(q.job().mtp_layers == 0, fmt::format("mtp={}", q.job().mtp_layers), "mtp=0",
            "plan with --mtp 0");
  q.require_liger();
}

core::Json zero(const planner::Strategy& s) {
  constexpr std::int64_t kStages[] = {0, 1, 2, 3};
  core::Json zero = core::Json::object();
  zero.set("stage", kStages[static_cast<std::size_t>(s.sharding)]);
  zero.set("overlap_comm", s.overlap);
  zero.set("reduce_bucket_size", s.bucket_bytes / 2);  // elements of 16 bits
  zero.set("contiguous_gradients", true);
  if (s.sharding == Sharding::zero3 && s.shard_group < s.data_ranks())
    zero.set("zero_hpz_partition_size", s.shard_group);
  const auto device = [] { return core::Json::object({{"device", "cpu"}, {"pin_memory", true}}); };
  if (s.offloads("optimizer") || s.offloads("params")) zero.set("offload_optimizer", device());
  if (s.offloads("params")) zero.set("offload_param", device());
  return zero;
}

// As DeepSpeed makes it itself: its own kernels, on the host where the state is there.
core::Json own_optimizer(planner::OptimizerKind kind) {
  core::Json params = core::Json::object({{"lr", 1e-4}});
  if (kind == planner::OptimizerKind::adamw) params.set("weight_decay", 0.01);
  const std::string_view type = kind == planner::OptimizerKind::adamw  ? "AdamW"
                                : kind == planner::OptimizerKind::adam ? "Adam"
                                                                       : "SGD";
  return core::Json::object({{"type", type}, {"params", std::move(params)}});
}

bool has_own(planner::OptimizerKind kind) {
  return kind == planner::OptimizerKind::adamw || kind == planner::OptimizerKind::adam ||
         kind == planner::OptimizerKind::sgd;
}

std::vector<std::string> notes_for_deepspeed(const Question& q) {
  const planner::Strategy& s = q.s;
  const planner::Job& job = q.job();
  std::vector<std::string> all{
      fmt::format("what your script decides was planned as seq_len={}, attention={}, compile={}",
                  job.seq_len, job.attention, job.compile)};
  if (s.checkpoint != Checkpoint::none)
    all.push_back(fmt::format("checkpoint={}: turn it on in the model's code "
                              "(gradient_checkpointing_enable() recomputes every layer)",
                              name(s.checkpoint)));
  note_liger(q, all);
  if (has_own(q.job().optimizer))
    all.push_back("optimizer: DeepSpeed makes it, with a learning rate of 1e-4. Give your own rate "
                  "and schedule there, and no optimizer to deepspeed.initialize");
  else
    all.push_back(fmt::format("optimizer {}: make it in your code and give it to "
                              "deepspeed.initialize",
                              planner::optimizer(q.job().optimizer).name));
  note_deepspeed_groups(q, all);
  return all;
}

// All but the optimizer and what limits the gradients' norm.
core::Json file_of(const Question& q) {
  const planner::Strategy& s = q.s;
  core::Json file = core::Json::object();
  file.set("train_batch_size", q.job().global_batch);
  file.set("train_micro_batch_size_per_gpu", s.micro_batch);
  file.set("gradient_accumulation_steps", s.grad_accum);
  const core::DType compute = q.recipe.compute;
  if (compute == core::DType::bf16) file.set("bf16", core::Json::object({{"enabled", true}}));
  // A loss scale of 0 is a dynamic one there, as here.
  if (compute == core::DType::f16)
    file.set("fp16", core::Json::object({{"enabled", true}, {"loss_scale", q.job().loss_scale}}));
  if (q.job().reduce_dtype)
    file.set("communication_data_type",
             *q.job().reduce_dtype == core::DType::f32   ? "fp32"
             : *q.job().reduce_dtype == core::DType::f16 ? "fp16"
                                                         : "bf16");
  return file;
}

}  // namespace

void note_deepspeed_groups(const Question& q, std::vector<std::string>& notes) {
  if (q.s.sharding == Sharding::zero3 && q.s.shard_group < q.s.data_ranks())
    notes.emplace_back("shard_group: zero_hpz_partition_size keeps a second copy of the weights "
                       "within the group; optimizer and gradients are divided over all ranks");
}

core::Json deepspeed_section(const Question& q) {
  core::Json file = file_of(q);
  // The Trainer fills in its own numbers. Another optimizer is one that it makes itself.
  if (q.job().optimizer == planner::OptimizerKind::adamw)
    file.set("optimizer",
             core::Json::object({{"type", "AdamW"},
                                 {"params", core::Json::object({{"lr", "auto"},
                                                                {"betas", "auto"},
                                                                {"eps", "auto"},
                                                                {"weight_decay", "auto"}})}}));
  else
    file.set("zero_allow_untested_optimizer", true);
  file.set("zero_optimization", zero(q.s));
  file.set("gradient_clipping", q.job().clip);
  return file;
}

core::Result<Written> deepspeed(Question& q) {
  check_for_deepspeed(q);
  if (!q.problems.empty()) return q.problems;
  core::Json file = file_of(q);
  const planner::OptimizerKind kind = q.job().optimizer;
  if (has_own(kind)) file.set("optimizer", own_optimizer(kind));
  if (q.s.sharding != Sharding::none && kind != planner::OptimizerKind::adamw &&
      kind != planner::OptimizerKind::adam)
    file.set("zero_allow_untested_optimizer", true);
  file.set("zero_optimization", zero(q.s));
  file.set("gradient_clipping", q.job().clip);
  return Written{.text = core::Code::json(file) + "\n",
                 .notes = notes_for_deepspeed(q),
                 .setup = {},
                 .program = R"("$TRAIN_SCRIPT" --deepspeed_config "$config" "$@")",
                 .file_name = "ds_config.json",
                 .place = "the folder of your training script",
                 .framework = "DeepSpeed"};
}

}  // namespace reports::emit
