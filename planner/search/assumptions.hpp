#pragma once
// Internal to the search: sentences of Plan::assumptions that need more than the question to say.
// Pure; thread-safe.

#include <cstdint>
#include <string>

#include "planner/evaluate/evaluate.hpp"
#include "planner/search/search.hpp"

namespace planner {

// How far steps may lie from their prediction, why, and what narrows that.
std::string uncertainty_assumption(const hw_profiles::Profile& profile,
                                   const std::string& framework);

// How what states it begins.
inline constexpr std::string_view kMaskedShare = "causal attention counts whole in mfu";
// Attention of long samples makes mfu look better than the kernels are: how much of what it counts
// a causal mask leaves out, where that is worth telling.
void state_masked_share(const Question& question, Plan& plan);

// That the modules for multi-token prediction are left out, and what they would add.
// REQUIRES: the model has some, and can be built.
std::string what_mtp_adds(const models::ModelSpec& spec, const Job& job);

// What a choice that keeps something in the memory of its hosts assumes.
void state_hosts(const Request& request, Plan& plan);
// Operators that the plan's framework, if it is this tool's executor, has no kernels for on a GPU,
// and those whose kernels no GPU has run.
void state_missing_kernels(Plan& plan);

// Adds what the plan's figures do not rest on: memory of the framework that was compared with
// predictions; and, where no run of the site is known, enough runs like the chosen one. Of products
// in 4 bits, how far published runs were from their predictions.
void state_known_runs(Plan& plan);

}  // namespace planner
