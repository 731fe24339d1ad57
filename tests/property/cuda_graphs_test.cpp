// A step that the CUDA backend keeps and is given again trains, bit for bit, what the same steps
// train action by action, with the same memory and traffic: the twin runs kept work in an order of
// chance within what the graph says, as it does other work.
#include "exec/cuda/backend/platform.hpp"
#include "exec/cuda/twin/twin.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;
namespace cuda = exec::cuda;

namespace {

constexpr std::uint64_t kSeed = 9;
constexpr std::int64_t kSteps = 3;

struct GraphRun {
  ProgramRun run;
  std::int64_t launches = 0, kernels = 0;
};

// Steps whose learning rates differ. fault: a call that fails the first time.
GraphRun on_graphs(const models::ModelSpec& spec, const Job& job, const Strategy& s, bool keeps,
                   const char* fault = nullptr) {
  static std::uint64_t order = 100;
  cuda::Twin twin({.seed = ++order});
  if (fault != nullptr) twin.fail(fault, 1, cuda::FailureKind::graph);
  std::optional<ProgramRun> run;
  {
    cuda::CudaPlatform platform(twin);
    exec::Training training = exec::default_training(job.optimizer);
    training.warmup_steps = 2;
    training.decay = exec::Decay::cosine;
    training.decay_steps = 4;
    run = run_program(spec, job, s, kSteps, kSeed,
                      [&](const auto& p, const auto& k, int rank) {
                        return platform.backend(p, k, rank);
                      },
                      {}, keeps, training);
  }
  CHECK(twin.pending() == 0);
  CHECK(twin.leaked() == 0);
  GraphRun found{std::move(*run), twin.graph_launches()};
  for (const auto& [name, times] : twin.launches()) found.kernels += times;
  return found;
}

void check_equal(const ProgramRun& a, const ProgramRun& b) {
  CHECK(a.losses == b.losses);
  CHECK(a.weights == b.weights);
  CHECK(a.ranks[0].live == b.ranks[0].live);
  CHECK(a.ranks[0].evaluations == b.ranks[0].evaluations);
  REQUIRE(a.ranks[0].traffic.size() == b.ranks[0].traffic.size());
  for (const auto& [key, totals] : a.ranks[0].traffic) {
    CHECK(totals.calls == b.ranks[0].traffic.at(key).calls);
    CHECK(totals.wire == b.ranks[0].traffic.at(key).wire);
  }
}

void check_replays(const models::ModelSpec& spec, const Job& job, const Strategy& s) {
  INFO(spec.name << " " << to_text(s) << " " << job.recipe);
  const GraphRun plain = on_graphs(spec, job, s, false), kept = on_graphs(spec, job, s, true);
  CHECK(plain.launches == 0);
  CHECK(kept.launches == kSteps - 1);
  CHECK(kept.run.kept.replayed == kSteps - 1);
  CHECK(2 * plain.kernels == kSteps * kept.kernels);  // given once plainly, once to be kept
  check_prediction(kept.run);
  check_equal(kept.run, plain.run);
}

}  // namespace

TEST_CASE("a step that is given again trains the bits of steps given action by action") {
  for (const char* recipe : {"fp32", "mixed", "fp64"})
    check_replays(tiny_gpt(2), tiny_job(tiny_gpt(2), 6, recipe), strategy(1, 6, 3));
  const models::ModelSpec llama = tiny_llama();
  check_replays(llama, tiny_job(llama, 4), strategy(1, 4, 2));
}

TEST_CASE("every optimizer's step numbers reach the step that is given again") {
  for (const Optimizer& o : optimizers()) {
    Job job = tiny_job(tiny_gpt(1), 2);
    job.optimizer = o.kind;
    INFO(o.name);
    check_replays(tiny_gpt(1), job, strategy(1, 2, 2));
  }
}

TEST_CASE("streams of their own, recomputation and copies to the host are given again") {
  for (const char* what : {"optimizer", "activations"}) {
    Strategy s = strategy(1, 6, 2);
    s.offload = {what};
    check_replays(tiny_gpt(2), tiny_job(tiny_gpt(2), 6, "mixed"), s);
  }
  for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::selective, Checkpoint::pointwise})
    check_replays(tiny_gpt(2), tiny_job(tiny_gpt(2), 6), strategy(1, 6, 2, recomputing(c)));
}

TEST_CASE("where a step cannot be kept it is given action by action, and the reason is told") {
  const Job job = tiny_job(tiny_gpt(2), 6);
  const Strategy s = strategy(1, 6, 2);
  const GraphRun plain = on_graphs(tiny_gpt(2), job, s, false);
  for (const char* fault : {"begin_capture", "end_capture"}) {
    const GraphRun refused = on_graphs(tiny_gpt(2), job, s, true, fault);
    CHECK(refused.launches == 0);
    CHECK(refused.run.kept.replayed == 0);
    INFO(refused.run.kept.refused);
    CHECK(refused.run.kept.refused.find("run with --graphs off") != std::string::npos);
    check_equal(refused.run, plain.run);
  }
}

TEST_CASE("a device that fails while a step is kept or given again ends with its words") {
  using cuda::FailureKind;
  const auto fails = [](const char* call, int nth, FailureKind kind) {
    cuda::Twin twin;
    {
      cuda::CudaPlatform platform(twin);
      twin.fail(call, nth, kind);
      INFO(call << " " << nth);
      try {
        run_program(tiny_gpt(2), tiny_job(tiny_gpt(2), 6), strategy(1, 6, 2), kSteps, kSeed,
                    [&](const auto& p, const auto& k, int rank) {
                      return platform.backend(p, k, rank);
                    },
                    {}, true);
        CHECK(false);
      } catch (const std::exception& e) {
        INFO(e.what());
        CHECK(std::string(e.what()).find("a failure that a test asked for") != std::string::npos);
      }
    }
    CHECK(twin.leaked() == 0);
  };
  fails("begin_capture", 1, FailureKind::device);
  fails("end_capture", 1, FailureKind::device);
  fails("launch_graph", 1, FailureKind::device);
  fails("launch_graph", 2, FailureKind::out_of_memory);
  for (const int nth : {100, 200, 260}) fails("launch", nth, FailureKind::device);
  fails("multiply", 60, FailureKind::launch);
}
