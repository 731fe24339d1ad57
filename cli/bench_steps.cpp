#include "cli/bench_steps.hpp"

#include <sys/resource.h>
#include <time.h>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/engine/engine.hpp"

namespace cli {
namespace {

constexpr const char* kStepModel = "llama3.1-405b";
constexpr const char* kStepGpu = "h100-sxm-80g";
// As published: 16,384 GPUs in groups of 8 (tensor) x 16 (pipeline), sequences of 8,192
// (Grattafiori et al. 2024, table 4). Plain 1f1b, one sequence a micro-batch.
constexpr std::int64_t kTensor = 8, kPipeline = 16, kSeqLen = 8192;

struct Size {
  std::int64_t data = 128, micro_batches = 16;
  bool unfold = false;
};
constexpr Size kSizes[] = {{128, 16, false}, {128, 64, false}, {128, 256, false}, {8, 16, true},
                           {32, 16, true},   {32, 64, true},   {128, 16, true}};

core::Result<StepFigure> time_step(const models::ModelSpec& model,
                                   const hw_profiles::Profile& profile, const Size& size) {
  planner::Job job;
  job.seq_len = kSeqLen;
  job.global_batch = size.data * size.micro_batches;
  planner::Strategy s;
  s.data = size.data;
  s.tensor = kTensor;
  s.pipeline = kPipeline;
  s.schedule = planner::Schedule::one_f_one_b;
  s.sharding = planner::Sharding::zero1;
  s.micro_batch = 1;
  s.grad_accum = size.micro_batches;
  s = planner::resolve(model, job, s);
  StepFigure f;
  f.ranks = size.data * kTensor * kPipeline;
  f.micro_batches = size.micro_batches;
  const core::Problems problems = planner::strategy_problems(model, job, s, f.ranks);
  if (!problems.empty()) return problems;
  const auto graph = models::build_graph(model, planner::graph_options(job, s, profile.framework));
  if (!graph.ok()) return graph.problems();

  double start = core_seconds();
  const program::Program program =
      planner::lower(*graph, job, s, planner::stage::policy_of(job, profile.framework));
  f.lowering_seconds = core_seconds() - start;
  const cost::Machine machine = planner::machine_for(profile, job, model);
  start = core_seconds();
  const engine::Scene scene(program, machine, {.unfold = size.unfold});
  const engine::Outcome outcome = engine::run(scene, {.steps = 1});
  f.seconds = core_seconds() - start;
  f.played = static_cast<std::int64_t>(scene.actors().size());
  f.operations = outcome.operations;
  f.step_seconds = core::to_seconds(core::Picoseconds(outcome.makespan())).value();
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  f.peak_bytes = static_cast<std::int64_t>(usage.ru_maxrss) * 1024;
  return f;
}

}  // namespace

double core_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

core::Result<std::vector<StepFigure>> time_steps() {
  const auto model = models::find_model(kStepModel);
  if (!model.ok()) return model.problems();
  const auto profile = hw_profiles::find_profile(kStepGpu);
  if (!profile.ok()) return profile.problems();
  std::vector<StepFigure> figures;
  for (const Size& size : kSizes) {
    const auto figure = time_step(*model, *profile, size);
    if (!figure.ok()) return figure.problems();
    figures.push_back(*figure);
  }
  return figures;
}

core::Json to_json(const StepFigure& f) {
  return core::Json::object({{"model", kStepModel},
                             {"ranks", f.ranks},
                             {"ranks_played", f.played},
                             {"micro_batches", f.micro_batches},
                             {"operations", f.operations},
                             {"seconds", f.seconds},
                             {"lowering_seconds", f.lowering_seconds},
                             {"peak_bytes", f.peak_bytes},
                             {"step_seconds", f.step_seconds}});
}

std::string step_line(const StepFigure& f) {
  return fmt::format("step    {} on {} ranks, {} played, {} micro-batches: {} operations in {}, {} "
                     "resident\n",
                     kStepModel, f.ranks, f.played, f.micro_batches,
                     core::count_text(static_cast<std::int64_t>(f.operations)),
                     core::to_text(core::Seconds(f.seconds)),
                     core::to_text(core::Bytes(f.peak_bytes)));
}

}  // namespace cli
