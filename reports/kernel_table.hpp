#pragma once
// `planner explain kernels`: where the compute time of the chosen plan's step goes, and how near to
// its roofline each kernel is predicted to come (planner/plan/kernel_times.hpp). File kernels/1:
// times in seconds, of all of a kernel's calls in a step together. Pure; thread-safe.

#include <string>

#include "planner/plan/kernel_times.hpp"
#include "reports/text.hpp"

namespace reports {

std::string kernel_table_text(const planner::Plan& plan, const planner::KernelTimes& times,
                              TextStyle style);
std::string kernel_table_json(const planner::Plan& plan, const planner::KernelTimes& times);

}  // namespace reports
