// A run that stops after any step and goes on with what Interpreter::state() holds, in fresh
// memory, makes the bits of a run that never stopped.
#include <algorithm>

#include "exec/communicator/local.hpp"
#include "exec/interpret/interpreter.hpp"
#include "planner/lowering/lower.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

using States = std::vector<std::vector<std::byte>>;  // of each rank, its buffers one after another

void copy_from(const States& states, int rank, exec::Interpreter& interpreter) {
  auto at = states[static_cast<std::size_t>(rank)].begin();
  for (const std::span<std::byte> buffer : interpreter.state()) {
    std::copy_n(at, buffer.size(), buffer.begin());
    at += static_cast<std::ptrdiff_t>(buffer.size());
  }
}

// Steps [first, last) from `states` (empty: from the start), which they change.
void run_steps(const program::Program& p, const models::ModelSpec& spec, std::int64_t first,
               std::int64_t last, States& states) {
  const auto data = exec::DataSource::synthetic(spec, p.seq_len, kSeed);
  exec::LocalWorld world(p.mesh.ranks());
  exec::RunContext context{p, spec, data, world, kSeed};
  context.first = first;
  context.steps = last;
  const bool fresh = states.empty();
  if (fresh) states.resize(static_cast<std::size_t>(p.mesh.ranks()));
  world.run([&](int rank) {
    exec::Interpreter interpreter(context, rank);
    if (!fresh) copy_from(states, rank, interpreter);
    for (std::int64_t s = first; s < last; ++s) interpreter.step(s);
    auto& kept = states[static_cast<std::size_t>(rank)];
    kept.clear();
    for (const std::span<std::byte> buffer : interpreter.state())
      kept.insert(kept.end(), buffer.begin(), buffer.end());
  });
}

void check_resumes(const models::ModelSpec& spec, const Job& job, const Strategy& unresolved) {
  const Strategy s = resolve(spec, job, unresolved);
  INFO(spec.name << " " << to_text(s) << " " << job.recipe);
  const auto graph = models::build_graph(spec, graph_options(job, s));
  REQUIRE(graph.ok());
  const program::Program p = lower(*graph, job, s, {});
  States whole, parts;
  run_steps(p, spec, 0, 3, whole);
  for (std::int64_t step = 0; step < 3; ++step) run_steps(p, spec, step, step + 1, parts);
  CHECK(whole == parts);
}

}  // namespace

TEST_CASE("a run that stops after every step makes the bits of one that never stops") {
  for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()})
    for (const char* recipe : {"fp32", "mixed", "lean", "fsdp2"}) {
      const Job job = tiny_job(spec, 12, recipe);
      check_resumes(spec, job, strategy(3, 12, 1, ring));
      for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
        check_resumes(spec, job, strategy(3, 12, 2, sharded(z)));
      check_resumes(spec, job, strategy(2, 12, 1, servers(2, true)));
      check_resumes(spec, job, strategy(2, 12, 1, servers(1, false)));
      check_resumes(spec, job, strategy(2, 12, 1, stages(2, Schedule::one_f_one_b)));
      check_resumes(spec, job, strategy(2, 12, 1, stages(3, Schedule::pipedream_2bw)));
      check_resumes(spec, job, strategy(2, 12, 6, stages(3, Schedule::pipedream)));
      Strategy s = strategy(1, 12, 2, stages(2, Schedule::zb_h1));
      check_resumes(spec, job, s);
    }
}

TEST_CASE("a loss scale goes on where it was, in steps that overflow and in others") {
  const models::ModelSpec spec = tiny_gpt();
  for (const double scale : {0.0, 1'024.0, kMostLossScale}) {
    Job job = tiny_job(spec, 12, "mixed");
    job.precision = core::DType::f16;
    job.loss_scale = scale;
    check_resumes(spec, job, strategy(3, 12, 2, sharded(Sharding::zero1)));
    check_resumes(spec, job, mesh(2, 3, 2));
  }
}

TEST_CASE("divided experts go on where a run that never stopped is") {
  for (const Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero3}) {
    Strategy s = strategy(4, 12, 1);
    s.expert = 2;
    if (z != Sharding::none) sharded(z)(s);
    check_resumes(tiny_mixture(), tiny_job(tiny_mixture(), 12, "mixed"), s);
  }
}

TEST_CASE("every optimizer goes on from its own state, and adapters from theirs") {
  Job job = tiny_job(tiny_gpt(2), 6);
  for (const Optimizer& o : optimizers()) {
    job.optimizer = o.kind;
    INFO(o.name);
    check_resumes(tiny_gpt(2), job, strategy(2, 6, 3, sharded(Sharding::zero1)));
  }
  job.lora_rank = 3;
  check_resumes(tiny_gpt(2), job, strategy(2, 6, 3, ring));
}
