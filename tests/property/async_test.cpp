// Asynchronous parameter servers: each push is an update, nobody waits for anybody else. What order
// pushes come in differs from run to run; what they add up to does not.
#include "exec/run/run.hpp"
#include "hw_profiles/load.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/search.hpp"
#include "reports/run_text.hpp"
#include "sim/program/checker.hpp"
#include "sim/program/turns.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

std::function<void(Strategy&)> async_servers(std::int64_t count, bool colocated = false) {
  return [=](Strategy& s) {
    servers(count, colocated)(s);
    s.server_mode = ServerMode::async;
  };
}

double mean_of_last(const ProgramRun& run) {
  const std::size_t n = run.losses.size();
  return (run.losses[n - 3] + run.losses[n - 2] + run.losses[n - 1]) / 3;
}

}  // namespace

TEST_CASE("one worker of asynchronous servers is never stale: it equals the reference") {
  for (const char* recipe : {"fp32", "mixed"})
    for (const std::int64_t m : {1, 2})
      check_equal(tiny_gpt(), tiny_job(tiny_gpt(), 12, recipe),
                  strategy(1, 12, 2, async_servers(m)));
}

TEST_CASE("memory and wire bytes of asynchronous servers equal the prediction") {
  for (const std::int64_t workers : {1, 2, 3})
    for (const std::int64_t m : {1, 2})
      for (const char* recipe : {"fp32", "mixed"}) {
        INFO(workers << " workers, " << m << " servers, " << recipe);
        const ProgramRun run = run_program(tiny_gpt(), tiny_job(tiny_gpt(), 12, recipe),
                                           strategy(workers, 12, 2, async_servers(m)), 3, kSeed);
        check_prediction(run);
        // A worker sends its gradients once, and a server its part of the weights to each worker.
        const auto k = [&](bool server) -> const RankResult& {
          return run.ranks[static_cast<std::size_t>(server ? workers : 0)];
        };
        std::int64_t up = 0, down = 0;
        for (const auto& [key, t] : k(false).traffic) up += t.wire.value();
        for (const auto& [key, t] : k(true).traffic) down += t.wire.value();
        std::int64_t spans = 0, parts = 0;  // bytes: what travels is padded to whole parts
        const core::Bytes each = core::bytes_of(1, run.program.classes[0].buffers[0].type);
        for (const program::Span& s : run.program.classes[0].spans) {
          spans += s.shard_elements * m * each.value();
          parts += s.shard_elements * each.value();
        }
        CHECK(up == spans);
        CHECK(down == parts * workers);
      }
}

TEST_CASE("with stale weights the loss falls as far as without, within 5 %") {
  Job job = tiny_job(tiny_gpt(2), 12);
  job.optimizer = OptimizerKind::adam;
  const auto trained = [&](auto change) {
    return run_program(tiny_gpt(2), job, strategy(3, 12, 2, change), 20, kSeed);
  };
  const ProgramRun sync = trained(servers(2, false)), async = trained(async_servers(2));
  INFO("sync " << mean_of_last(sync) << ", async " << mean_of_last(async));
  CHECK(async.losses.front() == Approx(sync.losses.front()).epsilon(0.02));
  CHECK(mean_of_last(async) < 0.98 * async.losses.front());
  CHECK(mean_of_last(async) < 1.05 * mean_of_last(sync));
}

namespace {

void check_staleness(bool colocated) {
  constexpr std::int64_t kWorkers = 3, kServers = 2, kRunSteps = 5;
  Request request;
  request.model = tiny_gpt(2);
  request.job = tiny_job(request.model, 12);
  request.gpus = kWorkers + (colocated ? 0 : kServers);
  request.profile = hw_profiles::find_profile("rtx3090").value();
  for (const char* pin : {"grad_sync=parameter_server", "servers=2", "server_mode=async",
                          "tensor=1", "pipeline=1", "bucket_bytes=20000"})
    REQUIRE(request.constraints.pin(pin).ok());
  REQUIRE(request.constraints.pin(colocated ? "servers_colocated=true" : "servers_colocated=false")
              .ok());
  const core::Result<Plan> plan = make_plan(request);
  if (!plan.ok()) FAIL(core::to_text(plan.problems()));
  REQUIRE(plan->chosen);
  CHECK(plan->chosen->strategy.server_mode == ServerMode::async);
  exec::RunOptions options;
  options.steps = kRunSteps;
  const core::Result<exec::RunRecord> run = exec::run(*plan, options);
  if (!run.ok()) FAIL(core::to_text(run.problems()));
  REQUIRE(run->staleness);
  std::int64_t spans = 0;
  for (const exec::MeasuredCommunication& e : run->communication)
    if (e.collective == "parameter_server") spans = e.count.value_or(0);
  CHECK(spans > 1);
  CHECK(run->staleness->pushes == kRunSteps * kWorkers * kServers * spans);
  // Of each worker's n pushes every other worker's n are counted once, but for those that come
  // after its last one; the last of all has seen everybody's: (W - 1) / W <= mean <= W - 1.
  CHECK(run->staleness->mean <= kWorkers - 1);
  CHECK(run->staleness->mean * kWorkers >= kWorkers - 1);
  CHECK(run->staleness->max >= 1);
  const auto read = exec::parse_run(exec::to_json_text(*run), "run.json");
  REQUIRE(read.ok());
  CHECK(read->staleness->mean == run->staleness->mean);
  CHECK(reports::run_text(*run, {}).find("asynchronous pushes") != std::string::npos);
}

}  // namespace

TEST_CASE("staleness counts every update of others between a reply and the next push") {
  check_staleness(false);
}
TEST_CASE("staleness is counted alike by servers on the workers' ranks") { check_staleness(true); }

TEST_CASE("one worker whose rank serves as well is never stale: it equals the reference") {
  for (const char* recipe : {"fp32", "mixed"})
    check_equal(tiny_gpt(), tiny_job(tiny_gpt(), 12, recipe),
                strategy(1, 12, 2, async_servers(1, true)));
}

// The worker's step and the server's turns share a rank and nothing else: each has its weights.
TEST_CASE("memory and wire bytes of asynchronous servers on workers' ranks equal the prediction") {
  for (const std::int64_t workers : {1, 2, 3})
    for (std::int64_t m = 1; m <= workers; ++m)
      for (const char* recipe : {"fp32", "mixed", "lean"}) {
        INFO(workers << " workers, " << m << " servers on them, " << recipe);
        const ProgramRun run = run_program(tiny_gpt(), tiny_job(tiny_gpt(), 12, recipe),
                                           strategy(workers, 12, 2, async_servers(m, true)), 3,
                                           kSeed);
        CHECK(core::to_text(program::check(run.program)) == "");
        check_prediction(run);
        const program::RankClass& k = run.program.classes[0];
        REQUIRE(program::serves_beside(k));
        const auto bytes = [&](std::uint16_t buffer) {
          return k.buffers[buffer].instance_bytes(0).value();
        };
        // Gradients to every other server, and its own part of the weights to every other worker.
        const std::int64_t each = core::bytes_of(1, k.buffers[k.weights_buffer].type).value();
        std::int64_t up = 0, down = 0, part = 0;
        for (const auto& [key, t] : run.ranks[0].traffic)
          (key.server ? down : up) += t.wire.value();
        for (const program::Span& s : k.spans) part += s.shard_elements;
        CHECK(bytes(k.server_weights_buffer) == part * each);
        CHECK(down == (workers - 1) * part * each);
        if (std::string(recipe) != "lean") CHECK(up == (m - 1) * part * each);
      }
}

TEST_CASE("servers on tensor ranks' workers serve their own part of each tensor rank") {
  const ProgramRun run = run_program(
      tiny_gpt(), tiny_job(tiny_gpt(), 12), strategy(2, 12, 2, [](Strategy& s) {
        async_servers(2, true)(s);
        s.tensor = 2;
      }), 3, kSeed);
  check_prediction(run);
}

TEST_CASE("with servers on the workers' ranks the loss falls as far, and staleness is counted") {
  Job job = tiny_job(tiny_gpt(2), 12);
  job.optimizer = OptimizerKind::adam;
  const auto trained = [&](auto change) {
    return run_program(tiny_gpt(2), job, strategy(3, 12, 2, change), 20, kSeed);
  };
  const ProgramRun sync = trained(servers(2, true)), async = trained(async_servers(2, true));
  INFO("sync " << mean_of_last(sync) << ", async " << mean_of_last(async));
  CHECK(async.losses.front() == Approx(sync.losses.front()).epsilon(0.02));
  CHECK(mean_of_last(async) < 0.98 * async.losses.front());
  CHECK(mean_of_last(async) < 1.05 * mean_of_last(sync));
}
