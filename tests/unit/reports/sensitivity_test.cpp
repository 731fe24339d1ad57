#include "reports/sensitivity.hpp"

#include "reports/text.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

using namespace reports;
using core::Seconds;
using reports_test::has;

namespace {

// step, exposed, busy in seconds; the rest of the step is compute.
planner::Time time_of(double step, double exposed, double busy) {
  planner::Time t;
  t.step = Seconds(step);
  t.exposed_communication = Seconds(exposed);
  t.compute = Seconds(step - exposed);
  t.communication = Seconds(busy);
  return t;
}

}  // namespace

TEST_CASE("slower links expose what the hidden part no longer covers, by hand") {
  const planner::Time t = time_of(10, 1, 4);  // 9 besides, 3 hidden
  CHECK(step_on_slower_links(t, 1).value() == Approx(10.0));
  CHECK(step_on_slower_links(t, 2).value() == Approx(14.0));    // 9 + 2 x 4 - 3
  CHECK(step_on_slower_links(t, 0.5).value() == Approx(9.0));   // 9 + max(0, 2 - 3)
}

TEST_CASE("links flip the choice where the two steps cross, by hand") {
  // chosen 10 + 4 (f - 1), other 11 + 2 (f - 1): equal at f = 1.5.
  CHECK(*link_flip(time_of(10, 4, 4), time_of(11, 2, 2)) == Approx(1.5).epsilon(0.002));
  // chosen 10 + 1 (f - 1), other 12 + 5 (f - 1): equal at f = 0.5.
  CHECK(*link_flip(time_of(10, 1, 1), time_of(12, 5, 5)) == Approx(0.5).epsilon(0.002));
  CHECK_FALSE(link_flip(time_of(10, 1, 1), time_of(12, 1, 1)));
}

TEST_CASE("a step on the links as they are is the step, and slower links never help") {
  for (double exposed = 0; exposed <= 4; exposed += 0.5)
    for (double busy = 0; busy <= 6; busy += 0.5) {
      const planner::Time t = time_of(10, exposed, busy);
      CHECK(step_on_slower_links(t, 1).value() == Approx(10.0));
      for (double f = 0.25; f < 8; f *= 2)
        CHECK(step_on_slower_links(t, f) <= step_on_slower_links(t, 2 * f));
    }
}

TEST_CASE("what would change the choice names the alternative, memory and links") {
  planner::Plan plan = reports_test::sample_plan();
  plan.alternatives[0].memory.worst.device = core::gib(20);
  const std::vector<std::string> lines = what_would_change(plan);
  REQUIRE(lines.size() == 4);
  CHECK(has(lines[0], "+20.0 %: data=8 tensor=1"));
  CHECK(has(lines[1], "less than 23.0 GiB usable a GPU: then data=8 tensor=1 (20.0 GiB, +20.0 %)"));
  CHECK(has(lines[2], "90.0 GiB usable a GPU lets in"));
  CHECK(has(lines[3], "do not change the order"));
}

TEST_CASE("a choice that may run out of memory comes with the fastest that hardly does") {
  planner::Plan plan = reports_test::sample_plan();
  plan.chosen->uncertainty.out_of_memory = 0.027;
  plan.alternatives[0].uncertainty.out_of_memory = 0.004;
  CHECK(has(what_would_change(plan)[1],
            "it may run out of memory (2.7 %); safer: data=8 tensor=1"));
  CHECK(has(what_would_change(plan)[1], "(0.40 %, +20.0 %)"));
  for (planner::Candidate& c : plan.alternatives) c.uncertainty.out_of_memory = 0.02;
  for (planner::Candidate& c : plan.pareto) c.uncertainty.out_of_memory = 0.02;
  CHECK(has(what_would_change(plan)[1], "so may every strategy kept"));
}

TEST_CASE("a choice that is likelier to fit than what is faster names that") {
  planner::Plan plan = reports_test::sample_plan();
  plan.alternatives[0].time.step = plan.chosen->time.step * 0.99;
  plan.alternatives[0].uncertainty.out_of_memory = 0.4;
  CHECK(has(what_would_change(plan)[1],
            "faster, -1.0 %, but may run out of memory (40.0 %): data=8 tensor=1"));
}

TEST_CASE("a plan without an alternative says so, one without an answer says nothing") {
  planner::Plan plan = reports_test::sample_plan();
  plan.alternatives.clear();
  CHECK(has(what_would_change(plan).front(), "no other strategy is feasible"));
  plan.chosen.reset();
  CHECK(what_would_change(plan).empty());
}
