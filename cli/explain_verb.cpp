#include "cli/explain_laws.hpp"
#include "cli/output.hpp"
#include "cli/plan_options.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/json.hpp"
#include "reports/explanation.hpp"
#include "reports/facts.hpp"

namespace cli {
namespace {

constexpr std::string_view kExplainPurpose =
    "Explains a field of the plan (memory.weights, alternatives.0.time.step, gpu.usable, ...), a\n"
    "law or fact (C1 to C10, M1 to M16): its formula, the values put in, the result, the source.\n"
    "QUESTION `facts` lists the laws and facts; `laws` is what gradient exchange sends, C1 to C5.";
constexpr std::string_view kExplainExamples =
    "  planner explain memory.weights --model gpt2-124m --gpus 2\n"
    "  planner explain time.step --plan plan.json\n"
    "  planner explain C4 --gpus 16\n"
    "  planner explain laws --gpus 4 --servers 2 --measure";

core::Result<planner::Plan> plan_to_explain(const std::optional<std::string>& path,
                                            const PlanOptions& options) {
  if (path) return read_plan(*path);
  const auto requests = requests_of(options);
  if (!requests.ok()) return requests.problems();
  return plan_of(options, *requests);
}

// Laws and facts need a model to be worked out for; this one when none is named.
constexpr std::string_view kFactModel = "gpt2-1.5b";
constexpr std::string_view kFactGpus = "8";

int deliver_explanation(const core::Result<reports::Explanation>& explanation,
                        const OutputOptions& output) {
  if (!explanation.ok()) return refuse(explanation.problems());
  const core::Status delivered = deliver(output, reports::to_json_text(*explanation), [&] {
    return reports::explanation_text(*explanation, page_style());
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

std::string facts_json() {
  core::Json array = core::Json::array();
  for (const reports::Fact& f : reports::facts())
    array.push_back(core::Json::object({{"name", f.name},
                                        {"claim", f.claim},
                                        {"formula", f.formula},
                                        {"unit", f.unit},
                                        {"source", f.source}}));
  return core::dump(core::Json::object({{"schema", "facts/1"}, {"facts", array}})) + '\n';
}

int list_facts(const OutputOptions& output) {
  const core::Status delivered =
      deliver(output, facts_json(), [] { return reports::facts_text(page_style()); });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace

int explain_verb(Arguments arguments, const Runner& runner, Arguments whole) {
  std::string question;
  std::optional<std::string> plan_path;
  PlanOptions options;
  LawOptions laws;
  OutputOptions output;
  OptionSet set("explain", kExplainPurpose, kExplainExamples);
  set.positional("QUESTION", question,
                 "a field of the plan, C1 to C10, M1 to M16, `facts` or `laws`");
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
  if (question == "facts") return list_facts(output);
  if (reports::find_fact(question) != nullptr && !plan_path && !options.model) {
    options.model = kFactModel;
    if (!options.gpus) options.gpus = kFactGpus;
  }
  core::Problems problems;
  const std::int64_t servers = whole_number(laws.servers, "--servers", 1, problems).value_or(2);
  const core::Result<planner::Plan> plan = plan_to_explain(plan_path, options);
  if (!plan.ok())
    problems.insert(problems.end(), plan.problems().begin(), plan.problems().end());
  if (!problems.empty()) return refuse(problems);
  return deliver_explanation(reports::explain(*plan, question, static_cast<double>(servers)),
                             output);
}

}  // namespace cli
