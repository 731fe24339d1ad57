#include <algorithm>

#include <fmt/format.h>

#include "cli/number_list.hpp"
#include "cli/points.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "reports/front.hpp"

namespace cli {
namespace {

constexpr std::string_view kSweepPurpose =
    "Plans the same job for many numbers of GPUs, sequence lengths, batches and machines: the "
    "best\n"
    "strategy of every combination. --gpus, --seq and --global-batch take lists (8,16,32),\n"
    "doubling ranges (8..64) and steps (8..64+8), with k for 1024; --gpu takes several names.\n"
    "A combination that cannot be asked is a line that says why. Over several numbers of GPUs the\n"
    "Pareto front of GPUs, step and memory follows: of every strategy that no other is as good as.";
constexpr std::string_view kSweepExamples =
    "  planner sweep --model llama3-8b --gpus 8..64 --seq 2k,4k,8k\n"
    "  planner sweep --model llama3-8b --gpus 8,16 --gpu a100-sxm-80g,h100-sxm-80g --tokens 100B\n"
    "  planner sweep --model gpt2-1.5b --gpus 1..16 --out sweep.json && planner report sweep.json "
    "--out sweep.html";
constexpr std::size_t kMostPoints = 4096;

// The values of an axis as options; one empty option where none was given.
std::vector<std::optional<std::string>> axis(const std::optional<std::string>& text,
                                             std::string_view option, core::Problems& problems) {
  if (!text) return {std::nullopt};
  const auto numbers = parse_number_list(*text, option);
  if (!numbers.ok()) {
    problems.push_back(numbers.problems().front());
    return {};
  }
  std::vector<std::optional<std::string>> values;
  for (const std::int64_t n : *numbers) values.emplace_back(std::to_string(n));
  return values;
}

std::vector<std::optional<std::string>> gpus_axis(const std::optional<std::string>& names) {
  if (!names) return {std::nullopt};
  std::vector<std::optional<std::string>> values;
  for (std::size_t at = 0; at <= names->size();) {
    const std::size_t comma = std::min(names->find(',', at), names->size());
    values.emplace_back(names->substr(at, comma - at));
    at = comma + 1;
  }
  return values;
}

core::Result<std::vector<PlanOptions>> combinations(const PlanOptions& options) {
  core::Problems problems;
  const auto counts = axis(options.gpus, "--gpus", problems);
  const auto lengths = axis(options.seq, "--seq", problems);
  const auto batches = axis(options.global_batch, "--global-batch", problems);
  const auto machines = gpus_axis(options.gpu);
  if (!problems.empty()) return problems;
  const std::size_t points = counts.size() * lengths.size() * batches.size() * machines.size();
  if (points > kMostPoints)
    return core::Problem{"command line", fmt::format("at most {} points", kMostPoints),
                         std::to_string(points), "sweep over fewer values"};
  std::vector<PlanOptions> all;
  for (const auto& gpu : machines)
    for (const auto& seq : lengths)
      for (const auto& batch : batches)
        for (const auto& gpus : counts) {
          all.push_back(options);
          all.back().gpu = gpu;
          all.back().seq = seq;
          all.back().global_batch = batch;
          all.back().gpus = gpus;
        }
  return all;
}

std::string said_of(const std::vector<reports::Subject>& points) {
  const reports::Subject* best = nullptr;
  for (const reports::Subject& s : points) {
    if (!s.candidate) continue;
    if (best == nullptr || s.candidate->throughput.tokens_per_second >
                               best->candidate->throughput.tokens_per_second)
      best = &s;
  }
  if (best == nullptr) return "No point has a strategy that fits.";
  return fmt::format("Most tokens a second: {}.", best->label);
}

}  // namespace

int sweep_verb(Arguments arguments) {
  PlanOptions options;
  PointsOutput output;
  OptionSet set("sweep", kSweepPurpose, kSweepExamples);
  add_plan_options(set, options);
  add_points_output(set, output);
  if (const auto ended = ended_by(set, arguments)) return *ended;
  if (const core::Status target = check_points_output(output); !target.ok())
    return refuse(target.problems());
  const auto questions = combinations(options);
  if (!questions.ok()) return refuse(questions.problems());
  // What is wrong with a question is wrong before any other is worked on.
  for (const PlanOptions& question : *questions)
    if (const auto requests = requests_of(question); !requests.ok())
      return refuse(requests.problems());
  std::vector<reports::Subject> points, contenders;
  core::Problems refused;
  ProgressLine progress(output.output.quiet);
  for (const PlanOptions& question : *questions) {
    progress.show(fmt::format("point {} of {}", points.size() + 1, questions->size()));
    core::Result<reports::Subject> point = plan_point(question, true, &contenders);
    progress.clear();
    if (!point.ok()) {                 // a point that has no answer does not take the others'
      points.push_back(refused_point(question, point.problems()));
      refused.insert(refused.end(), point.problems().begin(), point.problems().end());
    } else {
      points.push_back(std::move(point).value());
    }
  }
  if (std::ranges::all_of(points, &reports::Subject::refused)) return refuse(refused);
  const bool any = std::ranges::any_of(
      points, [](const reports::Subject& s) { return s.candidate.has_value(); });
  const core::Status delivered = deliver_points(
      output, {points, reports::front_of(std::move(contenders)), said_of(points), std::nullopt});
  if (!delivered.ok()) return refuse(delivered.problems());
  if (any) return kDone;
  write_reason("no point has a strategy that fits");
  return kAnswerIsNo;
}

}  // namespace cli
