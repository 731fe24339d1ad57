#include <algorithm>

#include <fmt/format.h>

#include "cli/points.hpp"
#include "cli/process.hpp"
#include "cli/sweep_axes.hpp"
#include "cli/verbs.hpp"
#include "reports/front.hpp"
#include "reports/price_text.hpp"

namespace cli {
namespace {

constexpr std::string_view kSweepPurpose =
    "Plans the same job for many values of its options: the best strategy of every combination.\n"
    "Any option may be a list: --gpus 8,16,32, --precision bf16,fp8, --gpu H100,A100. A number "
    "may\n"
    "also be a doubling range (8..64) or have steps (8..64+8); k means 1024. Values that hold\n"
    "commas are separated by ';': --lora-targets 'q,v;all-linear'. --each lists values of a key "
    "of\n"
    "the strategy. A combination that is not valid becomes a line that says why. With several\n"
    "numbers of GPUs, the Pareto front follows: the strategies that no other beats in GPUs, step\n"
    "and memory together.";
constexpr std::string_view kSweepExamples =
    "  planner sweep --model llama3-8b --gpus 8..64 --seq 2k,4k,8k\n"
    "  planner sweep --model llama3-8b --gpus 8,16 --gpu a100-sxm-80g,h100-sxm-80g --tokens 100B\n"
    "  planner sweep --model llama3-8b --gpus 8xH100 --framework native,fsdp2 --each tensor=1,2,4\n"
    "  planner sweep --model gpt2-1.5b --gpus 1..16 --out sweep.json && planner report sweep.json "
    "--out sweep.html";

// Null: nothing fits.
const reports::Subject* fastest_of(const std::vector<reports::Subject>& points) {
  const reports::Subject* best = nullptr;
  for (const reports::Subject& s : points)
    if (s.candidate && (best == nullptr || s.candidate->throughput.tokens_per_second >
                                               best->candidate->throughput.tokens_per_second))
      best = &s;
  return best;
}

std::string said_of(const std::vector<reports::Subject>& points) {
  const reports::Subject* const best = fastest_of(points);
  const reports::Subject* cheapest = nullptr;
  for (const reports::Subject& s : points)
    if (s.candidate && s.token_usd &&
        (cheapest == nullptr || *s.token_usd < *cheapest->token_usd))
      cheapest = &s;
  if (best == nullptr) return "No point has a strategy that fits.";
  std::string text = fmt::format("Most tokens a second: {}.", best->label);
  if (cheapest != nullptr)
    text += fmt::format(" Least rent for a token: {}, {}.", cheapest->label,
                        reports::token_price_text(cost::Dollars(*cheapest->token_usd)));
  return text;
}

}  // namespace

int sweep_verb(Arguments arguments) {
  PlanOptions options;
  PointsOutput output;
  std::vector<std::string> each;
  OptionSet set("sweep", kSweepPurpose, kSweepExamples);
  add_plan_options(set, options);
  const std::vector<NamedValue> of_plan = set.named();
  set.texts("--each", each, "KEY=V,V", "pin a key to each of several values; repeatable");
  add_points_output(set, output);
  if (const auto ended = ended_by(set, arguments)) return *ended;
  if (const core::Status target = check_points_output(output); !target.ok())
    return refuse(target.problems());
  const auto questions = sweep_points(options, of_plan, each);
  if (!questions.ok()) return refuse(questions.problems());
  // What is wrong with a question is wrong before any other is worked on.
  for (const SweepPoint& question : *questions)
    if (const auto requests = requests_of(question.options); !requests.ok())
      return refuse(requests.problems());
  std::vector<reports::Subject> points, contenders;
  core::Problems refused;
  ProgressLine progress(output.output.quiet);
  for (const SweepPoint& question : *questions) {
    progress.show(fmt::format("point {} of {}", points.size() + 1, questions->size()));
    core::Result<reports::Subject> point =
        plan_point(question.options, true, &contenders, question.settings);
    progress.clear();
    if (!point.ok()) {                 // a point that has no answer does not take the others'
      points.push_back(refused_point(question.options, point.problems(), question.settings));
      refused.insert(refused.end(), point.problems().begin(), point.problems().end());
    } else {
      points.push_back(std::move(point).value());
    }
  }
  if (std::ranges::all_of(points, &reports::Subject::refused)) return refuse(refused);
  const reports::Subject* const best = fastest_of(points);
  std::vector<reports::NextStep> next;
  if (best != nullptr)
    next = next_of((*questions)[static_cast<std::size_t>(best - points.data())].options, output);
  const core::Status delivered =
      deliver_points(output, {points, reports::front_of(std::move(contenders)), said_of(points),
                              std::nullopt, next});
  if (!delivered.ok()) return refuse(delivered.problems());
  if (best != nullptr) return kDone;
  write_reason("no point has a strategy that fits");
  return kAnswerIsNo;
}

}  // namespace cli
