#include "planner/lowering/rescale.hpp"

#include <algorithm>

#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/evaluate/step_time.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/space.hpp"
#include "planner/strategy/schedules.hpp"
#include "sim/program/bound.hpp"
#include "tests/catch.hpp"

using namespace planner;

namespace {

std::vector<int> slots_of(const program::RankClass& k) {
  std::vector<int> slots;
  for (const program::Buffer& b : k.buffers) slots.push_back(b.slots);
  for (const program::Event& e : k.events) slots.push_back(e.slots);
  return slots;
}

}  // namespace

TEST_CASE("a rescaled program has the memory and the time of a fresh lowering") {
  const models::ModelSpec model = models::find_model("gpt2-124m").value();
  const hw_profiles::Profile profile = hw_profiles::find_profile("h100-sxm-80g").value();
  const std::string fp8_scaling = GENERATE("", "tensorwise", "blockwise");
  Job job;
  if (!fp8_scaling.empty()) job.precision = core::DType::f8, job.fp8_scaling = fp8_scaling;
  job.seq_len = 64;
  job.global_batch = 32;
  const Question question = make_question(model, job, profile, 4).value();
  const stage::Policy policy = stage::policy_of(job, profile.framework);
  int compared = 0;
  for (const Structure& structure : structures(job, {4, 4, 12}, {})) {
    const Strategy first =
        resolve(model, job, with_micro_batch(structure.strategy, structure.micro_batches[0], 32));
    const models::ModelGraph graph =
        models::build_graph(model, graph_options(job, first)).value();
    program::Program rescaled = lower(graph, job, first, policy);
    for (std::int64_t size : structure.micro_batches) {
      const Strategy to = with_micro_batch(first, size, 32);
      INFO(to_text(to));
      // Passes in flight never grow with the micro-batch; a single one receives in its turn.
      REQUIRE(rescale(rescaled, to) == (receives_ahead(first) == receives_ahead(to)));
      if (receives_ahead(first) != receives_ahead(to)) continue;
      const program::Program fresh = lower(graph, job, to, policy);
      for (std::size_t i = 0; i < fresh.classes.size(); ++i) {
        CHECK(program::closed_form_live(rescaled.classes[i]) ==
              program::closed_form_live(fresh.classes[i]));
        CHECK(slots_of(rescaled.classes[i]) == slots_of(fresh.classes[i]));
      }
      CHECK(step_time(rescaled, question.machine, to.schedule).step ==
            step_time(fresh, question.machine, to.schedule).step);
      ++compared;
    }
  }
  CHECK(compared > 100);
}

// Attention has no statistic there: an argument that is left out.
TEST_CASE("a program of inference is rescaled too") {
  const models::ModelSpec model = models::find_model("gpt2-124m").value();
  Job job;
  job.mode = Mode::inference;
  job.seq_len = 64;
  job.global_batch = 8;
  Strategy s;
  s.micro_batch = 1;
  s.grad_accum = 8;
  s = resolve(model, job, s);
  const models::ModelGraph graph = models::build_graph(model, graph_options(job, s)).value();
  program::Program rescaled = lower(graph, job, s, {});
  const bool leaves_out = std::ranges::any_of(
      rescaled.classes.front().views,
      [](const program::View& v) { return v.buffer == program::kNone; });
  CHECK(leaves_out);
  s.micro_batch = 4;
  s.grad_accum = 2;
  REQUIRE(rescale(rescaled, s));
  const program::Program fresh = lower(graph, job, s, {});
  CHECK(program::closed_form_live(rescaled.classes.front()) ==
        program::closed_form_live(fresh.classes.front()));
}
