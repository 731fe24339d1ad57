#pragma once
// What a job may ask for, before anything is searched, and what it does unasked.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"
#include "planner/question/job.hpp"

namespace planner {

// What a job on this GPU does where nothing is asked for: bf16 where it is computed, else fp16; the
// latest of the kernels that keep no scores which GPU and framework have, else fused_softmax.
core::DType usual_precision(const hw_profiles::Profile& profile);
std::string_view usual_attention(const hw_profiles::Profile& profile);
// Puts them into a job that has the vocabulary's defaults, `precision` and `attention` as asked;
// what differs from those is said, for people. A recipe that states bf16 keeps it.
std::vector<std::string> take_usual(Job& job, const hw_profiles::Profile& profile, bool precision,
                                    bool attention);

// Unknown recipe, a precision that contradicts it, values of the vocabulary that are not lowered,
// and types that the device does not compute. Empty: none.
core::Problems job_problems(const Job& job, const hw_profiles::Profile& profile);

// A step that would take more than a day at the peak of every GPU: no such question is meant, and
// times are counted in integer picoseconds, which hold 106 days. Empty: a shorter one.
core::Problems step_length_problems(const Job& job, std::int64_t parameters, std::int64_t gpus,
                                    const hw_profiles::Profile& profile);
// Whether that alone is what is wrong: more GPUs would do.
bool is_too_long_a_step(const core::Problems& problems);

}  // namespace planner
