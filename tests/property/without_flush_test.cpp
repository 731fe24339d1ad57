// Pipelines that never flush: what they train against a trainer that keeps old weights and applies
// each stage's delay; what they hold and send against the prediction; and that the checker names a
// wrong version and a stash that is gone.
#include <random>

#include "planner/lowering/lower.hpp"
#include "sim/program/checker.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

constexpr std::int64_t kRunSteps = 6;  // pipedream's four stages fill, are steady for three, drain

// 12 samples of each data rank a step: in one micro-batch under pipedream.
Strategy without_flush(Schedule schedule, std::int64_t pipeline, std::int64_t data,
                 std::int64_t micro_batch = 2) {
  const bool one = schedule == Schedule::pipedream;
  Strategy s = strategy(data, 12 * data, one ? 12 : micro_batch, stages(pipeline, schedule));
  return s;
}

void check_all(const models::ModelSpec& spec, const Job& job, const Strategy& s) {
  INFO(spec.name << " " << to_text(s) << " " << job.recipe);
  const ProgramRun run = run_program(spec, job, s, kRunSteps, kSeed);
  const core::Problems problems = program::check(run.program);
  CHECK(core::to_text(problems) == "");
  CHECK(run.replicas_agree);
  CHECK(difference(run, reference(spec, job, run.program, s, kRunSteps)) == "");
  check_prediction(run, kRunSteps);
}

Job job_of(const models::ModelSpec& spec, std::int64_t data, const char* recipe,
           OptimizerKind optimizer) {
  Job job = tiny_job(spec, 12 * data, recipe);
  job.optimizer = optimizer;
  return job;
}

program::Program lowered(const Strategy& unresolved) {
  const models::ModelSpec spec = tiny_gpt();
  const Job job = tiny_job(spec, 12 * unresolved.data);
  const Strategy s = resolve(spec, job, unresolved);
  REQUIRE(strategy_problems(spec, job, s, s.workers()).empty());
  const auto graph = models::build_graph(spec, graph_options(job, s));
  REQUIRE(graph.ok());
  return lower(*graph, job, s, {});
}

}  // namespace

TEST_CASE("a pipeline without flush trains as the delayed weights of each stage say") {
  for (const Schedule schedule : {Schedule::pipedream_2bw, Schedule::pipedream})
    for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()})
      for (const std::int64_t pipeline : {2, 3, 4})
        for (const std::int64_t data : {1, 2})
          check_all(spec, job_of(spec, data, "fp32", OptimizerKind::sgd),
                    without_flush(schedule, pipeline, data));
}

TEST_CASE("random cells of pipelines without flush") {
  const unsigned first = 20261121;
  for (unsigned seed = first; seed < first + 40; ++seed) {
    CAPTURE(seed);
    std::mt19937 random(seed);
    const auto one_of = [&](auto... values) {
      const std::common_type_t<decltype(values)...> all[] = {values...};
      return all[random() % sizeof...(values)];
    };
    models::ModelSpec spec = one_of(0, 1) == 0 ? tiny_gpt(5) : tiny_llama();
    spec.tied_embeddings = one_of(0, 1) == 0;
    const auto schedule = one_of(Schedule::pipedream_2bw, Schedule::pipedream);
    const std::int64_t data = one_of(1, 2);
    Strategy s = without_flush(schedule, one_of(2, 3, 4), data, one_of(1, 2, 3));
    s.grad_sync = one_of(GradSync::ring, GradSync::tree);
    s.overlap = one_of(0, 1) == 0;
    s.bucket_bytes = one_of(300, 20000, 1 << 20);
    if (one_of(0, 1) == 0) recomputing(Checkpoint::every_k, one_of(1, 2))(s);
    const char* recipe = one_of("fp32", "fp32", "mixed", "lean", "megatron");
    Job job = job_of(spec, data, recipe, one_of(OptimizerKind::sgd, OptimizerKind::adam));
    check_all(spec, job, s);
  }
}

// The last stage sums its part of tied embeddings before it receives the next micro-batch, and the
// first stage comes to that sum when the stages between have passed their gradients on.
TEST_CASE("a pipeline without flush needs streams that run beside each other") {
  const program::Program p = lowered(without_flush(Schedule::pipedream, 3, 1));
  REQUIRE(program::check(p).empty());
  const std::string circle = core::to_text(program::check_launches(p));
  CAPTURE(circle);
  CHECK(circle.find("a circle over communicators") != std::string::npos);
  CHECK(circle.find("in group embedding (ranks 0, 2)") != std::string::npos);
  CHECK(program::check_launches(lowered(without_flush(Schedule::pipedream, 2, 1))).empty());
}

TEST_CASE("the checker names a wrong version of the weights") {
  const auto problems_after = [](Schedule schedule, auto&& change) {
    program::Program p = lowered(without_flush(schedule, 3, 1));
    REQUIRE(program::check(p).empty());
    change(p.classes.front());
    return core::to_text(program::check(p));
  };
  for (const Schedule schedule : {Schedule::pipedream_2bw, Schedule::pipedream}) {
    // One version fewer: the update writes what later passes still read.
    const std::string fewer = problems_after(schedule, [](program::RankClass& k) {
      --k.buffers[k.weights_buffer].slots;
    });
    INFO(fewer);
    CHECK(fewer.find("stage 0") != std::string::npos);
    CHECK(fewer.find("in every pass of step") != std::string::npos);
    // The update starts from what it overwrites.
    const std::string old = problems_after(schedule, [](program::RankClass& k) {
      for (program::View& v : k.views)
        if (v.buffer == k.weights_buffer) v.micro_batch_shift = 0;
    });
    INFO(old);
    CHECK(old.find("an update of the weights after 1 updates") != std::string::npos);
    // Backward passes read the version of another step than their forward passes.
    const std::string other = problems_after(schedule, [](program::RankClass& k) {
      for (const program::Action& a : k.actions)
        for (std::uint32_t i = 0; a.kind == program::ActionKind::input_gradient && i < a.arg_count;
             ++i)
          if (program::View& v = k.views[a.first_arg + i]; v.buffer == k.weights_buffer)
            v.micro_batch_shift = -1;
    });
    INFO(other);
    CHECK(other.find("backward") != std::string::npos);
    CHECK(other.find("in every pass of step") != std::string::npos);
  }
}

TEST_CASE("the checker names activations in flight that are freed or reused too early") {
  for (const Schedule schedule : {Schedule::pipedream_2bw, Schedule::pipedream}) {
    program::Program p = lowered(without_flush(schedule, 3, 1));
    program::RankClass& k = p.classes.front();
    for (program::Buffer& b : k.buffers)
      if (b.term == program::Term::activations && b.slots > 1) --b.slots;
    const std::string reused = core::to_text(program::check(p));
    INFO(reused);
    CHECK(reused.find("give the buffer more slots") != std::string::npos);
  }
}
