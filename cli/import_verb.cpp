#include <algorithm>

#include <fmt/format.h>

#include "cli/gpu_count.hpp"
#include "cli/output.hpp"
#include "cli/plan_options.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/code.hpp"
#include "core/file.hpp"
#include "core/json.hpp"
#include "models/spec_file.hpp"
#include "reports/imports/imports.hpp"
#include "reports/plan_text.hpp"
#include "reports/released_text.hpp"
#include "reports/subjects_comparison.hpp"

namespace cli {
namespace {

using reports::imports::Setup;

constexpr std::string_view kImportPurpose =
    "Reads a configuration that you already run and asks the planner about it: a script or an\n"
    "argument list of Megatron-LM, torchtitan's TOML or Python, DeepSpeed's JSON, accelerate's\n"
    "YAML, or TrainingArguments as JSON. Several files of one setup are read together. Scripts "
    "and\n"
    "Python are read as text, never run. The answer is the command to type, and what of the\n"
    "configuration was read, was not, or has no influence. With --gpus or --plan, the answer also\n"
    "compares what your configuration takes with the best one for the same job.";
constexpr std::string_view kImportExamples =
    "  planner import train.sh\n"
    "  planner import env.sh train.sh --var NNODES=4\n"
    "  planner import train.sh --gpus 64xH100 --json\n"
    "  planner import train.sh --model-out model.json\n"
    "  planner import job.toml --plan\n"
    "  planner import torchtitan/models/llama3/config_registry.py --config llama3_8b --gpus 8\n"
    "  planner import fsdp.yaml training_args.json config.json --plan\n"
    "  planner import ds_config.json --model llama3-8b --gpus 8xA100";

constexpr std::size_t kMostBytes = std::size_t{1} << 20;  // of a configuration

struct ImportWords {
  std::vector<std::string> files, variables;
  std::optional<std::string> vocab, model_out, config;
  bool plan = false;
};

using Files = std::vector<reports::imports::File>;

core::Result<Files> read_files(const std::vector<std::string>& paths) {
  Files files;
  core::Problems problems;
  for (const std::string& path : paths) {
    core::Result<std::string> text = core::read_file(path, kMostBytes);
    core::append(problems, text);
    if (text.ok()) files.push_back({path, std::move(text).value()});
  }
  if (!problems.empty()) return problems;
  return files;
}

reports::imports::Given given_by(const ImportWords& words, PlanOptions& options,
                                 core::Problems& problems) {
  reports::imports::Given given;
  core::append(problems, split_counted_gpu(options));
  given.gpus = whole_number(options.gpus, "--gpus", 1, problems);
  given.vocab = whole_number(words.vocab, "--vocab", 1, problems);
  given.model = options.model.value_or("");
  given.config = words.config.value_or("");
  for (const std::string& text : words.variables) {
    const std::size_t equals = text.find('=');
    if (equals == std::string::npos || equals == 0)
      problems.push_back({"--var", "NAME=VALUE", fmt::format("\"{}\"", text), "write NNODES=4"});
    else
      given.variables[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return given;
}

// Options and pins that were typed take precedence. All others are as the files say.
PlanOptions question_of(const Setup& setup, const PlanOptions& typed, const std::string& model) {
  PlanOptions question = typed;
  if (!model.empty()) question.model = model;
  if (!question.gpus && setup.gpus) question.gpus = std::to_string(*setup.gpus);
  OptionSet set("", "", "");
  add_plan_options(set, question);
  for (const auto& [option, value] : setup.options) {
    const auto named = std::ranges::find(set.named(), option, &NamedValue::name);
    if (named != set.named().end() && !*named->value) *named->value = value;
  }
  for (const std::string& pin : setup.pins) {
    const std::string key = pin.substr(0, pin.find('=') + 1);
    const bool said = std::ranges::any_of(typed.pins, [&](const std::string& text) {
      return text.starts_with(key);
    });
    if (!said) question.pins.push_back(pin);
  }
  return question;
}

core::Result<planner::Plan> answer_to(const PlanOptions& question, bool quiet) {
  auto requests = requests_of(question);
  if (!requests.ok()) return requests.problems();
  ProgressLine progress(quiet);
  requests->front().progress = [&](std::string_view done) { progress.show(done); };
  return plan_of(question, *requests);
}

// What the configuration takes, and the best strategy for its job where nothing is pinned.
struct Beside {
  planner::Plan own, best;
};
core::Result<Beside> plans_of(const PlanOptions& question, const PlanOptions& typed, bool quiet) {
  PlanOptions open = question;
  open.pins = typed.pins;
  auto own = answer_to(question, quiet);
  if (!own.ok()) return own.problems();
  auto best = answer_to(open, quiet);
  if (!best.ok()) return best.problems();
  return Beside{std::move(own).value(), std::move(best).value()};
}

std::vector<reports::Subject> subjects_of_plans(const Beside& plans) {
  return {reports::chosen_of(plans.own, "yours"), reports::chosen_of(plans.best, "best")};
}

// The plan of it as typed: `--gpus N` where nobody says how many.
core::Code plan_command(const PlanOptions& question) {
  return command_of(question) + core::Code::own(question.gpus ? "" : " --gpus N");
}

// Writes a model that no name is of, and gives the file that --model takes.
core::Result<std::string> model_of(const Setup& setup, const ImportWords& words, bool needed) {
  if (!setup.spec) return setup.model;
  if (words.model_out) {
    const core::Status done =
        core::write_atomically(*words.model_out, models::spec_to_json(*setup.spec) + '\n');
    if (!done.ok()) return done.problems();
    return *words.model_out;
  }
  if (needed)
    return core::Problem{"--model-out", "a file for a model that no known model has the sizes of",
                         "none", "add --model-out model.json"};
  return std::string("model.json");
}

std::string page_of(const Setup& setup, const std::optional<Beside>& plans,
                    const PlanOptions& question, const ImportWords& words) {
  std::string text;
  if (plans) {
    text += reports::subjects_text(subjects_of_plans(*plans), page_style());
    if (plans->own.chosen && !planner::within_risk(*plans->own.chosen, plans->own.max_risk))
      text += reports::wrapped(
          fmt::format("Yours has a risk of {} of running out of memory; the best is one within {}.",
                      reports::percent_text(plans->own.chosen->uncertainty.out_of_memory),
                      reports::percent_text(plans->own.max_risk)),
          0, 2, page_style());
    for (const std::string& line : reports::released_lines(plans->own))
      text += reports::wrapped(line, 0, 2, page_style());
    text += '\n';
  }
  text += reports::imports::setup_text(setup, page_style());
  std::vector<reports::NextStep> steps;
  if (setup.spec && !words.model_out) {
    core::Code again = "planner import";
    for (const std::string& file : words.files) again += " " + core::Code::shell(file);
    for (const std::string& variable : words.variables)
      again += " --var " + core::Code::shell(variable);
    if (words.config) again += " --config " + core::Code::shell(*words.config);
    if (words.vocab) again += " --vocab " + core::Code::shell(*words.vocab);
    steps.push_back({again + " --model-out model.json", "writes the model's sizes to a file"});
  }
  steps.push_back({plan_command(question), "plans it"});
  return text + next_text(steps);
}

std::string json_of(const Setup& setup, const std::optional<Beside>& plans,
                    const PlanOptions& question) {
  core::Json root = reports::imports::setup_json(setup);
  root.set("command", plan_command(question).text());
  root.set("subjects", plans ? reports::subjects_json(subjects_of_plans(*plans)) : core::Json());
  return core::dump(root) + '\n';
}

}  // namespace

int import_verb(Arguments arguments) {
  ImportWords words;
  PlanOptions options;
  OutputOptions output;
  OptionSet set("import", kImportPurpose, kImportExamples);
  set.positionals("FILE", words.files, "the files of one setup");
  set.group("Import");
  set.flag("--plan", words.plan, "also plan it, and compare it with the best strategy for its job");
  set.texts("--var", words.variables, "NAME=VALUE",
            "a variable of the script, or a setting of the Python file; repeatable");
  set.text("--config", words.config, "NAME", "the function of a Python file that is meant");
  set.text("--vocab", words.vocab, "N", "tokens of the vocabulary, where the files do not say");
  set.text("--model-out", words.model_out, "FILE", "write a model that has no name, by its sizes");
  add_plan_options(set, options);
  add_output_options(set, output, "what was read");
  if (const auto ended = ended_by(set, arguments)) return *ended;

  core::Problems problems;
  if (const core::Status target = check_output(output); !target.ok())
    core::append(problems, target);
  if (words.model_out)
    if (const core::Status target = core::check_writable(*words.model_out); !target.ok())
      core::append(problems, target);
  const bool plans_it = words.plan || options.gpus;
  const reports::imports::Given given = given_by(words, options, problems);
  if (!problems.empty()) return refuse(problems);
  const auto files = read_files(words.files);
  if (!files.ok()) return refuse(files.problems());
  const auto setup = reports::imports::read_setup(*files, given);
  if (!setup.ok()) return refuse(setup.problems());
  const auto model = model_of(*setup, words, plans_it);
  if (!model.ok()) return refuse(model.problems());
  const PlanOptions question = question_of(*setup, options, *model);
  if (plans_it && !question.gpus)
    return refuse({{"--gpus", "a number of GPUs", "none, here and in the files", "add --gpus 8"}});
  std::optional<Beside> plans;
  if (plans_it) {
    auto both = plans_of(question, options, output.quiet);
    if (!both.ok()) return refuse(both.problems());
    plans = std::move(both).value();
  }
  const core::Status delivered =
      deliver(output, json_of(*setup, plans, question),
              [&] { return page_of(*setup, plans, question, words); });
  if (!delivered.ok()) return refuse(delivered.problems());
  if (!plans || plans->own.chosen) return kDone;
  write_reason(reports::why_infeasible(plans->own));
  return kAnswerIsNo;
}

}  // namespace cli
