#include "exec/run/supported.hpp"

namespace exec {

using planner::Sharding;

core::Problems unsupported(const planner::Job& job, const planner::Strategy& s) {
  core::Problems problems;
  const auto refuse = [&](bool asked, std::string where, std::string expected, std::string found,
                          std::string fix) {
    if (asked)
      problems.push_back({std::move(where), std::move(expected), std::move(found), std::move(fix)});
  };
  refuse(s.context > 1, "context", "1", std::to_string(s.context), "plan with --pin context=1");
  refuse(s.checkpoint == planner::Checkpoint::selective_op, "checkpoint",
         "none, every_k, selective or memory_poor on the host", "selective_op",
         "plan with --pin checkpoint=selective");
  refuse(s.tp_overlap, "tp_overlap", "false", "true", "plan with --pin tp_overlap=false");
  refuse(job.precision == core::DType::f8, "precision", "bf16 or fp16", "fp8",
         "plan with --precision bf16");
  refuse(job.attention == "fused_softmax" || job.attention == "unfused", "attention",
         "flash2 or flash1", job.attention, "plan with --attention flash2");
  refuse(job.framework != "native", "framework", "native", job.framework,
         "plan without --framework: only native is executed");
  refuse(job.lora_rank > 0 && s.sharding == Sharding::zero3, "sharding",
         "none, zero1 or zero2 with LoRA on the host", "zero3",
         "plan with --forbid sharding=zero3");
  return problems;
}

}  // namespace exec
