#pragma once
// Internal: what a job may ask for, before anything is searched.

#include <cstdint>

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"
#include "planner/job.hpp"

namespace planner {

// Unknown recipe, a precision that contradicts it, values of the vocabulary that are not lowered,
// and types that the device does not compute. Empty: none.
core::Problems job_problems(const Job& job, const hw_profiles::Profile& profile);

// A step that would take more than a day at the peak of every GPU: no such question is meant, and
// times are counted in integer picoseconds, which hold 106 days. Empty: a shorter one.
core::Problems step_length_problems(const Job& job, std::int64_t parameters, std::int64_t gpus,
                                    const hw_profiles::Profile& profile);

}  // namespace planner
