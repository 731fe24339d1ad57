#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cli/points.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"

namespace cli {
namespace {

constexpr std::string_view kMaxBatchPurpose =
    "Finds the most samples per GPU that fit without gradient accumulation, with at most "
    "--max-risk\n"
    "of running out of memory, under any strategy or the pinned one. It tries 1, 2, 4, ... until "
    "one\n"
    "number does not fit, then halves the interval.";
constexpr std::string_view kMaxBatchExamples =
    "  planner max-batch --model gpt2-1.5b --gpus 8 --gpu rtx3090\n"
    "  planner max-batch --model llama3-8b --gpus 8 --pin sharding=zero3 --pin checkpoint=none";
constexpr std::int64_t kMostSamples = std::int64_t{1} << 20;  // per GPU

class Finder {
 public:
  Finder(PlanOptions options, const planner::Request& request, ProgressLine& progress)
      : options_(std::move(options)),
        gpus_(request.gpus),
        max_risk_(request.max_risk),
        progress_(progress) {
    options_.pins.emplace_back("grad_accum=1");
  }

  core::Result<bool> fits(std::int64_t samples) {
    progress_.show(fmt::format("{} samples per GPU", samples));
    options_.global_batch = std::to_string(samples * gpus_);
    core::Result<reports::Subject> point = plan_point(options_, false);
    progress_.clear();
    if (!point.ok()) return point.problems();
    const bool done = point->candidate && planner::within_risk(*point->candidate, max_risk_);
    points_.insert_or_assign(samples, std::move(point).value());
    return done;
  }

  // The most that fit before the first power of two that does not; 0: none.
  core::Result<std::int64_t> most() {
    std::int64_t fits_still = 0, too_many = 1;
    for (; too_many <= kMostSamples; too_many *= 2) {
      const core::Result<bool> done = fits(too_many);
      if (!done.ok()) return done.problems();
      if (!*done) break;
      fits_still = too_many;
    }
    while (too_many - fits_still > 1 && too_many <= kMostSamples) {
      const std::int64_t middle = fits_still + (too_many - fits_still) / 2;
      const core::Result<bool> done = fits(middle);
      if (!done.ok()) return done.problems();
      (*done ? fits_still : too_many) = middle;
    }
    return fits_still;
  }

  const std::map<std::int64_t, reports::Subject>& points() const { return points_; }

 private:
  PlanOptions options_;
  std::int64_t gpus_;
  double max_risk_;                    // of running out of memory
  ProgressLine& progress_;
  std::map<std::int64_t, reports::Subject> points_;  // by samples per GPU
};

}  // namespace

int max_batch_verb(Arguments arguments) {
  PlanOptions options;
  PointsOutput output;
  OptionSet set("max-batch", kMaxBatchPurpose, kMaxBatchExamples);
  add_plan_options(set, options);
  add_points_output(set, output);
  if (const auto ended = ended_by(set, arguments)) return *ended;
  core::Problems problems;
  if (const core::Status target = check_points_output(output); !target.ok())
    problems = target.problems();
  if (options.global_batch)
    problems.push_back({"--global-batch", "nothing: it is what is asked for",
                        *options.global_batch, "leave it out"});
  const bool pinned = std::ranges::any_of(
      options.pins, [](const std::string& pin) {
        const planner::StrategyKey* key = planner::strategy_key_meant(pin.substr(0, pin.find('=')));
        return key != nullptr && key->name == "grad_accum";
      });
  if (pinned)
    problems.push_back({"--pin grad_accum", "nothing: samples are held at once, grad_accum=1",
                        "a pin", "leave it out"});
  if (!problems.empty()) return refuse(problems);
  const auto requests = requests_of(options);
  if (!requests.ok()) return refuse(requests.problems());

  ProgressLine progress(output.output.quiet);
  Finder finder(options, requests->front(), progress);
  const core::Result<std::int64_t> found = finder.most();
  if (!found.ok()) return refuse(found.problems());
  std::vector<reports::Subject> points;
  std::optional<std::size_t> answer;
  std::string said = "Not one sample per GPU fits.";
  for (const auto& [samples, point] : finder.points()) {
    if (samples == *found) {
      answer = points.size();
      said = fmt::format("Most: {} samples per GPU, {} a step, with {}.{}", samples,
                         point.global_batch, planner::to_text(point.candidate->strategy),
                         kGpusAlone);
    }
    points.push_back(point);
  }
  std::vector<reports::NextStep> next;
  if (answer) {
    options.global_batch = std::to_string(points[*answer].global_batch);
    options.pins.emplace_back("grad_accum=1");
    next = next_of(options, output);
  }
  const core::Status delivered = deliver_points(output, {points, {}, said, answer, next});
  if (!delivered.ok()) return refuse(delivered.problems());
  if (answer) return kDone;
  write_reason(said);
  return kAnswerIsNo;
}

}  // namespace cli
