#pragma once
// One rank of a run whose ranks are joined by TCP, in the binary that links the executor.

namespace cli {

// Whether this process is to be a rank: `exec` with `--communicator tcp`, under a launcher.
bool is_tcp_rank(int count, char** arguments);

// Meets the other ranks, runs the plan of rank 0 with them, and ends the process.
[[noreturn]] void be_tcp_rank(int count, char** arguments);

}  // namespace cli
