#pragma once
// A resolved strategy lowered, found sound by the checker, and held by the closed-form bound on its
// replay.

#include "planner/lower.hpp"
#include "sim/program/bound.hpp"
#include "sim/program/checker.hpp"
#include "sim/program/replay.hpp"
#include "tests/catch.hpp"

namespace planner_test {

// slack: bytes by which the bound may exceed 1.02 of the replay, for graphs of a few bytes.
inline program::Program sound_program(const models::ModelSpec& spec, const planner::Job& job,
                                      const planner::Strategy& resolved, double slack = 0) {
  INFO(to_text(resolved));
  const auto graph = models::build_graph(spec, planner::graph_options(job, resolved));
  REQUIRE(graph.ok());
  program::Program p = planner::lower(*graph, job, resolved);
  const auto unsound = program::check(p);
  INFO(core::to_text(unsound));
  REQUIRE(unsound.empty());
  for (const program::RankClass& k : p.classes) {
    const core::Bytes live = program::replay(k).live, bound = program::closed_form_live(k);
    REQUIRE(bound >= live);
    REQUIRE(static_cast<double>(bound.value()) <=
            1.02 * static_cast<double>(live.value()) + slack);
  }
  return p;
}

}  // namespace planner_test
