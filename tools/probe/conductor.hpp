#pragma once
// Runs the sections one after the other, each as a process of its own under a time limit, and keeps
// the result file whole after every one. The conductor itself never makes a CUDA context.

#include <string>
#include <vector>

#include "tools/probe/options.hpp"

namespace probe {

// Returns the exit status: 0, 3 (no usable GPU and nothing written, or a section failed), or 130.
int run_sections(const Options& options, const std::vector<std::string>& command_line);

}  // namespace probe
