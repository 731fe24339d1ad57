// Operator graphs lowered: AlexNet and random graphs, under every kind of strategy that they take.
#include "core/random.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/search.hpp"
#include "sim/program/footprint.hpp"
#include "sim/program/replay.hpp"
#include "tests/catch.hpp"
#include "tests/random_graph.hpp"
#include "tests/unit/planner/soundness.hpp"

using namespace planner;
using models::ModelSpec;
using models::OperatorSpec;
using Kind = models::OperatorSpec::Kind;

namespace {

// Lowered, found sound, and held by the bound.
program::Program sound(const ModelSpec& spec, Job job, Strategy s) {
  job.seq_len = 1;
  s = resolve(spec, job, s);
  const auto problems = strategy_problems(spec, job, s, s.workers() + s.separate_servers());
  INFO(to_text(s) << "\n" << core::to_text(problems));
  REQUIRE(problems.empty());
  return planner_test::sound_program(spec, job, s, 64);
}

std::vector<Strategy> strategies(std::int64_t layers) {
  std::vector<Strategy> all;
  for (const Checkpoint checkpoint :
       {Checkpoint::none, Checkpoint::every_k, Checkpoint::memory_poor}) {
    Strategy s;
    s.checkpoint = checkpoint;
    s.checkpoint_every = checkpoint == Checkpoint::every_k ? std::min<std::int64_t>(2, layers) : 0;
    s.micro_batch = 2;
    s.grad_accum = 4;
    all.push_back(s);
    s.data = 2;
    s.grad_accum = 2;
    for (const Sharding sharding :
         {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
      s.sharding = sharding;
      all.push_back(s);
    }
    if (layers < 2 || checkpoint == Checkpoint::memory_poor) continue;
    s.sharding = Sharding::none;
    s.pipeline = 2;
    for (const Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b}) {
      s.schedule = schedule;
      all.push_back(s);
    }
    if (layers < 4) continue;
    s.schedule = Schedule::interleaved;
    s.virtual_stages = 2;
    all.push_back(s);
  }
  return all;
}

ModelSpec random_graph(tests::Draws random) {
  return tests::random_graph(
      random, {.kinds = {Kind::convolution, Kind::relu, Kind::dropout, Kind::gelu,
                         Kind::local_response_norm, Kind::max_pool, Kind::average_pool},
               .least = 2, .more = 14, .add_in = 3, .join_in = 6, .follows = true});
}

}  // namespace

TEST_CASE("AlexNet lowers soundly under every strategy that a graph takes") {
  const ModelSpec spec = *models::find_model("alexnet");
  Job job;
  job.global_batch = 8;
  for (const Strategy& s : strategies(spec.layers)) sound(spec, job, s);
  job.recipe = "lean";
  for (const Strategy& s : strategies(spec.layers)) sound(spec, job, s);
  job.recipe = "mixed";
  job.mode = Mode::inference;
  Strategy s;
  s.micro_batch = 8;
  sound(spec, job, s);
}

TEST_CASE("AlexNet's activations of one GPU are those that its operators keep, to the byte") {
  const ModelSpec spec = *models::find_model("alexnet");
  Job job;
  job.global_batch = 2;
  Strategy s;
  s.micro_batch = 2;
  const program::Program p = sound(spec, job, s);
  const auto& k = p.classes.front();
  const auto forward =
      program::routine_footprints<program::LiveFootprint>(k).chunks[0].forward.net;
  // Elements of a sample, 2 bytes each: the image; by tower relu1, pool1, relu2; the joined maps2;
  // relu3, relu4, relu5; the joined maps5; relu6 and relu7 (drop keeps a mask), the joined features
  // 6 and 7; the 1000 classes. One byte: pools 1, 2, 5 and the two dropouts.
  const std::int64_t towers = 2 * (48 * 55 * 55 + 48 * 27 * 27 + 128 * 27 * 27 +
                                   13 * 13 * (192 + 192 + 128) + 2048 + 2048);
  const std::int64_t joined = 256 * 13 * 13 + 9216 + 4096 + 4096;
  const std::int64_t masks =
      2 * (48 * 27 * 27 + 128 * 13 * 13 + 128 * 6 * 6 + 2048 + 2048);
  CHECK(forward == 2 * (2 * (3 * 224 * 224 + towers + joined + 1000) + masks));
}

TEST_CASE("random graphs lower soundly, whoever reads a value first") {
  constexpr std::uint64_t kSeed = 20261121;
  for (std::uint64_t i = 0; i < 150; ++i) {
    const ModelSpec spec = random_graph({core::Random(kSeed, i)});
    const core::Problems problems = models::check_spec(spec);
    INFO("seed " << kSeed << " case " << i << "\n" << core::to_text(problems));
    REQUIRE(problems.empty());
    Job job;
    job.global_batch = 8;
    for (const Strategy& s : strategies(spec.layers)) sound(spec, job, s);
  }
}

TEST_CASE("AlexNet is planned on one, two and eight GPUs of either kind") {
  for (const char* gpu : {"h100-sxm-80g", "rtx3090"}) {
    for (const std::int64_t gpus : {1, 2, 8}) {
      Request request;
      request.model = *models::find_model("alexnet");
      request.profile = *hw_profiles::find_profile(gpu);
      request.gpu_given = true;
      request.gpus = gpus;
      const core::Result<Plan> plan = make_plan(request);
      REQUIRE(plan.ok());
      REQUIRE(plan->chosen);
      CHECK(plan->parameters == 60'965'224);
      CHECK(plan->job.global_batch == 128);
      const Candidate& c = *plan->chosen;
      CHECK(c.throughput.samples_per_second == c.throughput.tokens_per_second);
      // State and gradients of all parameters at 16 bytes, or shards of them.
      CHECK(c.memory.worst.device < plan->profile.gpu.usable);
      CHECK(c.throughput.mfu > 0);
    }
  }
}
