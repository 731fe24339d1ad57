#pragma once
// Whether a run's times can be compared with its plan's. A run on other hardware than planned has
// the plan's bytes and counts, but its times say nothing of the plan's. Pure; thread-safe.

#include <optional>
#include <string>

#include "exec/record/run_record.hpp"

namespace reports {

struct OtherHardware {
  std::string run_on, planned_for;
};

// Empty: the run was on what the plan was made for. The host's cores run plans of a profile without
// a compute capability (`--gpu host`, or a file of `planner calibrate --backend host`). A GPU runs
// plans of a profile of its own compute capability whose model ("H200", "3090") stands in the
// device's name, with one rank on each GPU.
std::optional<OtherHardware> other_hardware(const exec::RunRecord& run);

// "the run used 2 threads on 2 cores of an EPYC, and the plan is for 8 x H100 SXM5 80GB"
std::string to_text(const OtherHardware& other);

}  // namespace reports
