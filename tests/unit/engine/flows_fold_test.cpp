// Steps whose messages share links: alike ranks played once, and rings stepped together, give what
// every rank and every message gives.
#include "core/random.hpp"
#include "sim/engine/symmetry.hpp"
#include "tests/unit/engine/folded_flows.hpp"
#include "tests/unit/engine/pipelines.hpp"
#include "tests/unit/engine/random_programs.hpp"
#include "tests/unit/engine/small_space.hpp"

using engine::Outcome;
using engine_test::flows_over;
using engine_test::Lowered;
using engine_test::Space;

namespace {

// Returns how many ranks were played of those that there are.
double fold_share(const program::Program& p, const cost::Machine& machine,
                  const engine::Topology& topology) {
  const engine::Symmetry symmetry(p, engine::groups_of(p, machine.gpus_per_node), topology, {});
  const Outcome folded = flows_over(p, machine, topology, &symmetry);
  const Outcome each = flows_over(p, machine, topology, nullptr);
  const engine::Fold& fold = symmetry.fold();
  for (std::size_t rank = 0; rank < fold.of.size(); ++rank) {
    INFO("rank " << rank);
    for (int step = 0; step < 2; ++step)
      REQUIRE(each.account(rank, step) ==
              folded.account(static_cast<std::size_t>(fold.of[rank]), step));
    REQUIRE(each.wire_sent[rank] == folded.wire_sent[rank]);
    REQUIRE(each.wire_received[rank] == folded.wire_received[rank]);
  }
  return static_cast<double>(fold.count()) / static_cast<double>(fold.of.size());
}

// Nodes of so many GPUs, whose network is slower than their ports.
cost::Machine machine_of(int per_node, core::Random random) {
  cost::Machine m = engine_test::unit_machine();
  m.gpus_per_node = per_node;
  m.internode = core::BytesPerSecond{1e11 * (1 + static_cast<double>(random.below(0, 20)))};
  m.link_latency = core::Seconds{1e-12 * static_cast<double>(random.below(1, 300))};
  m.internode_latency = core::Seconds{1e-12 * static_cast<double>(random.below(2, 900))};
  if (random.below(3, 3) == 0) m.pair = core::BytesPerSecond{2.5e12};
  return m;
}

}  // namespace

TEST_CASE("alike ranks played once give every rank's step, on random programs and machines") {
  int folded = 0;
  for (std::uint64_t seed = 1; seed <= 120; ++seed) {
    INFO("seed " << seed);
    const core::Random random(seed, 77);
    program::Program p = engine_test::random_program(seed);
    constexpr int kData[] = {2, 3, 4, 6, 8, 12, 16};
    p.mesh.data = kData[random.below(10, 7)];
    constexpr int kPerNode[] = {2, 4, 8, 16};
    const cost::Machine machine = machine_of(kPerNode[random.below(11, 4)], random);
    std::vector<engine::WeakLink> weak;
    if (random.below(12, 4) == 0)
      weak.push_back({static_cast<int>(random.below(13, 2)), random.below(14, 2) == 0 ? 0.0 : 0.5});
    const engine::Topology topology(p.mesh.ranks(), machine, weak);
    folded += fold_share(p, machine, topology) < 1;
  }
  CHECK(folded > 60);
}

TEST_CASE("alike ranks played once give every rank's step, for every way to exchange gradients") {
  const Space space = GENERATE(
      Space{"gpt2-124m", "h100-sxm-80g", 32, 128, 32, {"data=32", "sharding=zero1"}, 8},
      Space{"gpt2-124m", "h100-sxm-80g", 16, 128, 16, {"data=16", "sharding=zero3"}, 4},
      Space{"gpt2-124m", "h100-sxm-80g", 16, 128, 16, {"tensor=4", "data=4", "sharding=zero1"}, 4},
      Space{"gpt2-124m", "h100-sxm-80g", 16, 128, 16, {"tensor=2", "pipeline=2", "data=4"}, 4, 9},
      Space{"gpt2-124m", "rtx3090", 16, 128, 16, {"data=16", "grad_sync=tree"}, 4},
      Space{"gpt2-124m", "rtx3090", 16, 128, 16, {"data=16", "grad_sync=naive_all_reduce"}, 4},
      Space{"gpt2-124m", "h100-sxm-80g", 16, 128, 16,
            {"data=4", "context=4", "context_method=exchange", "checkpoint=none"}, 4},
      Space{"gpt2-124m", "h100-sxm-80g", 16, 128, 16,
            {"data=4", "context=4", "context_method=ring", "checkpoint=none"}, 4});
  const int visited = engine_test::each_candidate(space, [](const Lowered& c) {
    INFO(to_text(c.strategy));
    const cost::Machine& machine = c.question.machine;
    const engine::Topology topology(c.program.mesh.ranks(), machine, {});
    CHECK(fold_share(c.program, machine, topology) <= 1);
  });
  CHECK(visited > 0);
}

TEST_CASE("of data-parallel ranks one is played for each place in a node") {
  engine_test::each_candidate(
      {"gpt2-124m", "h100-sxm-80g", 32, 128, 32, {"data=32", "sharding=zero1", "micro_batch=1"}},
      [](const Lowered& c) {
        const cost::Machine& machine = c.question.machine;
        const engine::Topology topology(32, machine, {});
        const engine::Symmetry symmetry(c.program, engine::groups_of(c.program, 8), topology, {});
        CHECK(symmetry.fold().count() == 8);
        for (int rank = 0; rank < 32; ++rank)
          CHECK(symmetry.fold().of[static_cast<std::size_t>(rank)] == rank % 8);
      });
}
