// A rank that fails in the middle of a step ends every rank, once, with its own message.
#include <atomic>
#include <chrono>
#include <stdexcept>

#include "exec/communicator/local.hpp"
#include "exec/interpret/interpreter.hpp"
#include "planner/lowering/lower.hpp"
#include "tests/catch.hpp"
#include "tests/property/run_program.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

struct Outcome {
  std::string message;                 // what the run ended with
  int aborted = 0;                     // ranks that were told of another's failure
};

// Runs steps until `failing` meets a sample that it cannot make: its data source believes in a
// negative number of features, whose targets cannot be held. No wait is limited: a rank that is
// not woken hangs the test.
Outcome run_with_failure(const Strategy& unresolved, int failing) {
  const models::ModelSpec spec = small_chain(4, 8);
  models::ModelSpec broken = spec;
  broken.widths.front() = -1;
  const Job job = tiny_job(spec, 12);
  const Strategy s = resolve(spec, job, unresolved);
  const auto graph = models::build_graph(spec, graph_options(job, s));
  REQUIRE(graph.ok());
  const program::Program p = lower(*graph, job, s, {});
  const auto good = exec::DataSource::synthetic(spec, 1, 1);
  const auto bad = exec::DataSource::synthetic(broken, 1, 1);
  exec::LocalWorld world(p.mesh.ranks());
  std::atomic<int> aborted{0};
  Outcome outcome;
  try {
    world.run([&](int rank) {
      const exec::RunContext context{p, spec, rank == failing ? bad : good, world, 1};
      exec::Interpreter interpreter(context, rank);
      try {
        for (std::int64_t step = 0; step < 3; ++step) interpreter.step(step);
      } catch (const exec::Aborted& e) {
        if (e.rank() == failing) ++aborted;
        throw;
      }
    });
  } catch (const std::exception& e) {
    outcome.message = e.what();
  }
  outcome.aborted = aborted;
  return outcome;
}

std::string cause() {
  try {
    std::vector<double> impossible(static_cast<std::size_t>(-1));
  } catch (const std::length_error& e) {
    return e.what();
  }
  return "";
}

}  // namespace

TEST_CASE("a rank that throws in a step ends all ranks with one message") {
  for (const Strategy& s :
       {strategy(4, 12, 1, ring), strategy(4, 12, 1, sharded(Sharding::zero1)),
        strategy(4, 12, 1, sharded(Sharding::zero2)), strategy(4, 12, 1, sharded(Sharding::zero3)),
        strategy(4, 12, 1, servers(2, true)), strategy(4, 12, 1, servers(1, false))})
    for (int failing : {0, 3}) {
      INFO(to_text(s) << " rank " << failing);
      const Outcome outcome = run_with_failure(s, failing);
      CHECK(outcome.message == cause());
      CHECK(outcome.aborted == (s.workers() + s.separate_servers() - 1));
    }
}

TEST_CASE("a stage that throws wakes the stages that wait for its messages") {
  for (Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b}) {
    INFO(name(schedule));
    const Outcome outcome = run_with_failure(strategy(1, 12, 1, stages(3, schedule)), 2);
    CHECK(outcome.message == cause());
    CHECK(outcome.aborted == 2);
  }
}
