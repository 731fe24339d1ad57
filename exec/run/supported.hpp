#pragma once
// What a plan may ask for that the host executor has no kernels or transfers for: refused by name
// before anything starts. Pure.

#include "core/result.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/strategy.hpp"

namespace exec {

// Empty: the host can run it.
core::Problems unsupported(const planner::Job& job, const planner::Strategy& strategy);

}  // namespace exec
