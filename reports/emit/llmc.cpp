// llm.c, train_gpt2.cu (f1e2ace): GPT-2 on data ranks that mpirun starts. What its command line
// does not say is chosen when it is compiled.
#include <array>

#include "reports/emit/parts.hpp"

namespace reports::emit {
namespace {

using core::Code;
using core::code;

using planner::Checkpoint;
using planner::Sharding;

// gpt2_set_hyperparameters: width and heads of each depth.
struct Depth {
  std::int64_t layers, hidden, heads;
};
constexpr std::array<Depth, 8> kDepths{{{6, 384, 6}, {12, 768, 12}, {24, 1024, 16}, {36, 1280, 20},
                                        {48, 1600, 25}, {60, 1920, 30}, {72, 2880, 30},
                                        {84, 3456, 36}}};
constexpr std::int64_t kVocabulary = 50257, kPositions = 1024;

bool is_known(const models::ModelSpec& m, std::int64_t layers) {
  for (const Depth& d : kDepths)
    if (d.layers == layers && d.hidden == m.hidden && d.heads == m.heads)
      return m.ffn_hidden == 4 * m.hidden && m.vocab == kVocabulary;
  return false;
}

void check_for_llmc(Question& q) {
  const planner::Strategy& s = q.s;
  const planner::Job& job = q.job();
  q.require_common("llmc", "");
  q.require_known_layers("llmc", q.model());
  q.require(q.model().family == models::Family::gpt2 && is_known(q.model(), q.layers()),
            "model " + q.model().name, "GPT-2 in one of the sizes that llm.c knows (d12 to d84)",
            "");
  q.require(job.seq_len <= kPositions, fmt::format("seq_len={}", job.seq_len),
            "at most 1024 tokens, GPT-2's positions", "plan with --seq 1024");
  for (const auto& [key, degree] : {std::pair{"tensor", s.tensor}, {"pipeline", s.pipeline},
                                    {"context", s.context}, {"expert", s.expert}})
    q.require(degree == 1, fmt::format("{}={}", key, degree), "data ranks alone",
              fmt::format("plan with --pin {}=1", key));
  q.require(s.sharding == Sharding::none || s.sharding == Sharding::zero1,
            fmt::format("sharding={}", name(s.sharding)), "sharding=none or zero1",
            "plan with --pin sharding=zero1");
  q.require(s.sharding == Sharding::none || s.shard_group == s.data_ranks(),
            fmt::format("shard_group={}", s.shard_group), "all data ranks in one group", "");
  q.require(s.checkpoint == Checkpoint::none || s.checkpoint == Checkpoint::pointwise,
            fmt::format("checkpoint={}", name(s.checkpoint)),
            "checkpoint=none, or pointwise: it computes the GELU and norms again",
            "plan with --pin checkpoint='none|pointwise'");
  q.require(s.loss_chunks == 1, fmt::format("loss_chunks={}", s.loss_chunks), "loss_chunks=1",
            "plan with --pin loss_chunks=1");
  q.require(job.optimizer == planner::OptimizerKind::adamw,
            fmt::format("optimizer={}", planner::optimizer(job.optimizer).name), "adamw",
            "plan with --optimizer adamw");
  q.require_wide_products();
  q.require(job.mtp_layers == 0, fmt::format("mtp={}", job.mtp_layers), "mtp=0",
            "plan with --mtp 0");
  const bool flash = job.attention == "flash2" || job.attention == "fused_softmax";
  q.require(flash, "attention=" + job.attention, "flash2 (cuDNN) or fused_softmax",
            "plan with --attention flash2");
  q.require(!job.reduce_dtype || *job.reduce_dtype == q.recipe.gradient, "reduce_dtype",
            "gradients summed in their own type", "plan without --reduce-dtype");
  q.require(job.clip == 0 || job.clip == 1, fmt::format("clip={}", job.clip),
            "a norm of 1, which llm.c has in its code", "plan with --clip 1");
  q.require(!planner::scales_loss(job),
            fmt::format("loss_scale={}", planner::loss_scale_text(job.loss_scale)),
            "none: llm.c scales no loss", "plan with --precision bf16, or --loss-scale none");
}

std::vector<std::string> notes_for_llmc(const Question& q) {
  std::vector<std::string> all{
      "tiny Shakespeare, 20 steps: give -i and -j your tokens, and a schedule of your own"};
  if (q.job().clip == 0)
    all.push_back("clip: llm.c scales gradients down to a norm of 1, which was not planned");
  if (q.job().compile)
    all.push_back("compile: its kernels are fused by hand; there is no compiler");
  if (!q.s.overlap && q.s.data > 1)
    all.push_back("overlap=false: llm.c sums a layer's gradients behind the backward pass");
  if (q.s.data > 1) all.push_back("bucket_bytes: a bucket is a layer there");
  return all;
}

}  // namespace

core::Result<Written> llmc(Question& q) {
  check_for_llmc(q);
  if (!q.problems.empty()) return q.problems;
  const planner::Job& job = q.job();
  const Code precision = Code::own(q.recipe.compute == core::DType::bf16  ? "BF16"
                                   : q.recipe.compute == core::DType::f16 ? "FP16"
                                                                          : "FP32");
  const std::int64_t per_node = q.plan.gpus / std::max<std::int64_t>(q.plan.nodes, 1);
  Written written;
  written.notes = notes_for_llmc(q);
  written.text = code(
      "#!/usr/bin/env bash\n"
      "# {}\n"
      "# Start in a checkout of llm.c, on one node, with the options by which mpirun finds\n"
      "# {} nodes, as --host first:{},second:{}. Before, on each node:\n"
      "#   dev/download_starter_pack.sh && make train_gpt2cu PRECISION={} USE_CUDNN={}\n"
      "set -euo pipefail\n"
      "mpirun -np {} \"$@\" ./train_gpt2cu -e d{} -b {} -t {} -d {} \\\n"
      "  -z {} -r {} -w {} -x 20 -l 0.0001 -s 0 -pg {}\n",
      q.title(), q.plan.nodes, per_node, per_node, precision, job.attention == "flash2" ? 1 : 0,
      q.plan.gpus, q.layers(), q.s.micro_batch, job.seq_len, job.global_batch * job.seq_len,
      q.s.sharding == Sharding::zero1 ? 1 : 0, q.s.checkpoint == Checkpoint::none ? 0 : 2,
      q.recipe.has_master ? 1 : 0, per_node);
  return written;
}

}  // namespace reports::emit
