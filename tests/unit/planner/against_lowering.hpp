#pragma once
// The closed form against the lowering, on the structures of a small space: live bytes never below
// and within 2 %, each step within 10 %.

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <vector>

#include "hw_profiles/load.hpp"
#include "models/layer_kinds.hpp"
#include "models/zoo.hpp"
#include "planner/evaluate/closed_form/evaluator.hpp"
#include "planner/evaluate/communicators.hpp"
#include "planner/evaluate/memory.hpp"
#include "planner/evaluate/step_time.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/space.hpp"
#include "sim/program/bound.hpp"
#include "sim/program/replay.hpp"
#include "tests/catch.hpp"

namespace planner_test {

#ifdef PLANNER_WHOLE_SPACES
inline constexpr bool kWhole = true;
#else
inline constexpr bool kWhole = false;
#endif

// Of the sizes of the structure at `index`: one, with or without overlap in turn.
inline std::vector<std::int64_t> tried(const std::vector<std::int64_t>& sizes, std::size_t index,
                                       bool overlap) {
  if (kWhole || sizes.empty()) return sizes;
  if ((index % 2 == 0) != overlap) return {};
  return {sizes[index / 2 % sizes.size()]};
}

inline core::Bytes lowered_device(const program::Program& program,
                                  const hw_profiles::Profile& profile) {
  using planner::overhead_bytes;
  core::Bytes most{};
  for (const program::RankClass& k : program.classes)
    most = std::max(most, program::closed_form_live(k) + overhead_bytes(program, k, profile));
  return most;
}

struct Compared {
  std::vector<double> errors;          // of steps, ascending
  std::map<planner::Schedule, int> schedules;
  int declined = 0;                    // that the closed form does not describe
  double median() const { return errors[errors.size() / 2]; }
};

// Of a case: what is asked of a GPU, and of which part of the space.
template <class Case>
planner::Question question_of(const Case& c, const models::ModelSpec& model, const char* gpu) {
  hw_profiles::Profile profile = hw_profiles::find_profile(gpu).value();
  REQUIRE(hw_profiles::use_framework(profile, c.framework, "test").ok());
  planner::Job job;
  job.recipe = c.recipe;
  job.seq_len = c.seq_len;
  job.global_batch = c.batch;
  job.lora_rank = c.lora_rank;
  job.quantization = c.quantization;
  job.mtp_layers = model.mtp_layers;
  if (c.wide) job.reduce_dtype = core::DType::f32;
  if constexpr (requires { c.fp8; }) {
    const std::string fp8 = c.fp8;     // what is gathered so, or how it is scaled
    if (!fp8.empty()) job.precision = core::DType::f8;
    if (fp8 == "params") job.fp8_tensors = {fp8};
    else if (!fp8.empty()) job.fp8_scaling = fp8;
  }
  return planner::make_question(model, job, profile, c.gpus).value();
}
template <class Case>
planner::Constraints constraints_of(const Case& c, bool overlap) {
  planner::Constraints constraints;
  if (!overlap) REQUIRE(constraints.pin("overlap=false").ok());
  for (const char* pin : c.pins) {
    INFO(pin);
    REQUIRE(constraints.pin(pin).ok());
  }
  return constraints;
}

// constraints: with overlap=false pinned unless `overlap`.
inline Compared against_lowering(const planner::Question& q,
                                 const planner::Constraints& constraints, bool overlap) {
  using namespace planner;
  const std::vector<Question> questions{q};
  closed_form::Evaluator evaluator(questions);
  std::map<std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, bool>,
           models::ModelGraph>
      graphs;
  const auto graph = [&](const Strategy& s) -> const models::ModelGraph& {
    const std::tuple key{s.tensor, s.context, s.expert, s.expert_tensor, s.sequence_parallel};
    const auto found = graphs.find(key);
    if (found != graphs.end()) return found->second;
    const auto options = graph_options(q.job, s, q.profile.framework);
    return graphs.emplace(key, models::build_graph(q.model, options).value()).first->second;
  };
  Compared all;
  const std::vector<Structure> space = structures(
      q.job, {q.gpus, 8, q.model.layers, models::expert_divisor(q.model)}, constraints);
  for (std::size_t i = 0; i < space.size(); ++i) {
    for (const std::int64_t size : tried(space[i].micro_batches, i, overlap)) {
      const Strategy s = with_micro_batch(space[i].strategy, size, q.job.global_batch);
      if (!strategy_problems(q.model, q.job, s, q.gpus).empty()) continue;
      const Strategy resolved = resolve(q.model, q.job, s);
      INFO(to_text(resolved) << " stages " << stages_text(resolved.stages));
      if (!evaluator.prepare(resolved, graph(resolved))) {
        ++all.declined;
        continue;
      }
      ++all.schedules[resolved.schedule];
      const closed_form::Figures f = evaluator.at(resolved.micro_batch, resolved.grad_accum)[0];
      const program::Program program =
          lower(graph(resolved), q.job, resolved, stage::policy_of(q.job, q.profile.framework));
      core::Bytes host{};
      for (const program::RankClass& k : program.classes)
        host = std::max(host, program::host_bytes(k));
      CHECK(evaluator.host_bytes() == host);
      const auto device = static_cast<double>(lowered_device(program, q.profile).value());
      const auto bound = static_cast<double>(f.device.value());
      CHECK(bound >= device);
      CHECK(bound <= 1.02 * device);
      const double step = step_time(program, q.machine, resolved.schedule).step.value();
      all.errors.push_back(std::abs(f.step.value() / step - 1));
      CHECK(all.errors.back() < 0.10);
    }
  }
  std::ranges::sort(all.errors);
  return all;
}

}  // namespace planner_test
