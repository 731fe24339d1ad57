// Mixtures of experts on ranks that divide samples: each routes its windows of tokens as one rank
// with all of them does, so that many train what one trains: bit by bit against a reference in the
// stated order, to rounding against one rank, memory and traffic to the byte.
#include "planner/lowering/lower.hpp"
#include "sim/program/traffic.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_close.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/context_cases.hpp"

using namespace planner;
using namespace tests;

namespace {

constexpr ContextMethod kMethods[] = {ContextMethod::gather, ContextMethod::ring,
                                      ContextMethod::exchange};

// Experts of each other rank, on `data` x `context` ranks.
Strategy routed(std::int64_t data, std::int64_t context, std::int64_t expert,
                ContextMethod method = ContextMethod::gather,
                const std::function<void(Strategy&)>& change = {}) {
  Strategy s = sliced(data, context, change);
  s.expert = expert;
  s.context_method = method;
  return s;
}

// Both as they are named: bits, then memory and traffic.
void check_both(const models::ModelSpec& spec, const Strategy& s, const char* recipe) {
  check_equal(spec, job_of(spec, recipe), s);
  check_cell(spec, {"routed", s, 0}, recipe);
}

}  // namespace

TEST_CASE("experts on ranks that divide samples equal the reference, in every method") {
  for (const ContextMethod method : kMethods)
    for (const char* recipe : {"fp32", "mixed"}) {
      const models::ModelSpec spec = with_tokens(tiny_mixture(), 12);
      check_both(spec, routed(1, 3, 1, method), recipe);
      check_both(with_tokens(tiny_mixture(), 8), routed(1, 2, 2, method), recipe);
      check_both(with_tokens(tiny_mixture(), 8), routed(2, 2, 1, method), recipe);
    }
}

TEST_CASE("experts divided within a sample's ranks, and over the ranks of several") {
  const models::ModelSpec spec = with_tokens(tiny_mixture(), 16);
  for (const char* recipe : {"fp32", "mixed", "fsdp2"})
    for (const std::int64_t expert : {2, 4}) {
      check_both(spec, routed(1, 4, expert), recipe);
      check_both(spec, routed(2, 2, expert), recipe);
      for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
        check_both(spec, routed(2, 2, expert, ContextMethod::gather, sharded_all(z)), recipe);
    }
}

TEST_CASE("mixtures of divided samples in pipelines and recomputed equal the reference") {
  const models::ModelSpec spec = with_tokens(tiny_mixture(), 8);
  for (const ContextMethod method : kMethods)
    for (const std::int64_t expert : {1, 2}) {
      check_both(spec, routed(1, 2, expert, method, stages(2, Schedule::one_f_one_b)), "fp32");
      check_both(spec, routed(1, 2, expert, method, stages(2, Schedule::zb_h1)), "fp32");
      for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::selective, Checkpoint::pointwise,
                                 Checkpoint::memory_poor})
        check_both(spec, routed(1, 2, expert, method, recomputing(c)), "mixed");
    }
}

TEST_CASE("mixtures of divided samples equal one rank that has all tokens, to rounding") {
  for (const auto& base : {tiny_mixture(), tiny_mixture(2, 2), tiny_mixture(6, 4)})
    for (const char* recipe : {"fp64", "fp32"}) {
      const double bound = std::string(recipe) == "fp64" ? kDoubleTolerance : kFloatTolerance;
      const models::ModelSpec spec = with_tokens(base, 48);
      const Job job = job_of(spec, recipe);
      const ReferenceResult expected = single_rank(job, spec);
      const auto check = [&](const Strategy& s) {
        check_close(spec, job, expected, s, bound, bound);
      };
      for (const ContextMethod method : kMethods) {
        for (const std::int64_t context : {2, 4}) {
          if (method == ContextMethod::exchange && base.kv_heads % context != 0) continue;
          check(routed(1, context, 1, method));
        }
        check(routed(2, 2, 1, method, sharded_all(Sharding::zero1)));
      }
      Strategy s = routed(1, 2, 1);
      s.tensor = 2;
      check(s);
    }
}

TEST_CASE("a context rank exchanges the copies of its own tokens, by hand") {
  // 2 ranks of 4 tokens each x 2 copies x 24 wide, 2 samples, in f32: S = 1536 B, half travels.
  // 4 layers, 6 micro-batches, 4 exchanges.
  const models::ModelSpec spec = with_tokens(tiny_mixture(), 8);
  const ProgramRun run = run_program(spec, job_of(spec, "fp32"), routed(1, 2, 2), 1);
  std::int64_t wire = 0, calls = 0;
  for (const auto& [key, t] : run.ranks[1].traffic) {
    if (key.what != program::Traffic::expert) continue;
    calls += t.calls;
    wire += t.wire.value();
  }
  CHECK(calls == 4 * 6 * 4);
  CHECK(wire == 4 * 6 * 4 * 768);
}

TEST_CASE("slices that cut a window of routing are refused, with the length that would do") {
  const auto problem = [](const models::ModelSpec& spec, std::int64_t context) {
    const Job job = job_of(spec, "fp32");
    const Strategy s = routed(1, context, 1);
    for (const core::Problem& p : strategy_problems(spec, job, resolve(spec, job, s), s.workers()))
      if (p.where == "context") return p;
    return core::Problem{};
  };
  // 4 experts, 2 a token: windows of 2. 12 tokens over 2 ranks: runs of 3.
  const core::Problem cut = problem(with_tokens(tiny_mixture(), 12), 2);
  CHECK_THAT(cut.expected, Catch::Contains("whole windows of 2 tokens"));
  CHECK(cut.found == "2 (runs of 3 and 3)");
  CHECK(cut.fix == "use a --seq that 8 divides, or pin context=1");
  CHECK(problem(with_tokens(tiny_mixture(), 12), 3).where.empty());
  // All experts of every token: any run will do.
  CHECK(problem(with_tokens(tiny_mixture(2, 2), 6), 2).where.empty());
}
