// Ranks over NCCL that keep a step as a CUDA graph, its calls of the library within: they train,
// bit for bit, what the same ranks train action by action, with the same memory and traffic. Where
// one rank cannot keep its step none does.
#include <atomic>

#include "tests/catch.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/nccl_ranks.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;
namespace cuda = exec::cuda;

namespace {

constexpr std::uint64_t kGraphSeed = 11;
constexpr std::int64_t kGraphSteps = 4;

struct Kept {
  ProgramRun run;
  std::int64_t launches = 0;           // of graphs, by all ranks
};

Kept keeping_over_nccl(const models::ModelSpec& spec, const Job& job, const Strategy& s, bool keeps,
               bool own_collectives = false, const SeesTwin& before = {}) {
  static std::uint64_t order = 300;
  std::atomic<std::int64_t> launches = 0;
  cuda::NcclOptions options;
  options.own_collectives = own_collectives;
  const auto count = [&](cuda::Twin& twin, int) { launches += twin.graph_launches(); };
  ProgramRun run = run_program_on(nccl_ranks(options, ++order, before, count), spec, job, s,
                                  kGraphSteps, kGraphSeed, {}, keeps);
  return {std::move(run), launches};
}

void check_equal(const ProgramRun& a, const ProgramRun& b) {
  CHECK(a.losses == b.losses);
  CHECK(a.weights == b.weights);
  REQUIRE(a.ranks.size() == b.ranks.size());
  for (std::size_t r = 0; r < a.ranks.size(); ++r) {
    CHECK(a.ranks[r].live == b.ranks[r].live);
    CHECK(a.ranks[r].evaluations == b.ranks[r].evaluations);
    REQUIRE(a.ranks[r].traffic.size() == b.ranks[r].traffic.size());
    for (const auto& [key, totals] : a.ranks[r].traffic) {
      CHECK(totals.calls == b.ranks[r].traffic.at(key).calls);
      CHECK(totals.payload == b.ranks[r].traffic.at(key).payload);
      CHECK(totals.wire == b.ranks[r].traffic.at(key).wire);
    }
  }
}

void check_kept(const models::ModelSpec& spec, const Job& job, const Strategy& s,
           bool own_collectives = false) {
  INFO(to_text(s) << (own_collectives ? ", own collectives" : ""));
  const Kept plain = keeping_over_nccl(spec, job, s, false, own_collectives);
  const Kept kept = keeping_over_nccl(spec, job, s, true, own_collectives);
  INFO(kept.run.kept.refused);
  CHECK(plain.launches == 0);
  CHECK(kept.launches == std::ssize(kept.run.ranks) * (kGraphSteps - 1));
  CHECK(kept.run.kept.replayed == kGraphSteps - 1);
  check_prediction(kept.run);
  check_equal(kept.run, plain.run);
}
void check_kept(const Strategy& s, bool own_collectives = false) {
  check_kept(tiny_gpt(2), tiny_job(tiny_gpt(2), 12), s, own_collectives);
}

}  // namespace

TEST_CASE("ranks over NCCL keep a step as a graph, and train the same bits") {
  check_kept(strategy(2, 12, 2, ring));
  check_kept(strategy(3, 12, 2, ring), true);
  for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
    check_kept(strategy(2, 12, 2, sharded(z)));
  check_kept(strategy(3, 12, 2, sharded(Sharding::zero2)), true);
  check_kept(mesh(2, 2, 1, Sharding::zero1));
  Strategy rows = mesh(1, 3, 1);
  rows.sequence_parallel = true;
  check_kept(rows);
}

TEST_CASE("pipelines over NCCL keep a step as a graph, and train the same bits") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
    check_kept(strategy(1, 12, 2, stages(2, schedule)));
  check_kept(mesh(2, 1, 2, Sharding::zero1));
  check_kept(strategy(1, 12, 1, stages(2, Schedule::zb_h1)));
  // Of the middle rank no action needs the host.
  check_kept(tiny_gpt(3), tiny_job(tiny_gpt(3), 12),
        strategy(1, 12, 1, stages(3, Schedule::one_f_one_b)));
}

TEST_CASE("norms and loss scales of kept steps over NCCL are those of steps that are given") {
  Job job = tiny_job(tiny_gpt(2), 12, "mixed");
  job.clip = 0.05;
  check_kept(tiny_gpt(2), job, mesh(2, 2, 1, Sharding::zero1));
}

TEST_CASE("where one rank cannot keep its step no rank does") {
  const Job job = tiny_job(tiny_gpt(2), 12);
  const Strategy s = strategy(2, 12, 2, sharded(Sharding::zero2));
  const Kept plain = keeping_over_nccl(tiny_gpt(2), job, s, false);
  for (const char* call : {"begin_capture", "end_capture"}) {
    INFO(call);
    const Kept refused = keeping_over_nccl(tiny_gpt(2), job, s, true, false,
                                   [&](cuda::Twin& twin, int rank) {
                                     if (rank == 0) twin.fail(call, 1, cuda::FailureKind::graph);
                                   });
    CHECK(refused.launches == 0);
    CHECK(refused.run.kept.replayed == 0);
    CHECK(refused.run.kept.refused == "another rank could not keep its step");  // of the last
    check_prediction(refused.run);
    check_equal(refused.run, plain.run);
  }
}
