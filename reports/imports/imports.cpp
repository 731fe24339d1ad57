#include "reports/imports/imports.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "reports/imports/facts.hpp"
#include "reports/imports/megatron_script.hpp"
#include "reports/imports/structured.hpp"
#include "reports/imports/torchtitan.hpp"

namespace reports::imports {
namespace {

// The files by format, as each file's own text tells it.
struct Sorted {
  std::vector<File> scripts, python;
  bool torchtitan = false, deepspeed = false, accelerate = false, trainer = false;
  std::string model;                   // a config.json
};

char first_letter(std::string_view text) {
  const std::size_t at = text.find_first_not_of(" \t\r\n");
  return at == std::string_view::npos ? '\0' : text[at];
}

// TrainingArguments, in which DeepSpeed's configuration may stand whole.
void add_arguments(const core::Json& root, const std::string& file, Sorted& out,
                   Settings& settings, core::Problems& problems) {
  out.trainer = true;
  std::vector<core::Json::Member> own;
  for (const core::Json::Member& member : root.members()) {
    if (member.key != "deepspeed" || !member.value.is_object()) {
      own.push_back(member);
      continue;
    }
    out.deepspeed = true;
    add_settings(member.value, "deepspeed:", file, settings, problems);
  }
  add_settings(core::Json::from_members(std::move(own)), "trainer:", file, settings, problems);
}

void sort_json(const File& file, Sorted& out, Settings& settings, core::Problems& problems) {
  const auto json = core::parse_json(file.text, file.name);
  if (!json.ok()) return core::append(problems, json);
  const auto has = [&](std::string_view key) { return json->find(key) != nullptr; };
  if (has("model_type")) {
    out.model = file.name;
  } else if (has("zero_optimization") || has("train_micro_batch_size_per_gpu") ||
             has("train_batch_size")) {
    out.deepspeed = true;
    add_settings(*json, "deepspeed:", file.name, settings, problems);
  } else if (has("per_device_train_batch_size") || has("output_dir") ||
             has("gradient_accumulation_steps")) {
    add_arguments(*json, file.name, out, settings, problems);
  } else {
    problems.push_back({file.name,
                        "DeepSpeed's configuration, TrainingArguments, or a model's config.json",
                        "none of their keys", ""});
  }
}

void sort_file(const File& file, Sorted& out, Settings& settings, core::Problems& problems) {
  if (first_letter(file.text) == '{') return sort_json(file, out, settings, problems);
  const auto put = [&](const core::Result<core::Json>& root, std::string_view prefix, bool& seen) {
    if (!root.ok()) return core::append(problems, root);
    seen = true;
    add_settings(*root, prefix, file.name, settings, problems);
  };
  const auto says = [&](std::string_view text) {
    return file.text.find(text) != std::string::npos;
  };
  if (file.name.ends_with(".py") || says("Trainer.Config(")) return out.python.push_back(file);
  if (file.name.ends_with(".toml") || says("\n[training]\n") || says("\n[parallelism]\n"))
    return put(parse_toml(file.text, file.name), "", out.torchtitan);
  if (file.name.ends_with(".yaml") || file.name.ends_with(".yml") || says("distributed_type:"))
    return put(parse_yaml(file.text, file.name), "accelerate:", out.accelerate);
  out.scripts.push_back(file);
}

core::Problem no_format(const std::string& name) {
  return {name,
          "a script of Megatron-LM, torchtitan's .toml or .py, accelerate's .yaml, or JSON of "
          "DeepSpeed or of TrainingArguments",
          "none of these", ""};
}

// Python files do not read each other in, and only they have functions to choose from.
std::optional<core::Problem> python_problem(const Sorted& sorted, const Given& given) {
  if (sorted.python.size() > 1)
    return core::Problem{sorted.python[1].name, "one Python file", "several",
                         "import each by itself"};
  if (!given.config.empty() && sorted.python.empty())
    return core::Problem{"--config", "a Python file of torchtitan, whose function it names",
                         "files of another format", "leave it out"};
  return std::nullopt;
}

}  // namespace

core::Result<Setup> read_setup(std::span<const File> files, const Given& given) {
  core::Problems problems;
  Settings settings(problems);
  Sorted sorted;
  for (const File& file : files) sort_file(file, sorted, settings, problems);
  if (!problems.empty()) return problems;
  const bool hugging_face = sorted.deepspeed || sorted.accelerate || sorted.trainer;
  const int kinds = (sorted.scripts.empty() ? 0 : 1) + (sorted.torchtitan ? 1 : 0) +
                    (sorted.python.empty() ? 0 : 1) + (hugging_face ? 1 : 0);
  if (kinds == 0) return no_format(files.front().name);
  if (kinds > 1)
    return core::Problem{files.back().name, "files of one setup", "files of several frameworks",
                         "import each setup by itself"};
  if (const auto wrong = python_problem(sorted, given)) return *wrong;
  Facts facts(settings, problems);
  facts.model = !given.model.empty() ? given.model : sorted.model;
  std::vector<std::string> formats;
  if (!sorted.scripts.empty()) {
    if (std::ranges::none_of(sorted.scripts,
                             [](const File& f) { return has_megatron_options(f.text); }))
      return no_format(sorted.scripts.front().name);
    const core::Status read =
        read_script(sorted.scripts, given.variables, settings, facts.notes);
    if (!read.ok()) return read.problems();
    formats = {"megatron"};
    read_megatron(facts);
  } else if (!sorted.python.empty()) {
    formats = {"torchtitan_python"};
    const auto function = add_titan_function(sorted.python.front(), given, settings);
    if (!function.ok()) return function.problems();
    read_torchtitan_python(facts, given, function->module, function->where);
  } else if (sorted.torchtitan) {
    formats = {"torchtitan"};
    read_torchtitan(facts, given);
  } else {
    if (sorted.deepspeed) formats.emplace_back("deepspeed");
    if (sorted.accelerate) formats.emplace_back("accelerate");
    if (sorted.trainer) formats.emplace_back("trainer");
    read_hugging_face(facts);
  }
  Setup setup = finish(facts, given);
  if (!problems.empty()) return problems;
  settings.sort_rest(hugging_face ? "hugging_face" : formats.front());
  setup.formats = std::move(formats);
  setup.read = settings.read();
  setup.not_read = settings.unread();
  setup.without_influence = settings.harmless();
  return setup;
}

}  // namespace reports::imports
