#pragma once
// Internal to the search: sentences of Plan::assumptions that need more than the question to say.
// Pure; thread-safe.

#include <string>

#include "planner/evaluate/evaluate.hpp"
#include "planner/search/search.hpp"

namespace planner {

// How far steps may lie from their prediction, why, and what narrows that.
std::string uncertainty_assumption(const hw_profiles::Profile& profile,
                                   const std::string& framework);

// Attention of long samples makes mfu look better than the kernels are: how much of what it counts
// a causal mask leaves out, where that is worth telling.
void state_masked_share(const Question& question, Plan& plan);

// What a choice that keeps something in the memory of its hosts assumes.
void state_hosts(const Request& request, Plan& plan);

// That predictions of few runs like the chosen one have been compared with measurements, where no
// run of the site has been either.
void state_known_runs(Plan& plan);

}  // namespace planner
