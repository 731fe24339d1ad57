#pragma once
// Internal: what fewer of the GPUs would take, said among a plan's assumptions. Pure; thread-safe.

#include "planner/plan/plan.hpp"
#include "planner/search/search.hpp"

namespace planner {

// How a sentence begins that names fewer GPUs which would be faster; and what one has of a kind
// that alone would be.
inline constexpr std::string_view kFewerFaster = "fewer of the GPUs would be faster";
inline constexpr std::string_view kFasterAlone = ", which is faster than all together";

// Slow links can make a step over all GPUs longer than one over a half, a quarter and so on of
// them. These are asked as far as their use of the peak would stay below what any step reaches, and
// their kernels alone would take less than the step.
// Of GPUs of several kinds, each kind alone is asked. Only where the time is what counts.
void state_fewer_gpus(const Request& request, Plan& plan);

}  // namespace planner
