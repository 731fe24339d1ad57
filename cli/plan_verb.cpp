#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/plan_options.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "cli/version.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "reports/plan_text.hpp"

namespace cli {
namespace {

constexpr std::string_view kPlanPurpose =
    "Plans how to train a model on given GPUs: predicts memory, communication and time\n"
    "of every sensible strategy and picks one.\n"
    "Other verbs, each with a --help of its own: simulate PLAN, exec PLAN, compare FILE...,\n"
    "report FILE..., emit PLAN, import FILE..., explain QUESTION; sweep, min-gpus, max-batch;\n"
    "models, gpus, doctor; validate RUNS, calibrate, fit RUNS; verify FOLDER, bench,\n"
    "completion SHELL.";
constexpr std::string_view kPlanExamples =
    "  planner --model gpt2-1.5b --gpus 8\n"
    "  planner --model gpt2-1.5b --gpus 8 --gpu rtx3090 --pin sharding=zero3\n"
    "  planner --model ./config.json --gpus 2 --recipe fp32 --out plan.json\n"
    "  planner exec plan.json --out run.json && planner compare plan.json run.json";

}  // namespace

core::Result<planner::Plan> read_plan(const std::string& path) {
  const core::Result<std::string> text = core::read_file(path, core::kMaxJsonBytes);
  if (!text.ok()) return text.problems();
  return planner::parse_plan(*text, path);
}

int plan_verb(Arguments arguments) {
  PlanOptions options;
  OutputOptions output;
  bool version = false, full = false;
  OptionSet set("", kPlanPurpose, kPlanExamples);
  add_plan_options(set, options);
  add_output_options(set, output, "the plan");
  set.flag("--full", full, "print everything: communication, rejected strategies, other machines");
  set.flag("--version", version, "print the version and the commit");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  if (version) {
    const core::Status shown = write_stdout(fmt::format("planner {}\n", version_text()));
    return shown.ok() ? kDone : refuse(shown.problems());
  }
  const core::Status target = check_output(output);
  if (!target.ok()) return refuse(target.problems());
  core::Problems ignored;
  auto requests = requests_of(options);
  if (!requests.ok()) return refuse(requests.problems());
  if (const auto seed = whole_number(output.seed, "--seed", 0, ignored))  // check_output says it
    for (planner::Request& request : *requests) {
      if (request.robust) request.robust->seed = static_cast<std::uint64_t>(*seed);
      if (request.chain) request.chain = static_cast<std::uint64_t>(*seed);
    }
  ProgressLine progress(output.quiet);
  requests->front().progress = [&](std::string_view done) { progress.show(done); };
  const core::Result<planner::Plan> plan = plan_of(options, *requests);
  progress.clear();
  if (!plan.ok()) return refuse(plan.problems());

  const reports::PlanTextOptions look{.style = page_style(),
                                      .alternatives = static_cast<std::size_t>(
                                          requests->front().top),
                                      .full = full,
                                      .file = output.out.value_or("")};
  const bool machine = output.json || output.out;
  const core::Status delivered =
      deliver(output, machine ? planner::to_json_text(*plan) : std::string(),
              [&] { return reports::plan_text(*plan, look); });
  if (!delivered.ok()) return refuse(delivered.problems());
  if (plan->chosen) return kDone;
  write_reason(reports::why_infeasible(*plan));
  return kAnswerIsNo;
}

}  // namespace cli
