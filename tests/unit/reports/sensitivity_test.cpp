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
  REQUIRE(lines.size() == 3);
  CHECK(has(lines[0], "The nearest alternative is 20.0 % slower: data=8 tensor=1."));
  CHECK(has(lines[1], "needs less memory (20.0 GiB instead of 23.0 GiB per GPU) is 20.0 % slower: "
                      "data=8 tensor=1."));
  CHECK(has(lines[2], "With 90.0 GiB usable per GPU this plan would also fit (its speed was not "
                      "evaluated): data=1"));
}

TEST_CASE("alternatives that prediction cannot tell apart are counted in words") {
  planner::Plan plan = reports_test::sample_plan();
  planner::Candidate near = plan.alternatives[0];
  near.time.step = plan.chosen->time.step * 1.001;
  const auto said = [&](const std::vector<planner::Candidate>& all) {
    plan.alternatives = all;
    return what_would_change(plan)[0];
  };
  const std::string rest = " too near to tell apart by prediction";
  const planner::Candidate far = plan.alternatives[0];
  CHECK(has(said({near}), ". It is" + rest));
  CHECK(has(said({near, near}), "All 2 alternatives are" + rest));
  CHECK(has(said({near, far}), "One of the 2 alternatives is" + rest));
  CHECK(has(said({near, near, far}), "2 of the 3 alternatives are" + rest));
  CHECK_FALSE(has(said({far}), rest));
}

TEST_CASE("a choice that may run out of memory comes with the fastest that hardly does") {
  planner::Plan plan = reports_test::sample_plan();
  plan.chosen->uncertainty.out_of_memory = 0.027;
  plan.alternatives[0].uncertainty.out_of_memory = 0.004;
  CHECK(has(what_would_change(plan)[1],
            "Safer (0.40 % risk of running out of memory instead of 2.7 %), and 20.0 % slower: "
            "data=8 tensor=1."));
  for (planner::Candidate& c : plan.alternatives) c.uncertainty.out_of_memory = 0.02;
  for (planner::Candidate& c : plan.pareto) c.uncertainty.out_of_memory = 0.02;
  for (const std::string& line : what_would_change(plan)) CHECK_FALSE(has(line, "Safer"));
}

TEST_CASE("a choice that is likelier to fit than what is faster names that") {
  planner::Plan plan = reports_test::sample_plan();
  plan.alternatives[0].time.step = plan.chosen->time.step * 0.99;
  plan.alternatives[0].uncertainty.out_of_memory = 0.4;
  CHECK(has(what_would_change(plan)[1],
            "Faster but riskier: 1.0 % faster, with a 40.0 % risk of running out of memory: "
            "data=8 tensor=1."));
}

TEST_CASE("a plan without an alternative names none, one without an answer says nothing") {
  planner::Plan plan = reports_test::sample_plan();
  plan.alternatives.clear();
  for (const std::string& line : what_would_change(plan)) CHECK_FALSE(has(line, "alternative"));
  plan.chosen.reset();
  CHECK(what_would_change(plan).empty());
  CHECK(what_parts_earn(plan).empty());
}

TEST_CASE("an unusual part says what it earns, or that nothing is as safe without it") {
  planner::Plan plan = reports_test::sample_plan();
  planner::Strategy without = plan.chosen->strategy;
  without.data = 8;
  plan.earned = {{"schedule=zb_v", without, plan.chosen->time.step * 1.09, core::gib(20)},
                 {"offload=optimizer", {}, {}, {}}};
  const std::vector<std::string> lines = what_parts_earn(plan);
  REQUIRE(lines.size() == 2);
  CHECK(has(lines[0], "schedule=zb_v: 9.0 % faster than the best plan without it, which takes"));
  CHECK(has(lines[0], "(data=8)"));
  CHECK(has(lines[1], "offload=optimizer: without it nothing found fits as safely."));
}
