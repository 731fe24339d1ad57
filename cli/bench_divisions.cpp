#include "cli/bench_divisions.hpp"

#include <fmt/format.h>

#include "cli/bench_rounds.hpp"
#include "cli/bench_steps.hpp"
#include "core/check.hpp"
#include "core/parse_units.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/search/split_search.hpp"

namespace cli {
namespace {

constexpr const char* kDividedModels[] = {"alexnet", "inception-v3"};
constexpr const char* kDividedGpu = "h100-sxm-80g";
constexpr std::int64_t kDividing = 8;  // ranks

core::Result<DivisionFigure> time_division(const char* name) {
  const auto model = models::find_model(name);
  if (!model.ok()) return model.problems();
  const auto profile = hw_profiles::find_profile(kDividedGpu);
  if (!profile.ok()) return profile.problems();
  planner::Job job;
  job.seq_len = 1;
  job.global_batch = model->default_global_batch;
  const auto question = planner::make_question(*model, job, *profile, kDividing);
  if (!question.ok()) return question.problems();
  const planner::SplitQuestion of{kDividing, kDividing, job.global_batch / kDividing, 1};
  constexpr planner::SplitWeights kWeights{0.3, 1e-12};
  std::vector<DivisionFigure> rounds;
  for (int i = 0; i < kRounds; ++i) {
    const double start = core_seconds();
    const planner::SplitCosts costs(*question, of, {});
    const planner::Assignment best = planner::minimise(costs.problem(kWeights));
    rounds.push_back({name, std::ssize(model->graph.operators), kDividing,
                      core_seconds() - start});
    PLANNER_CHECK(best.cost > 0, "a division that takes no time");
  }
  return median_of(std::move(rounds));
}

}  // namespace

core::Result<std::vector<DivisionFigure>> time_divisions() {
  std::vector<DivisionFigure> all;
  for (const char* const name : kDividedModels) {
    const auto one = time_division(name);
    if (!one.ok()) return one.problems();
    all.push_back(*one);
  }
  return all;
}

core::Json to_json(const DivisionFigure& f) {
  return core::Json::object({{"model", f.model},
                             {"operators", f.operators},
                             {"ranks", f.ranks},
                             {"seconds", f.seconds}});
}

std::string division_line(const DivisionFigure& f) {
  return fmt::format("split   {} operators of {} divided over {} ranks in {} of one core\n",
                     f.operators, f.model, f.ranks, core::to_text(core::Seconds(f.seconds)));
}

}  // namespace cli
