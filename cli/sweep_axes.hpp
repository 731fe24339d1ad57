#pragma once
// The axes of a sweep: any option that plan takes may be given as a list ("8,16", "bf16,fp8") or a
// range of numbers ("8..64", "8..64+8", number_list.hpp), and each key of the strategy with --each.
// A value that holds commas itself (--lora-targets) is listed with ';'.

#include <string>
#include <utility>
#include <vector>

#include "cli/option_set.hpp"
#include "cli/plan_options.hpp"
#include "core/result.hpp"

namespace cli {

// One question of a sweep, with its values of the options that vary.
struct SweepPoint {
  PlanOptions options;
  std::vector<std::pair<std::string, std::string>> settings;  // "precision", "fp8"
};

inline constexpr std::size_t kMostPoints = 4096;

// Every combination: numbers of GPUs vary fastest, then the last axis. `named`: the plan's options
// as the set knows them, which point into `options`; each: "tensor=1,2,4". Problems: a malformed
// range, more than kMostPoints.
core::Result<std::vector<SweepPoint>> sweep_points(PlanOptions& options,
                                                   const std::vector<NamedValue>& named,
                                                   const std::vector<std::string>& each);

}  // namespace cli
