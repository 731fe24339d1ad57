#pragma once
// Internal: what a job may ask for, before anything is searched.

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"
#include "planner/job.hpp"

namespace planner {

// Unknown recipe, a precision that contradicts it, values of the vocabulary that are not lowered,
// and types that the device does not compute. Empty: none.
core::Problems job_problems(const Job& job, const hw_profiles::Profile& profile);

}  // namespace planner
