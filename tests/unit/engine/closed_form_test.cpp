// The planner's closed forms against the sweep: median within 2 %, worst within 10 %.
#include <algorithm>
#include <cmath>

#include "planner/evaluate/closed_form/evaluator.hpp"
#include "planner/evaluate/step_time.hpp"
#include "sim/engine/sweep.hpp"
#include "tests/unit/engine/small_space.hpp"

using engine_test::Lowered;
using engine_test::Space;

namespace {

struct Errors {
  std::vector<double> all;
  std::string worst;
  void add(double closed, double swept, const std::string& what) {
    const double error = std::abs(closed / swept - 1);
    if (all.empty() || error > *std::ranges::max_element(all)) worst = what;
    all.push_back(error);
  }
  void check(double median, double most, double usual) {
    if (all.empty()) return;
    std::ranges::sort(all);
    INFO(all.size() << " candidates: median " << all[all.size() / 2] << ", worst " << all.back()
                    << ": " << worst);
    CHECK(all[all.size() / 2] < median);
    CHECK(all[all.size() * 9 / 10] < usual);
    CHECK(all.back() < most);
  }
};

}  // namespace

TEST_CASE("closed forms follow the sweep: within 2 % at the median, 10 % at worst") {
  const Space space = GENERATE(Space{"gpt2-1.5b", "h100-sxm-80g", 8, 1024, 512, {}, 8, 3},
                               Space{"gpt2-124m", "rtx3090", 8, 1024, 64, {}, 8, 3},
                               Space{"llama2-7b", "a100-sxm-80g", 16, 4096, 64, {}, 8, 11},
                               Space{"llama3-70b", "h100-sxm-80g", 64, 8192, 128, {}, 8, 61},
                               Space{"gpt2-1.5b", "h100-sxm-80g", 8, 1024, 512,
                                     {"schedule=zb_v"}},
                               Space{"gpt2-124m", "rtx3090", 8, 1024, 64, {"schedule=zb_v"}},
                               Space{"gpt2-124m", "rtx3090", 8, 1024, 64,
                                     {"schedule=dualpipe_v"}},
                               Space{"llama2-7b", "a100-sxm-80g", 16, 4096, 64,
                                     {"schedule=zb_v"}},
                               Space{"gpt2-1.5b", "h100-sxm-80g", 8, 1024, 512,
                                     {"schedule=pipedream_2bw"}},
                               Space{"llama2-7b", "a100-sxm-80g", 16, 4096, 64,
                                     {"schedule=pipedream_2bw"}},
                               Space{"llama2-7b", "a100-sxm-80g", 16, 4096, 16,
                                     {"schedule=pipedream"}},
                               Space{"mixtral-8x7b", "h100-sxm-80g", 16, 4096, 64, {}, 8, 17},
                               Space{"gpt2-1.5b", "h100-sxm-80g", 8, 1024, 512, {}, 8, 3, 0.5},
                               Space{"gpt2-124m", "rtx3090", 8, 1024, 64, {}, 8, 3, 1.0},
                               Space{"alexnet", "rtx3090", 8, 1, 1024, {}});
  INFO(space.model << " on " << space.gpus << " x " << space.gpu);
  Errors walked, formed, alone;        // alone: no data parallelism beside the pipeline
  bool flushes = true;                 // else a step is the pace of a few rounds
  std::vector<planner::Question> questions;
  std::optional<planner::closed_form::Evaluator> evaluator;
  const int visited = engine_test::each_candidate(space, [&](const Lowered& c) {
    if (!evaluator) {
      questions.push_back(c.question);
      evaluator.emplace(questions);
    }
    const engine::Scene scene(c.program, c.question.machine);
    const double swept =
        core::to_seconds(core::Picoseconds(engine::critical_terms(engine::sweep(scene)).period))
            .value();
    const std::string what = to_text(c.strategy);
    const planner::Time walk =
        step_time(c.program, c.question.machine, c.strategy.schedule);
    walked.add(walk.step.value(), swept, what);
    flushes = planner::flushes(c.strategy.schedule);
    const bool straight =
        planner::schedule_def(c.strategy.schedule).order == program::Order::straight && flushes;
    if (c.strategy.data == 1 && straight) alone.add(walk.step.value(), swept, what);
    if (!evaluator->prepare(c.strategy, c.graph)) return;
    const planner::closed_form::Figures f =
        evaluator->at(c.strategy.micro_batch, c.strategy.grad_accum)[0];
    formed.add(f.step.value(), swept, what);
  });
  REQUIRE(visited > 0);
  // Where transfers over slow links hold computing for all of their time, a stage's last backward
  // pass lasts longer than the others and holds up the stages before it.
  const bool held = space.held == 1;
  walked.check(flushes ? 0.001 : 0.002, held ? 0.12 : 0.05, 0.03);  // passes played one by one
  formed.check(0.02, held ? 0.22 : 0.07, 0.06);  // the schedule's algebra
  alone.check(1e-9, 1e-2, 1e-6);
}
