// Training in fp16: the loss scale is the same on every rank, steps that overflow change nothing,
// and memory and traffic are as predicted.
#include <cmath>

#include "exec/communicator/local.hpp"
#include "exec/interpret/interpreter.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/problems.hpp"
#include "planner/strategy/resolve.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

Job half_precision(const models::ModelSpec& spec, double loss_scale,
                   const std::string& recipe = "mixed") {
  Job job = tiny_job(spec, 12, recipe);
  job.precision = core::DType::f16;
  job.loss_scale = loss_scale;
  return job;
}

using Weights = std::map<std::string, std::vector<std::vector<double>>>;

double distance(const Weights& a, const Weights& b) {
  double sum = 0;
  for (const auto& [path, shards] : a)
    for (std::size_t i = 0; i < shards[0].size(); ++i) {
      const double d = shards[0][i] - b.at(path)[0][i];
      sum += d * d;
    }
  return std::sqrt(sum);
}

// What every rank's state is after `steps`.
std::vector<exec::host::LossScaleState> scales_after(const models::ModelSpec& spec, const Job& job,
                                                     const Strategy& unresolved,
                                                     std::int64_t steps) {
  const Strategy s = resolve(spec, job, unresolved);
  INFO(spec.name << " " << to_text(s));
  REQUIRE(core::to_text(strategy_problems(spec, job, s, s.workers())).empty());
  const program::Program p =
      lower(models::build_graph(spec, graph_options(job, s)).value(), job, s, {});
  const auto data = exec::DataSource::synthetic(spec, p.seq_len, kSeed);
  exec::LocalWorld world(p.mesh.ranks());
  exec::RunContext context{p, spec, data, world, kSeed};
  context.steps = steps;
  std::vector<exec::host::LossScaleState> all(static_cast<std::size_t>(p.mesh.ranks()));
  world.run([&](int rank) {
    exec::Interpreter interpreter(context, rank);
    for (std::int64_t step = 0; step < steps; ++step) interpreter.step(step);
    all[static_cast<std::size_t>(rank)] = interpreter.loss_scale().value();
  });
  return all;
}

std::vector<Strategy> every_kind() {
  std::vector<Strategy> all{strategy(1, 12, 4), strategy(3, 12, 2, ring), mesh(1, 3, 1),
                            strategy(1, 12, 2, stages(2, Schedule::zb_h1)),
                            mesh(2, 3, 2, Sharding::zero1)};
  for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
    all.push_back(strategy(3, 12, 2, sharded(z)));
  for (const char* what : {"optimizer", "params"}) {
    all.push_back(strategy(2, 12, 2, sharded(Sharding::zero3)));
    all.back().offload = {what};
  }
  return all;
}

}  // namespace

TEST_CASE("every rank has the same loss scale, whatever the ranks divide") {
  const models::ModelSpec spec = tiny_gpt();
  for (const Strategy& s : every_kind())
    for (const double scale : {0.0, 1'024.0, kMostLossScale}) {
      INFO(to_text(s) << ", scale " << scale);
      const auto all = scales_after(spec, half_precision(spec, scale), s, 3);
      for (const exec::host::LossScaleState& one : all) {
        CHECK(one.scale == all.front().scale);
        CHECK(one.updates == all.front().updates);
        CHECK(one.factor == all.front().factor);
      }
      if (scale == 1'024.0) CHECK(all.front().updates == 3);
      if (scale != kMostLossScale) continue;
      CHECK(all.front().updates == 0);  // gradients of 2^24 and more are beyond f16
      CHECK(all.front().scale == kMostLossScale);
    }
}

TEST_CASE("steps that overflow change no weight, and a dynamic scale trains in the end") {
  const models::ModelSpec spec = tiny_gpt();
  for (const char* recipe : {"mixed", "fsdp2", "megatron"}) {
    const Strategy s = mesh(2, 3, 2);
    const auto run = [&](double scale, std::int64_t steps) {
      return run_program(spec, half_precision(spec, scale, recipe), s, steps, kSeed);
    };
    INFO(recipe);
    exec::Training still = exec::default_training(OptimizerKind::adamw);
    still.hyper.learning_rate = 0;
    const Weights first = run_program(spec, half_precision(spec, 1, recipe), s, 1, kSeed, {}, {},
                                      false, still).weights;
    CHECK(distance(run(kMostLossScale, 3).weights, first) == 0);
    CHECK(distance(run(0, 8).weights, first) > 0);
  }
}

TEST_CASE("memory and traffic of fp16 are as predicted, to the byte") {
  for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()})
    for (const Strategy& s : every_kind())
      for (const double scale : {0.0, 1.0})
        check_prediction(run_program(spec, half_precision(spec, scale), s, 2, kSeed));
  const models::ModelSpec mixture = tiny_mixture();
  Strategy s = strategy(4, 12, 1);
  s.expert = 2;
  check_prediction(run_program(mixture, half_precision(mixture, 0), s, 2, kSeed));
  Job clipped = half_precision(tiny_gpt(), 0);
  clipped.clip = 0.05;
  check_prediction(run_program(tiny_gpt(), clipped, mesh(2, 3, 2), 2, kSeed));
}

TEST_CASE("where overflow is known too late a loss scale is refused by name") {
  const models::ModelSpec spec = tiny_gpt();
  const auto refused = [&](double scale, const Strategy& s) {
    const Job job = half_precision(spec, scale);
    const Strategy resolved = resolve(spec, job, s);
    return core::to_text(strategy_problems(spec, job, resolved,
                                           resolved.workers() + resolved.separate_servers()));
  };
  const Strategy served = strategy(3, 12, 2, servers(2, true));
  const Strategy stale = strategy(1, 12, 2, stages(2, Schedule::pipedream_2bw));
  CHECK(refused(0, served).find("with a loss scale, found parameter_server") != std::string::npos);
  CHECK(refused(0, stale).find("a schedule that flushes with a loss scale, found pipedream_2bw") !=
        std::string::npos);
  CHECK(refused(1, served).empty());
  CHECK(refused(1, stale).empty());
}
