#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "reports/comparison.hpp"

namespace cli {
namespace {

constexpr std::string_view kPurpose =
    "Compares what a plan predicted with what runs of it measured, term by term.";
constexpr std::string_view kExamples = "  planner compare plan.json run.json --json";

core::Result<reports::Comparison> compare_file(const planner::Plan& plan, const std::string& path) {
  const core::Result<std::string> text = core::read_file(path, core::kMaxJsonBytes);
  if (!text.ok()) return text.problems();
  const core::Result<exec::RunRecord> run = exec::parse_run(*text, path);
  if (!run.ok()) return run.problems();
  return reports::compare(plan, *run, path);
}

}  // namespace

int compare_verb(Arguments arguments) {
  std::string plan_path;
  std::vector<std::string> run_paths;
  OutputOptions output;
  OptionSet set("compare", kPurpose, kExamples);
  set.positional("PLAN", plan_path, "file written by planner --out");
  set.positionals("RUN", run_paths, "files written by planner exec --out");
  add_output_options(set, output, "the comparison");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  const core::Status target = check_output(output);
  if (!target.ok()) return refuse(target.problems());

  const core::Result<planner::Plan> plan = read_plan(plan_path);
  if (!plan.ok()) return refuse(plan.problems());
  std::vector<reports::Comparison> comparisons;
  for (const std::string& path : run_paths) {
    core::Result<reports::Comparison> comparison = compare_file(*plan, path);
    if (!comparison.ok()) return refuse(comparison.problems());
    comparisons.push_back(std::move(comparison).value());
  }
  const core::Status delivered = deliver(output, reports::to_json_text(comparisons), [&] {
    std::string text;
    for (const reports::Comparison& c : comparisons) {
      if (!text.empty()) text += '\n';
      text += reports::comparison_text(c, page_style());
    }
    return text;
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
