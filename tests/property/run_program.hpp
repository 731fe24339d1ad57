#pragma once
// Runs a strategy on the host for tests: lowers it, runs every rank as a thread, and hands back
// what was trained, counted and held. One call, one world; nothing shared between calls.

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "exec/communicator/statistics.hpp"
#include "exec/communicator/world.hpp"
#include "exec/interpret/backend.hpp"
#include "exec/training/schedule.hpp"
#include "hw_profiles/profile.hpp"
#include "models/spec.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/strategy.hpp"
#include "sim/program/program.hpp"
#include "sim/program/replay.hpp"

namespace tests {

struct RankResult {
  int class_index = 0;
  program::TermBytes terms{}, peaks{};
  core::Bytes live{}, reserved{};
  std::int64_t evaluations = 0;        // layer forwards of the last step
  std::map<exec::TrafficKey, exec::TrafficTotals> traffic;  // of one step
  std::vector<double> weights;         // the stored flat weights or shards
};

struct ProgramRun {
  program::Program program;
  std::vector<double> losses;          // per step, summed over data ranks in ascending order
  std::vector<RankResult> ranks;
  // Final trained parameters by path, unsharded over ZeRO (not over tensor ranks: one vector per
  // tensor rank), from data rank 0 of each stage. The last stage's tied copy is left out.
  std::map<std::string, std::vector<std::vector<double>>> weights;
  // All data ranks (and both tied copies) ended with the same bits.
  bool replicas_agree = true;
  exec::KeptSteps kept;                // of the last rank
};

// Makes the backends of a run's ranks; null: the host's.
using BackendMaker = std::function<std::unique_ptr<exec::Backend>(
    const program::Program& program, const program::RankClass& rank_class, int rank)>;

// Runs `rank` for every rank, each in its world and with its backends, and returns when all have
// ended; throws what one of them threw.
using RankBody =
    std::function<void(exec::World& world, int rank, const BackendMaker& backends)>;
using Ranks = std::function<void(int ranks, const RankBody& rank)>;

// The same where each rank has a world of its own, as processes have.
ProgramRun run_program_on(const Ranks& ranks, const models::ModelSpec& spec,
                          const planner::Job& job, planner::Strategy strategy, std::int64_t steps,
                          std::uint64_t seed = 1, const hw_profiles::Framework& framework = {},
                          bool keeps_steps = false,
                          const std::optional<exec::Training>& training = {});

// REQUIRES: strategy_problems is empty (checked; the message names the problem). The strategy is
// resolved here. keeps_steps: the backends keep a step and are given it again. training: the
// optimizer's defaults where it is empty.
ProgramRun run_program(const models::ModelSpec& spec, const planner::Job& job,
                       planner::Strategy strategy, std::int64_t steps, std::uint64_t seed = 1,
                       const BackendMaker& backends = {},
                       const hw_profiles::Framework& framework = {}, bool keeps_steps = false,
                       const std::optional<exec::Training>& training = {});

// A GPT with every size small and odd where it may be.
models::ModelSpec tiny_gpt(std::int64_t layers = 4);
// A Llama with grouped queries and untied embeddings; family qwen2 or qwen3 gives theirs.
models::ModelSpec tiny_llama(models::Family family = models::Family::llama);
// A Llama whose layers have so many experts, of which each token takes `chosen`; 8 tokens a sample.
models::ModelSpec tiny_mixture(std::int64_t experts = 4, std::int64_t chosen = 2);
// The same with layers by letters: mixtures (m), dense 36 wide (d), dense without rotation (s).
models::ModelSpec tiny_mixed(const std::string& letters = "dmdm");
// GPT's sizes with the blocks of mpt, bert or uce; the last takes 7 features for a token, and
// decodes through 10.
models::ModelSpec tiny_of(models::Family family);
models::ModelSpec small_chain(std::int64_t layers, std::int64_t width);
planner::Job tiny_job(const models::ModelSpec& spec, std::int64_t global_batch,
                      const std::string& recipe = "fp32");

}  // namespace tests
