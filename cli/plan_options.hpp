#pragma once
// The options that ask a question (design, command line), and the Request that they make.

#include <optional>
#include <string>
#include <vector>

#include "cli/option_set.hpp"
#include "core/code.hpp"
#include "core/result.hpp"
#include "planner/search/search.hpp"

namespace cli {

// As typed; empty: not given.
struct PlanOptions {
  std::optional<std::string> model, model_like;
  std::optional<std::string> gpus, gpu, node, gpus_per_node, internode_gbps, site;
  std::optional<std::string> seq, global_batch, mode, recipe, precision, fp8_scaling,
      fp8_tensors, optimizer, lora_rank,
      lora_targets, quantization, attention, framework, reduce_dtype, expert_imbalance, mtp, clip,
      loss_scale;
  std::optional<std::string> objective, tokens, top, candidate, threads, max_risk, simpler_within,
      host_memory, host_bandwidth, robust, search;
  std::vector<std::string> pins, forbids, prices;
  bool allow_stale = false;
  // Of "--gpus 8xH100+8xA100", once it is split: how many of each in --gpu are one cluster. Empty:
  // the GPUs of --gpu are compared.
  std::vector<std::int64_t> counts{};
};

void add_plan_options(OptionSet& options, PlanOptions& plan);

// The command line that asks this, as a shell reads it.
core::Code command_of(const PlanOptions& options);

// Of these the options that name a machine, and what they name; empty: no --gpu.
void add_machine_options(OptionSet& options, PlanOptions& plan);
core::Result<std::optional<hw_profiles::Profile>> machine_of(const PlanOptions& options);

// One request per GPU named by --gpu, the first of which is planned in full; the others tell the
// same job on other machines. Without --gpu: a GPU of this machine, else the default one, as an
// assumption. Problems: all of them at once, each naming its option.
core::Result<std::vector<planner::Request>> requests_of(const PlanOptions& options);

// The plan of the first request, or of the cheapest machine with --objective cost, with the others
// as its other_machines. Where no framework was asked for, what others make of the job is worked
// out too (Plan::other_frameworks).
core::Result<planner::Plan> plan_of(const PlanOptions& options,
                                    const std::vector<planner::Request>& requests);

}  // namespace cli
