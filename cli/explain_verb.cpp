#include <fmt/format.h>
#include <fmt/ranges.h>

#include "cli/explain_laws.hpp"
#include "cli/output.hpp"
#include "cli/plan_options.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/code.hpp"
#include "core/json.hpp"
#include "reports/explanation.hpp"
#include "reports/facts.hpp"
#include "reports/glossary.hpp"
#include "reports/kernel_table.hpp"
#include "reports/why_not.hpp"

namespace cli {
namespace {

constexpr std::string_view kExplainPurpose =
    "Explains what the tool prints. QUESTION is one of:\n"
    "- a word: zero3, zb_v, bubble, mfu, ... (`words` lists them);\n"
    "- an operator that ranks divide, as splits.fc6: why so, and what else would cost;\n"
    "- a field of a plan, as memory.activations: its formula, the values put in, its source;\n"
    "- why-not KEY=VALUE ...: what the best plan with these values would cost;\n"
    "- kernels: where a step's compute time goes, kernel by kernel, beside the GPU's roofline;\n"
    "- a law or fact, C1 to C10 and M1 to M16 (`facts` lists them);\n"
    "- laws: how many bytes the ways to synchronise gradients send, C1 to C5.";
constexpr std::string_view kExplainExamples =
    "  planner explain zb_v\n"
    "  planner explain memory.activations --plan plan.json\n"
    "  planner explain why-not tensor=8 --plan plan.json\n"
    "  planner explain time.step --model gpt2-124m --gpus 2\n"
    "  planner explain kernels --model llama3-8b --gpus 8xh100\n"
    "  planner explain C4 --gpus 16\n"
    "  planner explain laws --gpus 4 --servers 2 --measure";

core::Result<planner::Plan> plan_to_explain(const std::optional<std::string>& path,
                                            const PlanOptions& options) {
  if (path) return read_plan(*path);
  const auto requests = requests_of(options);
  if (!requests.ok()) return requests.problems();
  return plan_of(options, *requests);
}

core::Code plan_word(const std::optional<std::string>& path) {
  return path ? core::Code::shell(*path) : "plan.json";
}

std::vector<reports::NextStep> after_words() {
  return {{"planner explain words", "lists every word"},
          {"planner explain memory.activations --plan plan.json", "a figure of a plan"}};
}

std::vector<reports::NextStep> after_field(const std::optional<std::string>& path) {
  return {{core::code("planner explain why-not tensor=2 --plan {}", plan_word(path)),
           "what the best plan with it would cost"},
          {"planner explain words", "lists every word"}};
}

// Laws and facts need a model to be worked out for; this one when none is named.
constexpr std::string_view kFactModel = "gpt2-1.5b";
constexpr std::string_view kFactGpus = "8";

int deliver_explanation(const core::Result<reports::Explanation>& explanation,
                        const OutputOptions& output, const std::optional<std::string>& plan) {
  if (!explanation.ok()) return refuse(explanation.problems());
  const core::Status delivered = deliver(output, reports::to_json_text(*explanation), [&] {
    return reports::explanation_text(*explanation, page_style()) + next_text(after_field(plan));
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
      deliver(output, facts_json(), [] {
        return reports::facts_text(page_style()) +
               next_text({{"planner explain C4 --gpus 16", "one of them, with its numbers"}});
      });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

int deliver_words(const std::vector<const reports::GlossaryEntry*>& entries,
                  const OutputOptions& output) {
  const core::Status delivered =
      deliver(output, reports::glossary_json(entries),
              [&] {
                return reports::glossary_text(entries, page_style()) + next_text(after_words());
              });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

// Every word, a line for each kind.
int list_words(const OutputOptions& output) {
  std::vector<const reports::GlossaryEntry*> all;
  for (const reports::GlossaryEntry& e : reports::glossary()) all.push_back(&e);
  const auto page = [&] {
    std::string text, line;
    for (std::size_t i = 0; i < all.size(); ++i) {
      line += (line.empty() ? all[i]->kind + ": " : ", ") + all[i]->word;
      if (i + 1 < all.size() && all[i + 1]->kind == all[i]->kind) continue;
      text += reports::wrapped(line, 0, 2, page_style());
      line.clear();
    }
    return text + next_text({{"planner explain bubble", "one of them"}});
  };
  const core::Status delivered = deliver(output, reports::glossary_json(all), page);
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

// `path`: the plan's file, where it has one.
int explain_why_not(const core::Result<planner::Plan>& plan, const std::vector<std::string>& pins,
                    const std::optional<std::string>& path, const OutputOptions& output) {
  if (!plan.ok()) return refuse(plan.problems());
  const core::Result<reports::WhyNot> answer = reports::why_not(*plan, pins);
  if (!answer.ok()) return refuse(answer.problems());
  const core::Status delivered = deliver(output, reports::why_not_json(*answer), [&] {
    return reports::why_not_text(*answer, page_style()) +
           next_text({{core::code("planner compare {} --strategies", plan_word(path)),
                       "the plan's own candidates"}});
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

int explain_kernels(const core::Result<planner::Plan>& plan,
                    const std::optional<std::string>& path, const OutputOptions& output) {
  if (!plan.ok()) return refuse(plan.problems());
  if (!plan->chosen)
    return refuse({{"explain kernels", "a plan with a chosen strategy", "none", ""}});
  const core::Result<planner::KernelTimes> times = planner::kernel_times(*plan, *plan->chosen);
  if (!times.ok()) return refuse(times.problems());
  const core::Status delivered =
      deliver(output, reports::kernel_table_json(*plan, *times), [&] {
        return reports::kernel_table_text(*plan, *times, page_style()) +
               next_text({{core::code("planner simulate {}", plan_word(path)),
                           "the whole step, with communication and waiting"}});
      });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

// A field of the plan, else a word.
int explain_field(const planner::Plan& plan, const std::string& question, double servers,
                  const std::optional<std::string>& path, const OutputOptions& output) {
  const core::Result<reports::Explanation> field = reports::explain(plan, question, servers);
  if (!field.ok())
    if (const auto words = reports::look_up(question); words.ok())
      return deliver_words(*words, output);
  return deliver_explanation(field, output, path);
}

}  // namespace

int explain_verb(Arguments arguments, const Runner& runner, Arguments whole) {
  std::vector<std::string> asked;
  std::optional<std::string> plan_path;
  PlanOptions options;
  LawOptions laws;
  OutputOptions output;
  OptionSet set("explain", kExplainPurpose, kExplainExamples);
  set.positionals("QUESTION", asked,
                  "a word, a field of the plan, why-not KEY=VALUE, `kernels`, C1 to C10, "
                  "M1 to M16, `words`, `facts` or `laws`");
  set.group("Laws");
  set.text("--servers", laws.servers, "M", "parameter servers (2)");
  set.flag("--measure", laws.measure, "run a small model and count the bytes it sends");
  set.group("Plan");
  set.text("--plan", plan_path, "FILE", "explain this plan instead of a new one");
  add_plan_options(set, options);
  add_output_options(set, output, "the explanation");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  if (laws.measure && !runner) return hand_over("planner-exec", whole);

  const core::Status target = check_output(output);
  if (!target.ok()) return refuse(target.problems());
  const bool asks_why_not = asked.front() == "why-not" || asked.front() == "why_not";
  const std::vector<std::string> pins(asked.begin() + 1, asked.end());
  if (asks_why_not && pins.empty())
    return refuse({{"explain why-not", "KEY=VALUE", "none", "write explain why-not tensor=8"}});
  const std::string question = fmt::format("{}", fmt::join(asked, " "));
  const bool has_plan = plan_path || options.model;
  if (asks_why_not) return explain_why_not(plan_to_explain(plan_path, options), pins, plan_path,
                                          output);
  if (question == "kernels" && !has_plan)
    return refuse({{"explain kernels", "--model or --plan beside it", "none",
                    "write explain kernels --model llama3-8b --gpus 8xh100"}});
  if (question == "kernels")
    return explain_kernels(plan_to_explain(plan_path, options), plan_path, output);
  if (question == "words") return list_words(output);
  if (question == "laws") return explain_laws(options, laws, output, runner);
  if (question == "facts") return list_facts(output);
  const bool fact = reports::find_fact(question) != nullptr;
  if (!fact && !has_plan) {
    const auto words = reports::look_up(question);
    return words.ok() ? deliver_words(*words, output) : refuse(words.problems());
  }
  if (fact && !has_plan) {
    options.model = kFactModel;
    if (!options.gpus) options.gpus = kFactGpus;
  }
  core::Problems problems;
  const std::int64_t servers = whole_number(laws.servers, "--servers", 1, problems).value_or(2);
  const core::Result<planner::Plan> plan = plan_to_explain(plan_path, options);
  if (!plan.ok())
    core::append(problems, plan);
  if (!problems.empty()) return refuse(problems);
  return explain_field(*plan, question, static_cast<double>(servers), plan_path, output);
}

}  // namespace cli
