#pragma once
// What many ranks train against what one rank trains that follows the accumulation order which the
// Program states: losses of every step and every final weight, bit by bit.

#include "tests/property/reference_trainer.hpp"
#include "tests/property/run_program.hpp"

namespace tests {

inline constexpr std::uint64_t kSeed = 7;
inline constexpr std::int64_t kSteps = 2;

ReferenceResult reference(const models::ModelSpec& spec, const planner::Job& job,
                          const program::Program& stated, const planner::Strategy& s,
                          std::int64_t steps);

// "" or where the bits differ first.
std::string difference(const ProgramRun& run, const ReferenceResult& expected);

void check_equal(const models::ModelSpec& spec, const planner::Job& job,
                 const planner::Strategy& s, std::int64_t steps = kSteps,
                 const hw_profiles::Framework& framework = {});

}  // namespace tests
