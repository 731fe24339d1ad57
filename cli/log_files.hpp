#pragma once
// A framework's log from a file, compared with the plan that it is a run of.

#include <string>

#include "reports/logs/log_comparison.hpp"

namespace cli {

// Errors: a file that cannot be read or is above 256 MiB, and those of read_log() and
// compare_log().
core::Result<reports::logs::LogComparison> compare_log_file(const planner::Plan& plan,
                                                            const std::string& path);

}  // namespace cli
