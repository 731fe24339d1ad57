#include "exec/run/rank_report.hpp"

#include "tests/catch.hpp"

using namespace exec;

namespace {

// Rank 0 is done after 2 s of each step, rank 1 after 3 s; a first step warms up.
std::vector<RankReport> two_ranks() {
  std::vector<RankReport> reports(2);
  for (const double first : {9.0, 2.0, 2.0})
    reports[0].times.push_back(
        {.step = first, .compute = 1.5, .exposed_communication = 0.25, .optimizer = 0.125});
  for (const double first : {8.0, 3.0, 3.0}) reports[1].times.push_back({.step = first});
  return reports;
}

}  // namespace

TEST_CASE("a step that all begin together lasts until the last rank has done its part") {
  RunRecord record;
  fill_measured(record, two_ranks(), 0, 3, /*together=*/true, /*draining=*/0);
  CHECK(record.time.step_median == core::Seconds(3.0));
  CHECK(record.time.step_p90 == core::Seconds(3.0));
  CHECK(record.time.compute == core::Seconds(1.5));
  CHECK(record.time.bubble == core::Seconds(3.0 - 1.5 - 0.25 - 0.125));
}

TEST_CASE("where ranks do not wait for each other a step is the named rank's own") {
  RunRecord record;
  fill_measured(record, two_ranks(), 0, 3, /*together=*/false, /*draining=*/0);
  CHECK(record.time.step_median == core::Seconds(2.0));
}
