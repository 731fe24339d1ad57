#include "exec/run/supported.hpp"

namespace exec {

core::Problems unsupported(const planner::Job& job, const planner::Strategy& s) {
  core::Problems problems;
  const auto refuse = [&](bool asked, std::string where, std::string expected, std::string found,
                          std::string fix) {
    if (asked)
      problems.push_back({std::move(where), std::move(expected), std::move(found), std::move(fix)});
  };
  refuse(s.tp_overlap, "tp_overlap", "false", "true", "plan with --pin tp_overlap=false");
  refuse(s.expert_overlap, "expert_overlap", "false", "true",
         "plan with --pin expert_overlap=false");
  refuse(s.expert_dispatch != planner::ExpertDispatch::all_to_all, "expert_dispatch",
         "all_to_all", "deepep", "plan with --pin expert_dispatch=all_to_all");
  refuse(job.expert_imbalance != 1, "expert_imbalance", "1: its routing is balanced", "more",
         "plan without --expert-imbalance");
  refuse(job.precision == core::DType::f8, "precision", "bf16 or fp16", "fp8",
         "plan with --precision bf16");
  refuse(job.quantization == "gptq", "quantization", "none, int8, nf4 or two_factor", "gptq",
         "plan with --quantization nf4");
  refuse(job.framework != "native", "framework", "native", job.framework,
         "plan without --framework: only native is executed");
  return problems;
}

}  // namespace exec
