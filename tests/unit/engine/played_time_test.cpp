// Steps whose transfers contend for links, as a plan times them.
#include "planner/evaluate/played_time.hpp"
#include "tests/unit/engine/small_space.hpp"

using engine_test::Lowered;
using engine_test::Space;

namespace {

struct Seen {
  int candidates = 0, played = 0, slower = 0, faster = 0;
};

Seen seen(const Space& space) {
  Seen s;
  s.candidates = engine_test::each_candidate(space, [&](const Lowered& c) {
    INFO(to_text(c.strategy));
    const cost::Machine& machine = c.question.machine;
    const auto swept = planner::swept_time(c.program, machine);
    REQUIRE(swept);
    const auto played = planner::played_time(c.program, machine, *swept);
    const planner::Timed timed =
        planner::timed(c.program, machine, c.strategy.schedule);
    CHECK(timed.evaluator == (played ? "simulated" : "sweep"));
    CHECK(timed.time.step.value() == (played ? *played : swept->time).step.value());
    if (!played) return;
    ++s.played;
    const double ratio = played->step / swept->time.step;
    s.slower += ratio > 1.001 ? 1 : 0;
    s.faster += ratio < 0.999 ? 1 : 0;
  });
  REQUIRE(s.candidates > 0);
  return s;
}

}  // namespace

TEST_CASE("a step whose transfers meet on no link is not played") {
  CHECK(seen({"gpt2-124m", "a100-sxm-80g", 4, 256, 16, {"data=4", "sharding=none"}}).played == 0);
  CHECK(seen({"gpt2-124m", "a100-sxm-80g", 4, 256, 16, {"data=1", "tensor=4"}}).played == 0);
}

TEST_CASE("gradients that pass beside tensor collectives share their ports, and the step waits") {
  const Seen s = seen({"gpt2-355m", "rtx3090", 4, 512, 4,
                       {"data=2", "tensor=2", "sharding=none", "micro_batch=1"}});
  CHECK(s.played > 0);
  CHECK(s.slower > 0);
  CHECK(s.faster == 0);
}

TEST_CASE("what servers take is played: their workers' messages meet at a few ports") {
  const Seen s = seen({"gpt2-124m", "rtx3090", 4, 128, 8,
                       {"grad_sync=parameter_server", "servers=1", "checkpoint=none"}});
  CHECK(s.played == s.candidates);
}
