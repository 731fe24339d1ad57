// `planner-exec-mpi`: one rank of a run over MPI. mpirun or srun starts one for each rank of the
// plan. Rank 0 has the command line: it reads the plan, tells the others what to run, and delivers
// the record; they read no arguments and say nothing. Started by hand, it is a front door like
// `planner`, and starts the launcher.

#include <sys/prctl.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include "cli/mpi_launch.hpp"
#include "cli/process.hpp"
#include "cli/run_options.hpp"
#include "cli/verbs.hpp"
#include "core/check.hpp"
#include "exec/communicator/mpi/mpi_world.hpp"
#include "exec/run/pack.hpp"
#include "exec/run/run.hpp"

namespace {

using cli::RunRequest;

// What rank 0 tells the others; empty: nothing is run.
std::string pack(const planner::Plan& plan, const RunRequest& r) {
  exec::Packer p;
  p.text(planner::to_json_text(plan));
  for (const std::string* text : {&r.backend, &r.communicator, &r.collectives, &r.data})
    p.text(*text);
  for (const auto* text : {&r.checkpoint_dir, &r.trace}) {
    p.value(text->has_value());
    p.text(text->value_or(""));
  }
  p.value(r.steps);
  p.value(r.seed);
  p.value(r.candidate.value_or(0));
  p.value(r.checkpoint_every);
  p.value(r.trace_ops);
  p.value(static_cast<bool>(r.progress));
  return p.take();
}

RunRequest unpack_request(exec::Unpacker& u) {
  RunRequest r;
  for (std::string* text : {&r.backend, &r.communicator, &r.collectives, &r.data})
    *text = u.text();
  for (auto* text : {&r.checkpoint_dir, &r.trace}) {
    const auto given = u.value<bool>();
    std::string value = u.text();
    if (given) *text = std::move(value);
  }
  r.steps = u.value<std::int64_t>();
  r.seed = u.value<std::uint64_t>();
  r.candidate = u.value<int>();
  r.checkpoint_every = u.value<std::int64_t>();
  r.trace_ops = u.value<bool>();
  if (u.value<bool>()) r.progress = cli::step_writer(r.steps);
  return r;
}

// The world has ended: says why where this rank is the one to say it. MPI is not asked to finish,
// which it could not without the others.
[[noreturn]] void leave(exec::MpiWorld& world, const std::string& why) {
  if (!world.left())
    for (;;) ::pause();  // the progress thread is ending this process
  // The first rank to go takes the others with it within milliseconds: mpirun sees to that. So rank
  // 0, which takes back what was half written, goes first.
  if (world.rank() != 0 && !world.speaks()) std::this_thread::sleep_for(std::chrono::seconds(2));
  if (world.signal() == SIGINT && world.rank() == 0) cli::write_reason("interrupted");
  if (world.signal() != 0) ::_exit(128 + world.signal());
  if (world.speaks()) cli::write_reason(why);
  ::_exit(cli::kFailed);
}

core::Result<exec::RunRecord> run(exec::MpiWorld& world, const planner::Plan& plan,
                                  const RunRequest& request) {
  if (request.collectives == "mpi") world.use_library_collectives();
  exec::RunOptions options = cli::run_options(request);
  options.processes = &world;
  return exec::run(plan, options);
}

// Runs body; whatever it throws ends the world and this process.
template <class Body>
auto or_leave(exec::MpiWorld& world, const Body& body) {
  std::string why;
  try {
    return body();
  } catch (const exec::RunFailure& failure) {
    why = failure.what();
  } catch (const std::exception& error) {
    why = world.fail(error.what());
  }
  leave(world, why);
}

int lead(exec::MpiWorld& world, int count, char** arguments) {
  bool told = false;
  const int code =
      cli::run_planner(count, arguments, [&](const planner::Plan& plan, const RunRequest& r) {
        return or_leave(world, [&] {
          told = true;
          world.exchange(pack(plan, r));
          return run(world, plan, r);
        });
      });
  or_leave(world, [&] {
    if (!told) world.exchange("");
    world.finish();
  });
  return code;
}

int follow(exec::MpiWorld& world) {
  return or_leave(world, [&] {
    const std::string told = world.exchange("").front();
    int code = cli::kDone;
    if (!told.empty()) {
      exec::Unpacker unpacker(told);
      const auto plan = planner::parse_plan(unpacker.text(), "the plan of rank 0");
      PLANNER_CHECK(plan.ok(), core::to_text(plan.problems()));
      const RunRequest request = unpack_request(unpacker);
      const auto record = run(world, *plan, request);
      if (!record.ok()) code = core::exit_code(record.problems());
    }
    world.finish();
    return code;
  });
}

}  // namespace

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
    // What is left of MPI and its threads needs no tidying, and a signal now is no interruption.
    ::_exit(world.rank() == 0 ? lead(world, count, arguments) : follow(world));
  } catch (const std::exception& error) {
    cli::write_reason(error.what());
    ::_exit(cli::kFailed);
  }
}
