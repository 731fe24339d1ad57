#pragma once
// What a run takes of the system, in words for a message.

#include <string>

#include "exec/communicator/processes.hpp"
#include "sim/program/program.hpp"

namespace exec {

// Threads of this process: "24 threads: 8 for ranks, 16 for their streams". processes null: all
// ranks are here.
std::string threads_needed(const program::Program& program, const Processes* processes);

}  // namespace exec
