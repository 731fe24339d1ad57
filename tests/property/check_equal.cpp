#include "tests/property/check_equal.hpp"

#include <algorithm>

#include "tests/catch.hpp"

namespace tests {

ReferenceResult reference(const models::ModelSpec& spec, const planner::Job& job,
                          const program::Program& stated, const planner::Strategy& s,
                          std::int64_t steps) {
  const auto data = exec::DataSource::synthetic(spec, job.seq_len, kSeed);
  const bool halves = s.checkpoint == planner::Checkpoint::selective_op;
  // What the methods say of weights in a pipeline that never flushes.
  std::vector<std::int64_t> delays;
  for (std::int64_t stage = 0; stage < s.pipeline; ++stage) {
    if (s.schedule == planner::Schedule::pipedream) delays.push_back(s.pipeline - 1 - stage);
    if (s.schedule == planner::Schedule::pipedream_2bw) delays.push_back(1);
  }
  return train_reference(spec, job, stated, data,
                         {s.grad_accum, s.micro_batch, halves, delays, s.loss_chunks,
                          s.context_method}, steps,
                         kSeed);
}

// "" or where the bits differ first.
std::string difference(const ProgramRun& run, const ReferenceResult& expected) {
  for (std::size_t s = 0; s < expected.losses.size(); ++s)
    if (run.losses.at(s) != expected.losses[s])
      return "loss of step " + std::to_string(s) + ": " + std::to_string(run.losses[s]) +
             ", expected " + std::to_string(expected.losses[s]);
  if (run.weights.size() != expected.weights.size()) return "not the same parameters";
  for (const auto& [path, values] : expected.weights) {
    const std::vector<double>& found = run.weights.at(path).at(0);
    if (found.size() != values.size()) return path + " has another size";
    const auto at = std::ranges::mismatch(found, values);
    if (at.in1 == found.end()) continue;
    return path + "[" + std::to_string(at.in1 - found.begin()) + "]: off by " +
           std::to_string((*at.in1 - *at.in2) * 1e9) + "e-9";
  }
  return "";
}

void check_equal(const models::ModelSpec& spec, const planner::Job& job, const planner::Strategy& s,
                 std::int64_t steps, const hw_profiles::Framework& framework) {
  INFO(planner::to_text(s) << " " << job.recipe << " lora_rank=" << job.lora_rank);
  const ProgramRun run = run_program(spec, job, s, steps, kSeed, {}, framework);
  CHECK(run.replicas_agree);
  CHECK(difference(run, reference(spec, job, run.program, s, steps)) == "");
}

}  // namespace tests
