// Ranks with a GPU each over NCCL, as far as a host can show it: twins of GPUs, joined by a fake of
// the library that lets no send end before its receiver has come. They train what threads of the
// host train, and every byte is the one that is predicted. The twins run streams in an order of
// chance, so a wait that is missing shows here.
#include <cmath>

#include "tests/catch.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/context_cases.hpp"
#include "tests/property/nccl_ranks.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;
namespace cuda = exec::cuda;

namespace {

constexpr std::uint64_t kSeed = 7;
constexpr std::int64_t kSteps = 2;
// Of one backend beside the other in f32, as in cuda_test.cpp.
constexpr double kNear = 1e-5;

ProgramRun over_nccl(const models::ModelSpec& spec, const Job& job, const Strategy& s,
                     bool own_collectives = false) {
  static std::uint64_t order = 0;
  cuda::NcclOptions options;
  options.own_collectives = own_collectives;
  return run_program_on(nccl_ranks(options, ++order), spec, job, s, kSteps, kSeed);
}

void compare(const ProgramRun& found, const ProgramRun& expected) {
  CHECK(found.replicas_agree);
  check_prediction(found);
  REQUIRE(found.losses.size() == expected.losses.size());
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    CHECK(std::abs(found.losses[i] - expected.losses[i]) <= kNear * std::abs(expected.losses[i]));
  for (const auto& [path, shards] : expected.weights)
    for (std::size_t t = 0; t < shards.size(); ++t) {
      const std::vector<double>& a = found.weights.at(path).at(t);
      double error = 0, magnitude = 1e-6;  // a bias that never moved
      for (std::size_t i = 0; i < a.size(); ++i) {
        error = std::isnan(a[i]) ? a[i] : std::max(error, std::abs(a[i] - shards[t][i]));
        magnitude = std::max(magnitude, std::abs(shards[t][i]));
      }
      INFO(path);
      CHECK(error <= kNear * magnitude);
    }
}

// AdamW would turn the rounding of gradients that are zero into whole steps.
Job job_of(const models::ModelSpec& spec) {
  Job job = tiny_job(spec, 12);
  job.optimizer = OptimizerKind::momentum;
  return job;
}

void check(const models::ModelSpec& spec, const Job& job, const Strategy& s,
           bool own_collectives = false) {
  INFO(to_text(s) << (own_collectives ? ", own collectives" : ""));
  compare(over_nccl(spec, job, s, own_collectives), run_program(spec, job, s, kSteps, kSeed));
}
void check(const Strategy& s, bool own_collectives = false) {
  check(tiny_gpt(2), job_of(tiny_gpt(2)), s, own_collectives);
}

}  // namespace

TEST_CASE("data ranks over NCCL train what threads train") {
  check(strategy(2, 12, 2, ring));
  check(strategy(3, 12, 2, ring));
  check(strategy(2, 12, 3, tree));
  for (const auto& change : {ring, tree, naive_all_reduce}) check(strategy(3, 12, 2, change), true);
  check(strategy(2, 12, 2, naive_all_reduce));
}

TEST_CASE("context ranks over NCCL train what threads train, in every method") {
  const models::ModelSpec spec = with_tokens(tiny_gpt(2), 12);
  for (const ContextMethod method : kContextMethods)
    check(spec, job_of(spec), by_method(method, 2, 2, sharded_all(Sharding::zero3)));
}

TEST_CASE("parameter servers over NCCL train what threads train") {
  check(strategy(2, 12, 2, servers(1, true)));
  check(strategy(3, 12, 2, servers(2, true)));
  check(strategy(2, 12, 2, servers(1, false)));
}

TEST_CASE("sharded data ranks over NCCL train what threads train") {
  for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
    check(strategy(2, 12, 2, sharded(z)));
  check(strategy(3, 12, 2, sharded(Sharding::zero3)));
  check(strategy(3, 12, 2, sharded(Sharding::zero2)), true);
  check(strategy(4, 12, 1, sharded(Sharding::zero3, 2)));
}

TEST_CASE("tensor ranks over NCCL train what threads train") {
  check(mesh(1, 2, 1));
  Strategy s = mesh(1, 3, 1);
  s.sequence_parallel = true;
  check(s);
  check(mesh(2, 2, 1, Sharding::zero1));
}

TEST_CASE("pipelines over NCCL train what threads train") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
    check(strategy(1, 12, 2, stages(2, schedule)));
  Strategy s = strategy(1, 12, 1, stages(2, Schedule::interleaved));
  s.virtual_stages = 2;
  check(tiny_gpt(4), job_of(tiny_gpt(4)), s);
  check(mesh(2, 1, 2, Sharding::zero1));
  check(strategy(1, 12, 1, stages(2, Schedule::zb_h1)));
}

TEST_CASE("adapters over NCCL train what threads train") {
  Job job = job_of(tiny_gpt(2));
  job.lora_rank = 3;
  check(tiny_gpt(2), job, strategy(2, 12, 1, ring));
}

TEST_CASE("the norm of all gradients over NCCL is that of threads") {
  Job job = job_of(tiny_gpt(2));
  job.clip = 0.05;                     // less than any norm here
  for (const bool own : {false, true}) {
    check(tiny_gpt(2), job, mesh(2, 2, 1, Sharding::zero1), own);
    check(tiny_gpt(2), job, mesh(1, 2, 2), own);
    check(tiny_gpt(2), job, strategy(4, 12, 1, sharded(Sharding::zero3, 2)), own);
  }
}

TEST_CASE("ranks train over NCCL where a GPU runs one call after another, sends beside") {
  const Words serial("serial=2");
  check(strategy(3, 12, 2, sharded(Sharding::zero3)));
  check(mesh(2, 2, 1, Sharding::zero1));
  check(mesh(2, 1, 2, Sharding::zero2));
  check(strategy(1, 12, 2, stages(2, Schedule::one_f_one_b)));
  check(strategy(1, 12, 1, stages(2, Schedule::zb_h1)));
  Strategy s = strategy(1, 12, 1, stages(2, Schedule::interleaved));
  s.virtual_stages = 2;
  check(tiny_gpt(4), job_of(tiny_gpt(4)), s);
}
