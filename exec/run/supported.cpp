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
  refuse(job.quantization != "none", "quantization", "none on the host", job.quantization,
         "plan with --quantization none");
  refuse(job.lora_rank > 0 && s.sharding == Sharding::zero3, "sharding",
         "none, zero1 or zero2 with LoRA on the host", "zero3",
         "plan with --forbid sharding=zero3");
  refuse(s.sequence_parallel, "sequence_parallel", "false on the host", "true",
         "plan with --forbid sequence_parallel=true");
  return problems;
}

}  // namespace exec
