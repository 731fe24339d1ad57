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
  q.require(s.loss_chunks == 1, fmt::format("loss_chunks={}", s.loss_chunks), "loss_chunks=1",
            "plan with --pin loss_chunks=1");
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

std::vector<std::string> notes_for_deepspeed(const Question& q) {
  const planner::Strategy& s = q.s;
  std::vector<std::string> all;
  if (s.checkpoint != Checkpoint::none)
    all.push_back(fmt::format("checkpoint={}: turn it on in the model's code "
                              "(gradient_checkpointing_enable() recomputes every layer)",
                              name(s.checkpoint)));
  if (s.sharding == Sharding::zero3 && s.shard_group < s.data_ranks())
    all.push_back("shard_group: zero_hpz_partition_size keeps a second copy of the weights within "
                  "the group; optimizer and gradients are divided over all ranks");
  if (q.job().framework == "native")
    all.push_back("planned with framework native: `planner --framework deepspeed` predicts what "
                  "DeepSpeed takes");
  return all;
}

}  // namespace

core::Result<Launch> deepspeed(Question& q) {
  check_for_deepspeed(q);
  if (!q.problems.empty()) return q.problems;
  const planner::Strategy& s = q.s;
  core::Json file = core::Json::object();
  file.set("train_batch_size", q.job().global_batch);
  file.set("train_micro_batch_size_per_gpu", s.micro_batch);
  file.set("gradient_accumulation_steps", s.grad_accum);
  const core::DType compute = q.recipe.compute;
  if (compute == core::DType::bf16) file.set("bf16", core::Json::object({{"enabled", true}}));
  if (compute == core::DType::f16) file.set("fp16", core::Json::object({{"enabled", true}}));
  if (q.job().reduce_dtype)
    file.set("communication_data_type",
             *q.job().reduce_dtype == core::DType::f32   ? "fp32"
             : *q.job().reduce_dtype == core::DType::f16 ? "fp16"
                                                         : "bfp16");
  file.set("zero_optimization", zero(s));
  file.set("gradient_clipping", 1.0);
  Launch launch;
  launch.text = core::dump(file) + '\n';
  launch.notes = notes_for_deepspeed(q);
  return launch;
}

}  // namespace reports::emit
