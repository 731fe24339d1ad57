// Data ranks that take different numbers of micro-batches: what they train is what one rank trains,
// and memory and traffic are as predicted.
#include <numeric>

#include "planner/lowering/lower.hpp"
#include "planner/strategy/problems.hpp"
#include "planner/strategy/resolve.hpp"
#include "sim/program/checker.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_close.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/random_cells.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

constexpr std::int64_t kBatch = 12;

// The shares of a strategy whose micro-batches they fill.
Strategy shared(std::vector<std::int64_t> shares,
                const std::function<void(Strategy&)>& change = {}) {
  Strategy s = strategy(std::ssize(shares), kBatch, 1, change);
  s.micro_batch = kBatch / std::reduce(shares.begin(), shares.end());
  s.grad_accum = *std::ranges::max_element(shares);
  s.shares = std::move(shares);
  return s;
}

// Momentum: Adam would divide by roots of gradients near zero, and so magnify their rounding.
void check_shares(const models::ModelSpec& spec, const Strategy& s, double clip = 0) {
  INFO(spec.name << " " << to_text(s));
  Job job = tiny_job(spec, kBatch, "fp64");
  job.optimizer = OptimizerKind::momentum;
  job.clip = clip;
  check_close(spec, job, one_rank(spec, job), s, kDoubleTolerance, kDoubleTolerance);
  check_prediction(run_program(spec, job, s, kSteps));
}

core::Problems problems_of(const Strategy& s) {
  const models::ModelSpec spec = tiny_gpt();
  const Job job = tiny_job(spec, kBatch, "fp64");
  return strategy_problems(spec, job, resolve(spec, job, s), s.workers());
}

std::string first_key(const Strategy& s) {
  const core::Problems found = problems_of(s);
  return found.empty() ? "" : found.front().where;
}

}  // namespace

TEST_CASE("data ranks with different shares of a step train as one rank does") {
  for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()}) {
    for (const auto& how : {ring, tree, naive_all_reduce})
      check_shares(spec, shared({6, 4, 2}, how));
    check_shares(spec, shared({1, 5, 5, 1}));
    check_shares(spec, shared({4, 2}));  // of two samples each
    check_shares(spec, shared({5, 3, 3, 1}, sharded(Sharding::zero1)));
    check_shares(spec, shared({7, 5}, recomputing(Checkpoint::every_k)));
  }
  check_shares(tiny_gpt(), shared({7, 5}), 0.05);
}

TEST_CASE("shares go with tensor, context and pipeline ranks") {
  for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama()}) {
    check_shares(spec, shared({4, 8}, [](Strategy& s) { s.tensor = 3; }));
    check_shares(spec, shared({4, 8}, [](Strategy& s) {
      s.tensor = 3;
      s.sequence_parallel = true;
      sharded(Sharding::zero1)(s);
    }));
    check_shares(spec, shared({9, 3}, [](Strategy& s) { s.context = 3; }));
    for (const Schedule schedule :
         {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b, Schedule::zb_h1})
      for (const auto order : {Degree::pipeline, Degree::data})
        check_shares(spec, shared({8, 4}, [&](Strategy& s) {
          stages(2, schedule)(s);
          if (order == Degree::pipeline)
            s.mesh_order = {Degree::tensor, Degree::context, Degree::pipeline, Degree::data};
        }));
    check_shares(spec, shared({11, 1}, stages(2, Schedule::one_f_one_b)));
    check_shares(spec, shared({8, 4}, [](Strategy& s) {
      stages(2, Schedule::interleaved)(s);
      s.virtual_stages = 2;
    }));
  }
}

TEST_CASE("shares that are equal make the Program of no shares") {
  const models::ModelSpec spec = tiny_gpt();
  const Job job = tiny_job(spec, kBatch, "fp32");
  const auto weights = [&](const Strategy& s) {
    return run_program(spec, job, s, kSteps, kSeed).weights;
  };
  CHECK(weights(shared({4, 4, 4})) == weights(strategy(3, kBatch, 1)));
}

TEST_CASE("shares that cannot be are refused by name") {
  CHECK(first_key(shared({6, 4, 2})).empty());
  Strategy few = shared({6, 6});
  few.shares = {6, 4};
  CHECK(first_key(few) == "shares");
  few.shares = {6, 3, 3};
  CHECK(first_key(few) == "shares");
  Strategy greatest = shared({8, 4});
  greatest.grad_accum = 4;
  CHECK(first_key(greatest) == "grad_accum");
  CHECK(first_key(shared({8, 4}, sharded(Sharding::zero2))) == "sharding");
  CHECK(first_key(shared({8, 4}, sharded(Sharding::zero3))) == "sharding");
  CHECK(first_key(shared({8, 3, 1}, [](Strategy& s) {
          stages(2, Schedule::interleaved)(s);
          s.virtual_stages = 2;
        })) == "shares");              // 3 micro-batches are no groups of two ranks
  CHECK(first_key(shared({8, 4}, servers(1, true))) == "grad_sync");
}
