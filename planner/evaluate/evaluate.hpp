#pragma once
// Evaluate: a Candidate from a strategy: lower, replay, count traffic, time, throughput. Time is
// the engine's where transfers contend for links and few enough messages do (played_time.hpp), else
// the sweep's where a step is short enough, else the closed form's; `evaluator` says which. Pure;
// thread-safe.
//
// Uncertainty is what published runs left out of the fit show (planner/evaluate/accuracy.hpp): wide
// for a site that nothing is known of, narrower where the profile carries a calibration.

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"
#include "models/graph.hpp"
#include "planner/evaluate/accuracy.hpp"
#include "planner/evaluate/candidate.hpp"
#include "planner/question/job.hpp"
#include "planner/stage/policy.hpp"
#include "sim/cost/machine.hpp"

namespace planner {

// One question: what every candidate shares.
struct Question {
  models::ModelSpec model;
  Job job;
  hw_profiles::Profile profile;
  cost::Machine machine;
  std::int64_t gpus = 1;
  core::Flops model_flops{};           // GEMMs of one sample and step, whole model
  core::Flops masked_flops{};          // of these, what a causal mask leaves out
  std::int64_t parameters = 0;         // total, unpadded
};

// What the question's framework does with the state of a stage.
stage::Policy policy_of(const Question& question);

// The machine that the job's kernels see.
cost::Machine machine_for(const hw_profiles::Profile& profile, const Job& job,
                          const models::ModelSpec& model);
// The same, of a model with this product_share.
cost::Machine machine_for(const hw_profiles::Profile& profile, const Job& job,
                          double product_share);

// Errors: the model's own (build_graph) and a recipe or optimizer that does not exist.
core::Result<Question> make_question(const models::ModelSpec& model, const Job& job,
                                     const hw_profiles::Profile& profile, std::int64_t gpus);

// The program of a strategy, lowered. graph must be built with graph_options(job, strategy).
// REQUIRES: strategy_problems is empty. want_reserved: as memory_of takes it.
Candidate evaluate(const Question& question, const models::ModelGraph& graph,
                   const Strategy& strategy, bool want_reserved = true);
// The same of a program already lowered; strategy resolved.
Candidate evaluate(const Question& question, const program::Program& program,
                   const Strategy& strategy, bool want_reserved = true);

// The same of a strategy that fits and whose step is at most `most`; nothing of another, which
// costs less to find out. estimates: its memory may be one (fitting_memory_of); settled() makes it
// exact.
std::optional<Candidate> evaluate_fitting(const Question& question, const models::ModelGraph& graph,
                                          const Strategy& strategy, core::Seconds most,
                                          bool estimates = false);
// A candidate of evaluate_fitting with its exact memory, if that fits. threads: as
// core::for_each_index.
std::optional<Candidate> settled(const Question& question, const models::ModelGraph& graph,
                                 Candidate candidate, int threads = 1);

// The parts of evaluate() that speak of time, and of how far both may be trusted.
struct Timed {
  Time time;
  std::string evaluator;
};
Timed timed(const program::Program& program, const cost::Machine& machine, Schedule schedule);
// Of what a strategy of the regime is predicted to take of a device of the question's.
MemoryError memory_error_of(const Question& question, MemoryRegime regime);
Uncertainty uncertainty_of(const Question& question, const program::Program& program,
                           Schedule schedule, const Time& time, const Memory& memory);

// Entries of the plan file's communication, with the busy time of each.
std::vector<CommunicationEntry> communication_of(const program::Program& program,
                                                 const cost::Machine& machine);

Throughput throughput_of(const Question& question, core::Seconds step);

}  // namespace planner
