#include "cli/explain_laws.hpp"
#include "cli/output.hpp"
#include "cli/plan_options.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "reports/explanation.hpp"

namespace cli {
namespace {

constexpr std::string_view kPurpose =
    "Explains a field of the plan (memory.weights, time.bubble, gpu.usable, ...): its formula,\n"
    "the values put in, the source. QUESTION `laws`: what gradient exchange sends, C1 to C5.";
constexpr std::string_view kExamples =
    "  planner explain memory.weights --model gpt2-124m --gpus 2\n"
    "  planner explain time.step --plan plan.json\n"
    "  planner explain laws --gpus 4 --servers 2 --measure";

core::Result<planner::Plan> plan_to_explain(const std::optional<std::string>& path,
                                            const PlanOptions& options) {
  if (path) return read_plan(*path);
  const auto requests = requests_of(options);
  if (!requests.ok()) return requests.problems();
  return plan_of(*requests);
}

int explain_field(const std::string& question, const planner::Plan& plan,
                  const OutputOptions& output) {
  const core::Result<reports::Explanation> explanation = reports::explain(plan, question);
  if (!explanation.ok()) return refuse(explanation.problems());
  const core::Status delivered = deliver(output, reports::to_json_text(*explanation), [&] {
    return reports::explanation_text(*explanation);
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace

int explain_verb(Arguments arguments, const Runner& runner, Arguments whole) {
  std::string question;
  std::optional<std::string> plan_path;
  PlanOptions options;
  LawOptions laws;
  OutputOptions output;
  OptionSet set("explain", kPurpose, kExamples);
  set.positional("QUESTION", question, "a field of the plan, or `laws`");
  set.group("Laws");
  set.text("--servers", laws.servers, "M", "parameter servers (2)");
  set.flag("--measure", laws.measure, "run a small chain and count what it sends");
  set.group("Plan");
  set.text("--plan", plan_path, "FILE", "explain this plan instead of a new one");
  add_plan_options(set, options);
  add_output_options(set, output, "the explanation");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  if (laws.measure && !runner) return hand_over("planner-exec", whole);

  const core::Status target = check_output(output);
  if (!target.ok()) return refuse(target.problems());
  if (question == "laws") return explain_laws(options, laws, output, runner);
  const core::Result<planner::Plan> plan = plan_to_explain(plan_path, options);
  if (!plan.ok()) return refuse(plan.problems());
  return explain_field(question, *plan, output);
}

}  // namespace cli
