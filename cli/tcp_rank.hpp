#pragma once
// One rank of a run whose ranks are joined by TCP, in the binary that links the executor.

#include <string>
#include <string_view>

#include "cli/rank_process.hpp"
#include "exec/communicator/tcp/tcp_world.hpp"

namespace cli {

// Whether this process is to be a rank: `exec` with `--communicator NAME`, under a launcher. tcp:
// all of the run goes over TCP; nccl: what controls it.
bool is_tcp_rank(std::string_view communicator, int count, char** arguments);

// Meets the other ranks, runs the plan of rank 0 with them, and ends the process. options: how it
// runs; who follows the ranks is read from the environment.
[[noreturn]] void be_tcp_rank(int count, char** arguments, RankOptions options = {});

// How a rank of this program meets the others. plan_digest: empty where it does not have the plan.
exec::TcpOptions tcp_options(exec::Place place, std::string plan_digest);

}  // namespace cli
