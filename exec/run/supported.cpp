#include "exec/run/supported.hpp"

#include <fmt/ranges.h>

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
  refuse(job.precision == core::DType::f4, "precision", "bf16, fp16 or fp8", "nvfp4",
         "plan with --precision fp8");
  const bool f8 = job.precision == core::DType::f8;
  refuse(f8 && job.fp8_scaling == "delayed", "fp8_scaling",
         "scales of this step: tensorwise, rowwise, blockwise or mxfp8", "delayed",
         "plan with --fp8-scaling tensorwise");
  refuse(f8 && !job.fp8_tensors.empty(), "fp8_tensors", "none: products alone are in 8 bits",
         fmt::format("{}", fmt::join(job.fp8_tensors, ", ")), "plan without --fp8-tensors");
  refuse(job.quantization == "gptq", "quantization", "none, int8, nf4 or two_factor", "gptq",
         "plan with --quantization nf4");
  refuse(job.framework != "native", "framework", "native", job.framework,
         "plan without --framework: only native is executed");
  return problems;
}

}  // namespace exec
