#include "reports/front.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

namespace {

using namespace reports;

Subject point(std::int64_t gpus, double step, std::int64_t gib, std::int64_t seq_len = 1024) {
  Subject s = chosen_of(reports_test::sample_plan(), std::to_string(gpus));
  s.gpus = gpus;
  s.seq_len = seq_len;
  s.candidate->time.step = core::Seconds(step);
  s.candidate->memory.worst.device = core::gib(gib);
  return s;
}

std::string labels(const std::vector<Subject>& front) {
  std::string text;
  for (const Subject& s : front) text += s.label + ' ';
  return text;
}

}  // namespace

TEST_CASE("a front keeps what nothing is as fast, as small and on as few GPUs as") {
  // The second takes more of all than the first; the third more GPUs for less memory.
  CHECK(labels(front_of({point(4, 1, 20), point(8, 1.1, 21), point(16, 1.2, 10)})) == "4 16 ");
  // Of equals the first; another job is no rival.
  CHECK(labels(front_of({point(8, 1, 20), point(8, 1, 20), point(4, 1, 20, 64)})) == "4 8 ");
  // By GPUs, then step.
  CHECK(labels(front_of({point(8, 1, 20), point(4, 3, 20), point(2, 9, 20)})) == "2 4 8 ");
}

TEST_CASE("a front is shown where the questions are about several numbers of GPUs") {
  CHECK(front_text({point(8, 1, 20), point(8, 2, 10)}, 12, {}).empty());
  const std::vector<Subject> front{point(4, 2, 20), point(4, 3, 11), point(4, 4, 10),
                                   point(8, 1, 9)};
  const std::string text = front_text(front, 2, {});
  CHECK(reports_test::has(text, "Pareto front of GPUs, step and memory, 2 of 4"));
  // At most half of the line before, of the same question.
  CHECK(reports_test::has(text, "20.0 GiB"));
  CHECK_FALSE(reports_test::has(text, "11.0 GiB"));
  CHECK(reports_test::has(text, "10.0 GiB"));
  CHECK_FALSE(reports_test::has(text, "9.00 GiB"));
}

TEST_CASE("contenders are the choice, then the rest of its plan's front") {
  planner::Plan plan = reports_test::sample_plan();
  plan.pareto = {*plan.chosen, plan.alternatives[0]};
  CHECK(contenders_of(plan, "p").size() == 2);
  plan.chosen.reset();
  CHECK(contenders_of(plan, "p").empty());
}
