// `planner-exec-mpi`: one rank of a run over MPI. mpirun or srun starts one for each rank of the
// plan. Started by hand, it is a front door like `planner`, and starts the launcher.

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>

#include "cli/mpi_launch.hpp"
#include "cli/process.hpp"
#include "cli/rank_process.hpp"
#include "exec/communicator/mpi/mpi_world.hpp"

int main(int count, char** arguments) {
  if (!cli::joins_mpi_job()) return cli::run_planner(count, arguments, {});
  cli::prepare_process();
  // mpirun ends ranks when it can; when it is killed itself, nobody else would.
  if (std::getenv("OMPI_COMM_WORLD_RANK") != nullptr) ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  const cli::WriteInProgress held;  // a signal ends the world, which ends the process
  exec::MpiOptions options;
  options.stop_signal = &cli::pending_signal();
  options.last_words = [](const std::string& text) {
    if (!text.empty()) cli::write_reason(text);
  };
  try {
    exec::MpiWorld world(options);
    cli::RankOptions rank;
    rank.prepare = [&](const cli::RunRequest& request) {
      if (request.collectives == "mpi") world.use_library_collectives();
    };
    cli::be_rank(world, rank, count, arguments);
  } catch (const std::exception& error) {
    cli::write_reason(error.what());
    ::_exit(cli::kFailed);
  }
}
