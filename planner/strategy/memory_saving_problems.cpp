#include "planner/strategy/memory_saving_problems.hpp"

#include <fmt/format.h>

namespace planner {
namespace {

// What copies between device and host are lowered for.
void add_offload(const models::ModelSpec& spec, const Job& job, const Strategy& s,
                 core::Problems& problems) {
  const auto refuse = [&](bool asked, const char* expected, const char* found,
                          const char* fix = "") {
    if (asked) problems.push_back({"offload", expected, found, fix});
  };
  refuse(job.mode == Mode::inference, "nothing for inference", "offload");
  if (s.offloads("activations")) {
    refuse(!models::is_transformer(spec.family) || !spec.kinds.empty(),
           "optimizer or params, since activations go to the host only where all layers are alike",
           "activations", "leave activations out of offload");
    refuse(s.checkpoint == Checkpoint::memory_poor || s.checkpoint == Checkpoint::selective_op,
           "activations with checkpoint=none, every_k, selective, pointwise or modules",
           "another checkpoint", "pin checkpoint=selective");
  }
  refuse(s.grad_sync == GradSync::parameter_server, "nothing with parameter servers", "offload");
  if (!s.offloads("params")) return;
  refuse(s.sharding != Sharding::zero3, "params with sharding=zero3 alone", "params",
         "optimizer goes with any sharding");
  refuse(s.shard_group != s.data_ranks(), "params with shards over all data ranks",
         "a smaller shard_group");
  // Modules for multi-token prediction read the table on the last stage.
  const bool tied = spec.tied_embeddings || job.mtp_layers > 0;
  refuse(s.pipeline > 1 && tied, "params without tied embeddings on two stages",
         "params");
}

// Chunks are equal for every micro-batch: they divide the tokens that a rank has of one sample.
void add_loss_chunks(const models::ModelSpec& spec, const Job& job, const Strategy& s,
                     core::Problems& problems) {
  const auto refuse = [&](std::string expected, const char* fix) {
    problems.push_back({"loss_chunks", std::move(expected), fmt::format("{}", s.loss_chunks), fix});
  };
  if (job.mode == Mode::inference)
    return refuse("1 for inference", "its logits are the result, all of them");
  if (!models::has_language_head(spec))
    return refuse("1 for a model without a head over a vocabulary", "pin loss_chunks=1");
  const models::Variants& v = spec.variants;
  if (v.logit_scale != 1 || v.logit_soft_cap > 0)
    return refuse("1 for a model that scales or caps its logits", "pin loss_chunks=1");
  const std::int64_t tokens = job.seq_len / s.context;
  if (s.loss_chunks < 1 || tokens % s.loss_chunks != 0)
    refuse(fmt::format("a divisor of the {} tokens that a rank has of a sample", tokens), "");
}

}  // namespace

void add_memory_saving_problems(const models::ModelSpec& spec, const Job& job, const Strategy& s,
                                core::Problems& problems) {
  if (!s.offload.empty()) add_offload(spec, job, s, problems);
  if (s.loss_chunks != 1) add_loss_chunks(spec, job, s, problems);
}

}  // namespace planner
