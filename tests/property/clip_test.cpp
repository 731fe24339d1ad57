// Gradients that are scaled down to a norm of all of them: what many ranks train is what one rank
// trains, whatever they divide, hold alike or share, and memory and traffic are as predicted.
#include <cmath>

#include "planner/lowering/lower.hpp"
#include "planner/strategy/problems.hpp"
#include "planner/strategy/resolve.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_close.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/random_cells.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

constexpr double kClip = 0.05;         // less than any norm here

// Momentum: an error of the norm reaches every weight, where Adam would divide it out.
Job clipped(const models::ModelSpec& spec, double clip = kClip, const char* recipe = "fp64") {
  Job job = tiny_job(spec, 12, recipe);
  job.optimizer = OptimizerKind::momentum;
  job.clip = clip;
  return job;
}

void check_clips(const models::ModelSpec& spec, const Job& job, const Strategy& s) {
  INFO(spec.name << " " << to_text(s));
  check_close(spec, job, one_rank(spec, job), s, kDoubleTolerance, kDoubleTolerance);
  check_prediction(run_program(spec, job, s, kSteps));
}

double squared_change(const ProgramRun& from, const ProgramRun& to) {
  double sum = 0;
  for (const auto& [path, shards] : from.weights)
    for (std::size_t i = 0; i < shards[0].size(); ++i) {
      const double change = to.weights.at(path)[0][i] - shards[0][i];
      sum += change * change;
    }
  return sum;
}

}  // namespace

TEST_CASE("an update by clipped gradients is as long as the learning rate times the limit") {
  const models::ModelSpec spec = tiny_gpt();
  Job job = clipped(spec);
  job.optimizer = OptimizerKind::sgd;
  exec::Training still = exec::default_training(job.optimizer), moving = still;
  still.hyper.learning_rate = 0;
  moving.hyper.learning_rate = 0.5;
  const auto run = [&](const exec::Training& training) {
    return run_program(spec, job, strategy(1, 12, 12), 1, kSeed, {}, {}, false, training);
  };
  // torch.nn.utils.clip_grad_norm_: gradients times limit / (norm + 1e-6), which is a norm of
  // limit x norm / (norm + 1e-6).
  const double length = std::sqrt(squared_change(run(still), run(moving)));
  CHECK(length < 0.5 * kClip);
  CHECK(length > 0.5 * kClip * (1 - 1e-5));
}

TEST_CASE("a limit that no norm reaches changes no bit") {
  const models::ModelSpec spec = tiny_gpt();
  for (const char* recipe : {"fp32", "mixed", "fp64"}) {
    const Strategy s = strategy(2, 12, 2);
    const ProgramRun plain = run_program(spec, clipped(spec, 0, recipe), s, kSteps, kSeed);
    const ProgramRun limited = run_program(spec, clipped(spec, 1e6, recipe), s, kSteps, kSeed);
    CHECK(plain.weights == limited.weights);
    CHECK(plain.losses == limited.losses);
    CHECK(run_program(spec, clipped(spec, kClip, recipe), s, kSteps, kSeed).weights !=
          plain.weights);
  }
}

TEST_CASE("the norm is that of one rank, however data ranks share the gradients") {
  for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()}) {
    for (const auto& how : {ring, tree, naive_all_reduce})
      check_clips(spec, clipped(spec), strategy(3, 12, 2, how));
    for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
      check_clips(spec, clipped(spec), strategy(3, 12, 2, sharded(z)));
    check_clips(spec, clipped(spec), strategy(4, 12, 1, sharded(Sharding::zero3, 2)));
  }
  for (const auto& method : {ContextMethod::gather, ContextMethod::ring}) {
    Strategy s = strategy(2, 12, 2);
    s.context = 3;
    s.context_method = method;
    check_clips(tiny_gpt(), clipped(tiny_gpt()), s);
  }
}

TEST_CASE("the norm is that of one rank, however tensor and pipeline ranks divide the model") {
  for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()}) {
    for (const bool rows : {false, true}) {
      Strategy s = strategy(1, 12, 2);
      s.tensor = 3;
      s.sequence_parallel = rows;
      check_clips(spec, clipped(spec), s);
    }
    for (const Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b,
                                    Schedule::zb_h1, Schedule::zb_h2})
      check_clips(spec, clipped(spec), strategy(1, 12, 2, stages(2, schedule)));
    for (const Schedule schedule : {Schedule::interleaved, Schedule::zb_v}) {
      Strategy s = strategy(1, 12, 2, stages(2, schedule));
      s.virtual_stages = 2;
      check_clips(spec, clipped(spec), s);
    }
    for (const Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3})
      check_clips(spec, clipped(spec), mesh(2, 3, 2, z));
  }
}

TEST_CASE("the norm counts each expert once") {
  const models::ModelSpec spec = tiny_mixture();
  const auto divided = [](std::int64_t data, std::int64_t expert,
                          const std::function<void(Strategy&)>& change = {}) {
    Strategy s = strategy(data, 12, 1, change);
    s.expert = expert;
    return s;
  };
  check_clips(spec, clipped(spec), divided(2, 1));
  check_clips(spec, clipped(spec), divided(2, 2));
  check_clips(spec, clipped(spec), divided(4, 2));
  for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
    check_clips(spec, clipped(spec), divided(4, 2, sharded(z)));
  check_clips(spec, clipped(spec), divided(4, 2, sharded(Sharding::zero3, 2)));
  check_clips(spec, clipped(spec), divided(2, 2, stages(2, Schedule::one_f_one_b)));
  Strategy s = divided(2, 2);          // each expert on two tensor ranks
  s.tensor = 2;
  check_clips(spec, clipped(spec), s);
  s.sequence_parallel = true;          // on one, and two data ranks hold it
  s.expert_tensor = 1;
  check_clips(spec, clipped(spec), s);
  s.expert = 4;
  check_clips(spec, clipped(spec), s);
}

TEST_CASE("the norm is of what is trained, wherever it lies") {
  const models::ModelSpec spec = tiny_gpt();
  Job adapters = clipped(spec);
  adapters.lora_rank = 3;
  adapters.clip = 1e-4;
  check_clips(spec, adapters, mesh(2, 3, 1, Sharding::none));
  check_clips(spec, adapters, mesh(2, 1, 2, Sharding::zero1));
  Strategy s = strategy(2, 12, 2, sharded(Sharding::zero1));
  s.offload = {"optimizer"};
  check_clips(spec, clipped(spec), s);
  s = strategy(2, 12, 2, sharded(Sharding::zero3));
  s.offload = {"params"};
  check_clips(spec, clipped(spec), s);
  Job adam = clipped(spec);
  adam.optimizer = OptimizerKind::adamw;
  check_close(spec, adam, one_rank(spec, adam), mesh(2, 3, 2, Sharding::zero1), 1e-9, 1e-9);
}

TEST_CASE("the norm is that of one rank on random shapes and degrees") {
  int ran = 0;
  for (unsigned seed = 20270101; ran < 40; ++seed) {
    Draw draw(seed);
    const models::ModelSpec spec = draw_model(draw);
    const Strategy s = draw_strategy(draw);
    Job job = clipped(spec);
    job.global_batch = s.data * s.micro_batch * s.grad_accum;
    if (!strategy_problems(spec, job, resolve(spec, job, s), s.workers()).empty()) continue;
    CAPTURE(seed);
    const ProgramRun run = run_program(spec, job, strategy(1, job.global_batch, 1), kSteps, kSeed);
    ReferenceResult expected;
    expected.losses = run.losses;
    for (const auto& [path, shards] : run.weights) expected.weights[path] = shards.front();
    check_close(spec, job, expected, s, kDoubleTolerance, kDoubleTolerance);
    check_prediction(run_program(spec, job, s, kSteps, kSeed));
    ++ran;
  }
}

TEST_CASE("where the norm comes too late it is refused by name") {
  const models::ModelSpec spec = tiny_gpt();
  const auto refused = [&](const Strategy& s) {
    const Job job = clipped(spec);
    const Strategy resolved = resolve(spec, job, s);
    return core::to_text(strategy_problems(spec, job, resolved,
                                           resolved.workers() + resolved.separate_servers()));
  };
  CHECK(refused(strategy(3, 12, 2, servers(2, true))).find("with --clip, found parameter_server") !=
        std::string::npos);
  CHECK(refused(strategy(1, 12, 2, stages(2, Schedule::pipedream_2bw)))
            .find("a schedule that flushes with --clip, found pipedream_2bw") !=
        std::string::npos);
}
