#pragma once
// A resolved strategy lowered, found sound by the checker, and held by the closed-form bound on its
// replay.

#include "models/zoo.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/bound.hpp"
#include "sim/program/checker.hpp"
#include "sim/program/footprint.hpp"
#include "sim/program/replay.hpp"
#include "tests/catch.hpp"

namespace planner_test {

// slack: bytes by which the bound may exceed 1.02 of the replay, for graphs of a few bytes.
inline program::Program sound_program(const models::ModelSpec& spec, const planner::Job& job,
                                      const planner::Strategy& resolved, double slack = 0,
                                      const hw_profiles::Framework& framework = {}) {
  INFO(to_text(resolved));
  const auto graph = models::build_graph(spec, planner::graph_options(job, resolved, framework));
  REQUIRE(graph.ok());
  program::Program p = planner::lower(*graph, job, resolved,
                                      planner::stage::policy_of(job, framework));
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

inline models::ModelSpec zoo(const std::string& name) {
  auto found = models::find_model(name);
  REQUIRE(found.ok());
  return *found;
}

inline planner::Job job_of(std::int64_t batch, std::int64_t seq_len = 1024) {
  planner::Job job;
  job.seq_len = seq_len;
  job.global_batch = batch;
  return job;
}

// Lowered and found sound; the bound holds the replay.
inline program::Program sound(const planner::Job& job, planner::Strategy s,
                              const std::string& model = "gpt2-1.5b",
                              const hw_profiles::Framework& framework = {}) {
  const models::ModelSpec spec = zoo(model);
  s = planner::resolve(spec, job, s);
  const auto problems =
      planner::strategy_problems(spec, job, s, s.workers() + s.separate_servers());
  INFO(to_text(s) << "\n" << core::to_text(problems));
  REQUIRE(problems.empty());
  program::Program p = sound_program(spec, job, s, 0, framework);
  for (const program::RankClass& k : p.classes)
    CHECK(program::replay(k).reserved ==
          program::replay(k, {.skip_periods = false}).reserved);
  return p;
}

// Bytes that the forward pass of a micro-batch leaves for the backward pass.
inline std::int64_t kept(const program::Program& p) {
  const auto routines = program::routine_footprints<program::LiveFootprint>(p.classes[0]);
  return routines.chunks[0].forward.net;
}

}  // namespace planner_test
