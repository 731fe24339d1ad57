#pragma once
// A planned job that runs for days on parts that fail: what it loses to failures, to saving and to
// waiting for nodes, by formula and by simulation (sim/engine/goodput.hpp). Pure: the same question
// and seed give the same answer.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"
#include "hw_profiles/failures.hpp"
#include "planner/plan/checkpoint.hpp"
#include "planner/plan/plan.hpp"
#include "planner/plan/state_bytes.hpp"
#include "sim/cost/machine.hpp"
#include "sim/engine/goodput.hpp"

namespace planner {

struct FailureOptions {
  std::vector<hw_profiles::FailureRate> rates;  // of parts, each kind once
  // The file that they are from, and its sources; "" where they were typed.
  std::string rates_of{};
  std::vector<hw_profiles::Sourced> sources{};
  engine::Saving saving = engine::Saving::sync;
  // To write a checkpoint to storage: stated, or by the bandwidth that storage gives the job.
  std::optional<core::Seconds> save{};
  std::optional<core::BytesPerSecond> storage{};
  core::Seconds detect{}, restart{};   // until a failure is noticed; from then until steps run
  std::optional<std::int64_t> spares{};  // nodes that stand by; empty: always enough
  std::optional<core::Seconds> repair{};  // where the rate of a kind states none
  std::optional<std::int64_t> interval{};  // steps between checkpoints; empty: the best
  core::Seconds horizon{30 * 86'400.0};
};

// What a rule for the interval between checkpoints comes to.
struct GoodputRule {
  std::string name;                    // young, daly, best, asked
  std::int64_t interval = 1;           // steps
  double daly = 0, first_order = 0, expected = 0;  // engine::daly_goodput and so on
  double played = 0;
};

struct Goodput {
  engine::FailureModel model;          // between(): failures of the whole job
  StateBytes bytes;
  std::int64_t interval = 1;           // steps: the one asked for, or the best
  double expected = 0;                 // engine::expected_goodput
  core::Seconds step{};                // on average, failures and saves included
  core::Seconds wait{};                // engine::expected_wait
  engine::GoodputRun played;           // over the horizon, by the seed
  std::vector<GoodputRule> rules;      // that of `interval` last
  std::vector<std::string> assumed;
};

// Nothing is known of the plan's program yet.
core::Problems failure_problems(const Plan& plan, const FailureOptions& options);

// step: of a run without failures. traffic: of a checkpoint that shares the links of the steps;
// null: it takes what is stated, and slows no step. Problems: a way to save that the machine or the
// job lacks.
core::Result<Goodput> goodput_of(const Plan& plan, const program::Program& program,
                                 const cost::Machine& machine, core::Seconds step,
                                 const FailureOptions& options, const CheckpointTraffic* traffic,
                                 std::uint64_t seed);

core::Json goodput_json(const Goodput& goodput, const FailureOptions& options);

}  // namespace planner
