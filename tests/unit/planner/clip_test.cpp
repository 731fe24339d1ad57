// A limit on the norm of all gradients, as predicted: the closed form follows the lowering, the
// lowering's algebra the sweep, and without a limit nothing changes.
#include "planner/evaluate/swept_time.hpp"
#include "tests/unit/planner/against_lowering.hpp"

using namespace planner;
using namespace planner_test;

namespace {

struct Case {
  const char* model;
  const char* gpu;
  const char* recipe;
  std::int64_t gpus, seq_len, batch;
  std::vector<const char*> pins{};
  std::int64_t lora_rank = 0;
  const char* quantization = "none";
  bool wide = false;
  const char* framework = "native";
};

Strategy pipelined(Schedule schedule, std::int64_t data) {
  Strategy s;
  s.data = data;
  s.pipeline = 4;
  s.schedule = schedule;
  s.virtual_stages = schedule == Schedule::interleaved || schedule == Schedule::zb_v ? 2 : 1;
  s.micro_batch = 2;
  s.grad_accum = 8;
  return s;
}

program::Program lowered(const Strategy& unresolved, double clip,
                         core::DType precision = core::DType::bf16, double loss_scale = 0) {
  const models::ModelSpec model = models::find_model("gpt2-124m").value();
  Job job;
  job.seq_len = 512;
  job.global_batch = unresolved.data * unresolved.micro_batch * unresolved.grad_accum;
  job.clip = clip;
  job.precision = precision;
  job.loss_scale = loss_scale;
  const Strategy s = resolve(model, job, unresolved);
  REQUIRE(strategy_problems(model, job, s, s.workers()).empty());
  return lower(models::build_graph(model, graph_options(job, s)).value(), job, s, {});
}

}  // namespace

TEST_CASE("with a loss scale the closed form follows the lowering") {
  const Case c = GENERATE(Case{"gpt2-124m", "v100-sxm-32g", "mixed", 8, 256, 32},
                          Case{"gpt2-355m", "a100-sxm-80g", "fsdp2", 16, 1024, 64},
                          Case{"gpt2-124m", "h100-sxm-80g", "mixed", 8, 512, 64,
                               {"offload=optimizer"}});
  INFO(c.model << " on " << c.gpus << " x " << c.gpu << ", " << c.recipe);
  const models::ModelSpec model = models::find_model(c.model).value();
  Question q = question_of(c, model, c.gpu);
  q.job.precision = core::DType::f16;
  q.job.attention = "fused_softmax";
  const bool overlap = GENERATE(true, false);
  const Compared all = against_lowering(q, constraints_of(c, overlap), overlap);
  REQUIRE(all.errors.size() > (c.pins.empty() ? 100 : 10));
  CHECK(all.declined == 0);
  CHECK(all.median() < 0.01);
}

TEST_CASE("with a limit of the norm the closed form follows the lowering") {
  const Case c = GENERATE(Case{"gpt2-124m", "a100-sxm-80g", "mixed", 8, 256, 32},
                          Case{"gpt2-355m", "h100-sxm-80g", "fsdp2", 16, 1024, 64},
                          Case{"llama3-8b", "h100-sxm-80g", "mixed", 8, 2048, 16},
                          Case{"mixtral-8x7b", "h100-sxm-80g", "mixed", 16, 1024, 16},
                          Case{"gpt2-124m", "h100-sxm-80g", "mixed", 8, 512, 64,
                               {"offload=optimizer"}},
                          Case{"gpt2-124m", "a100-sxm-80g", "lean", 8, 512, 64,
                               {"schedule=interleaved"}});
  INFO(c.model << " on " << c.gpus << " x " << c.gpu << ", " << c.recipe);
  const models::ModelSpec model = models::find_model(c.model).value();
  Question q = question_of(c, model, c.gpu);
  q.job.clip = 1;
  const bool overlap = GENERATE(true, false);
  const Compared all = against_lowering(q, constraints_of(c, overlap), overlap);
  REQUIRE(all.errors.size() > (c.pins.empty() ? 100 : 10));
  CHECK(all.declined == 0);
  CHECK(all.median() < 0.01);
}

TEST_CASE("ranks that wait for the norm begin the next step together, as the sweep has it") {
  Job job;
  job.seq_len = 512;
  job.global_batch = 16;
  const cost::Machine machine = make_question(models::find_model("gpt2-124m").value(), job,
                                              hw_profiles::find_profile("h100-sxm-80g").value(), 8)
                                    .value()
                                    .machine;
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::interleaved,
                                  Schedule::zb_h1, Schedule::zb_h2, Schedule::zb_v})
    for (const std::int64_t data : {1, 2}) {
      INFO(name(schedule) << " data " << data);
      const program::Program free = lowered(pipelined(schedule, data), 0);
      const program::Program clips = lowered(pipelined(schedule, data), 1);
      const double step = step_time(clips, machine, schedule).step.value();
      const double swept = swept_time(clips, machine).value().time.step.value();
      CHECK(std::abs(step / swept - 1) < 0.03);
      CHECK(swept > swept_time(free, machine).value().time.step.value());
    }
}

TEST_CASE("a limit of the norm costs a number of 8 bytes and its sums, and none costs nothing") {
  for (const std::int64_t data : {1, 2}) {
    const program::Program free = lowered(pipelined(Schedule::one_f_one_b, data), 0);
    const program::Program clips = lowered(pipelined(Schedule::one_f_one_b, data), 1);
    for (std::size_t i = 0; i < free.classes.size(); ++i) {
      const program::RankClass &a = free.classes[i], &b = clips.classes[i];
      CHECK(program::closed_form_live(b) - program::closed_form_live(a) == core::Bytes(8));
      // A sum over the four stages, once a step; one square for each span, one start.
      CHECK(b.transfers.size() == a.transfers.size() + 1);
      CHECK(b.actions.size() == a.actions.size() + 3);
      CHECK(b.end.size() == a.end.size() + 2 + b.spans.size());
    }
  }
}

TEST_CASE("a loss scale costs the norm, six numbers of 8 bytes and one action") {
  for (const std::int64_t data : {1, 2}) {
    const Strategy s = pipelined(Schedule::one_f_one_b, data);
    const program::Program none = lowered(s, 0, core::DType::f16, 1);
    for (const double clip : {0.0, 1.0}) {
      const program::Program scales = lowered(s, clip, core::DType::f16);
      for (std::size_t i = 0; i < none.classes.size(); ++i) {
        const program::RankClass &a = none.classes[i], &b = scales.classes[i];
        CHECK(program::closed_form_live(b) - program::closed_form_live(a) == core::Bytes(8 + 48));
        CHECK(b.transfers.size() == a.transfers.size() + 1);
        CHECK(b.actions.size() == a.actions.size() + 4);
        CHECK(b.end.size() == a.end.size() + 2 + b.spans.size());
      }
    }
  }
}
