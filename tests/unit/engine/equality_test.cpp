// The sweep, the engine, folded and unfolded: one answer, to the picosecond.
#include "sim/engine/engine.hpp"
#include "sim/engine/sweep.hpp"
#include "tests/catch.hpp"
#include "tests/unit/cost/machine_for_tests.hpp"
#include "tests/unit/engine/pipelines.hpp"
#include "tests/unit/engine/small_space.hpp"
#include "tests/unit/engine/timed_stages.hpp"

using engine::Outcome;
using engine::Scene;
using engine_test::Lowered;
using engine_test::Space;

namespace {

void equal(const Outcome& a, const Outcome& b) {
  REQUIRE(a.accounts.size() == b.accounts.size());
  for (std::size_t i = 0; i < a.accounts.size(); ++i) {
    INFO("account " << i);
    REQUIRE(a.accounts[i].finish == b.accounts[i].finish);
    REQUIRE(a.accounts[i] == b.accounts[i]);
  }
  REQUIRE(a.operations == b.operations);
}

// Every rank's account is that of its fold.
void equal_unfolded(const Scene& scene, const Outcome& folded, const Outcome& unfolded) {
  const auto& fold = scene.fold().of;
  REQUIRE(fold.size() == unfolded.actors());
  for (std::size_t rank = 0; rank < fold.size(); ++rank) {
    INFO("rank " << rank);
    for (int step = 0; step < folded.steps; ++step)
      REQUIRE(unfolded.account(rank, step) ==
              folded.account(static_cast<std::size_t>(fold[rank]), step));
  }
}

void all_equal(const program::Program& p, const cost::Machine& machine) {
  const Scene folded(p, machine), each(p, machine, {.unfold = true});
  const Outcome swept = engine::sweep(folded);
  equal(swept, engine::run(folded));
  const Outcome unfolded = engine::sweep(each);
  equal(unfolded, engine::run(each));
  equal(unfolded, engine::run(each, {.block_actors = 2}));
  equal(unfolded, engine::sweep(each, {.block_actors = 2}));
  equal_unfolded(folded, swept, unfolded);
  if (swept.actors() == 1) {           // every step is the first
    const Outcome first = engine::sweep(folded, {.steps = 1});
    CHECK(engine::critical_terms(first).period == engine::critical_terms(swept).period);
    CHECK(engine::critical_terms(first).compute == engine::critical_terms(swept).compute);
  }
  for (std::size_t a = 0; a < swept.actors(); ++a) {
    const engine::StepTerms t = engine::terms_of(swept, a);
    for (const std::int64_t busy : t.busy) CHECK(busy <= t.period);
  }
}

}  // namespace

TEST_CASE("sweep and engine agree on candidates of every kind, folded and unfolded") {
  const Space space = GENERATE(
      Space{"gpt2-124m", "a100-sxm-80g", 8, 256, 16, {}, 8, 5},
      Space{"gpt2-124m", "rtx3090", 12, 128, 24, {"checkpoint=none"}, 4, 3},
      Space{"gpt2-124m", "h100-sxm-80g", 8, 256, 16, {"schedule=interleaved", "pipeline=4"}, 8,
            3},
      Space{"gpt2-124m", "h100-sxm-80g", 8, 256, 32, {"schedule=zb_h1", "pipeline=4"}},
      Space{"gpt2-124m", "h100-sxm-80g", 8, 256, 32, {"schedule=zb_h2", "pipeline=4"}},
      Space{"gpt2-124m", "h100-sxm-80g", 8, 256, 32, {"schedule=zb_v", "pipeline=4"}},
      Space{"gpt2-124m", "h100-sxm-80g", 8, 256, 32, {"schedule=dualpipe_v", "pipeline=4"}},
      Space{"gpt2-124m", "h100-sxm-80g", 8, 256, 32, {"schedule=pipedream_2bw", "pipeline=4"}},
      Space{"gpt2-124m", "h100-sxm-80g", 8, 256, 8, {"schedule=pipedream", "pipeline=4"}},
      Space{"gpt2-124m", "rtx3090", 8, 128, 16, {"schedule=naive", "pipeline=2"}},
      Space{"gpt2-124m", "rtx3090", 8, 128, 16, {"grad_sync=tree"}},
      Space{"gpt2-124m", "rtx3090", 8, 128, 16, {"context=4", "context_method=ring"}, 4},
      Space{"gpt2-124m", "rtx3090", 8, 128, 16, {"context=4", "context_method=exchange"}, 4},
      Space{"gpt2-124m", "rtx3090", 8, 128, 16, {"grad_sync=parameter_server", "servers=2"}},
      Space{"gpt2-124m", "rtx3090", 8, 128, 12,
            {"grad_sync=parameter_server", "servers=2", "servers_colocated=false"}},
      Space{"gpt2-124m", "rtx3090", 8, 128, 12,
            {"grad_sync=parameter_server", "servers=2", "servers_colocated=false",
             "server_mode=async"}},
      Space{"gpt2-124m", "rtx3090", 8, 128, 16,
            {"grad_sync=parameter_server", "servers=3", "server_mode=async"}},
      Space{"gpt2-124m", "h100-sxm-80g", 8, 256, 16, {}, 4, 5, 0, "a100-sxm-80g"},
      Space{"gpt2-124m", "rtx4090", 8, 256, 16, {"shares=3*4,1*4"}, 8, 1, 0, "rtx3090"},
      Space{"gpt2-124m", "h100-sxm-80g", 8, 256, 16,
            {"pipeline=2", "shares=7,7,1,1", "mesh_order=tensor,context,pipeline,data"}, 4, 1, 0,
            "a100-sxm-80g"});
  INFO(space.model << " on " << space.gpus << " x " << space.gpu);
  const int visited = engine_test::each_candidate(space, [](const Lowered& c) {
    INFO(to_text(c.strategy));
    all_equal(c.program, c.question.machine);
  });
  CHECK(visited > 0);
}

TEST_CASE("folds follow places: stages that share a node fold with no stage that spans two") {
  // Twelve ranks, two stages of six data ranks, nodes of four: no two ranks of a stage see the
  // same neighbours on the same links, but for symmetry.
  const program::Program p = engine_test::two_stages(6);
  cost::Machine machine = round_machine();
  machine.gpus_per_node = 4;
  const Scene scene(p, machine);
  CHECK(scene.actors().size() == 2);   // all messages cross nodes
  machine.gpus_per_node = 8;           // 0 -> 6 and 1 -> 7 stay in a node, 2 -> 8 does not
  const Scene uneven(p, machine);
  CHECK(uneven.actors().size() == 4);
  CHECK(uneven.fold().of[0] == uneven.fold().of[1]);
  CHECK(uneven.fold().of[0] != uneven.fold().of[2]);
  all_equal(p, machine);
}

TEST_CASE("a straggler splits off its fold, and whoever it holds up follows") {
  const program::Program p = engine_test::two_stages(8);
  const cost::Machine machine = round_machine();
  const engine::SceneOptions slow{.stragglers = {{3, 1.5}}};
  const Scene folded(p, machine, slow);
  CHECK(folded.actors().size() < 8);
  CHECK(folded.fold().of[3] != folded.fold().of[2]);
  engine::SceneOptions each = slow;
  each.unfold = true;
  const Outcome swept = engine::sweep(folded);
  equal(swept, engine::run(folded));
  equal_unfolded(folded, swept, engine::sweep(Scene(p, machine, each)));
  const std::int64_t usual = engine::critical_terms(engine::sweep(Scene(p, machine))).period;
  CHECK(engine::critical_terms(swept).period > usual);
}

TEST_CASE("a weak link slows every group that crosses nodes with it, and nothing inside a node") {
  const program::Program p = engine_test::two_stages(8);
  cost::Machine machine = round_machine();
  const auto period = [&](const engine::SceneOptions& o) {
    const Scene scene(p, machine, o);
    const Outcome swept = engine::sweep(scene);
    equal(swept, engine::run(scene));
    engine::SceneOptions each = o;
    each.unfold = true;
    equal_unfolded(scene, swept, engine::sweep(Scene(p, machine, each)));
    return engine::critical_terms(swept).period;
  };
  const engine::SceneOptions weak{.stragglers = {{3, 1, 0.25}}};
  machine.gpus_per_node = 4;
  const std::int64_t healthy = period({});
  CHECK(period(weak) > healthy);
  CHECK(period({.stragglers = {{3, 1, 0.125}}}) > period(weak));
  CHECK(period({.stragglers = {{3, 1, 1}}}) == healthy);
  // Two that are alike share a fold with their likes: the same as one of them, or more.
  CHECK(period({.stragglers = {{2, 1, 0.25}, {3, 1, 0.25}}}) >= period(weak));
  machine.gpus_per_node = 16;          // one node: the link inside it is what is weak
  CHECK(period(weak) > period({}));
  machine.gpus_per_node = 8;           // data ranks share a node; messages between stages do not
  const std::int64_t apart = period({});
  CHECK(period(weak) >= apart);
}

TEST_CASE("stragglers and weak links on every kind of transfer: sweep, engine and folds agree") {
  for (const Space& space : engine_test::exchanges()) {
    engine_test::each_candidate(space, [&](const Lowered& c) {
      INFO(to_text(c.strategy));
      cost::Machine machine = c.question.machine;
      for (const int per_node : {2, 8}) {
        machine.gpus_per_node = per_node;
        const engine::SceneOptions slow{.stragglers = {{1, 1.5, 0.5}, {2, 1, 0.25}, {3, 1, 0.25}}};
        const Scene scene(c.program, machine, slow);
        const Outcome swept = engine::sweep(scene);
        equal(swept, engine::run(scene));
        engine::SceneOptions each = slow;
        each.unfold = true;
        equal_unfolded(scene, swept, engine::sweep(Scene(c.program, machine, each)));
        CHECK(engine::critical_terms(swept).period >=
              engine::critical_terms(engine::sweep(Scene(c.program, machine))).period);
      }
    });
  }
}

TEST_CASE("jitter is drawn by rank and operation from the seed") {
  const program::Program p =
      engine_test::pipeline(planner::Schedule::one_f_one_b, 4, 8, 1, {7000, 9000, 5000, 300, 50});
  const auto scene = [&](std::uint64_t seed) {
    return Scene(p, engine_test::unit_machine(), {.jitter = 0.1, .seed = seed});
  };
  std::vector<engine::Played> a, b, c;
  const Outcome first = engine::run(scene(1), {.record = &a});
  engine::run(scene(1), {.record = &b});
  engine::run(scene(2), {.record = &c});
  CHECK(first.actors() == 4);
  equal(first, engine::sweep(scene(1)));
  const auto ends = [](const std::vector<engine::Played>& all) {
    std::vector<std::int64_t> times;
    for (const engine::Played& played : all) times.push_back(played.finish);
    return times;
  };
  CHECK(ends(a) == ends(b));
  CHECK(ends(a) != ends(c));
}
