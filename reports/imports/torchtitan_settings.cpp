// torchtitan's configuration in Python as settings, each with its line: the Trainer.Config that a
// function of the file returns (pytorch/torchtitan b5bcd76: torchtitan/config/manager.py,
// torchtitan/trainer.py, torchtitan/config/configs.py).
#include <algorithm>
#include <array>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "reports/imports/python.hpp"
#include "reports/imports/structured.hpp"
#include "reports/imports/torchtitan.hpp"

namespace reports::imports {
namespace {

using ValueKind = PythonValue::Kind;

constexpr std::string_view kTrainer = "Trainer.Config";
constexpr std::size_t kMostSettings = 4096, kMostListed = 12;
constexpr int kDeepestValue = 16;

// The sections whose values decide what is planned, and the class that each must be.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kSections{
    {{"training", "TrainingConfig"},
     {"parallelism", "ParallelismConfig"},
     {"compile", "CompileConfig"}}};
// Settings for which None is a value of its own, and not what holds by default.
constexpr std::array<std::string_view, 2> kMayBeNone{"activation_checkpoint",
                                                     "parallelism.context_parallel_load_balancer"};

// The class of an object without its module: "SelectiveAC.Config", "TrainingConfig".
std::string_view class_of(std::string_view full) {
  const bool nested = is_python_name(full, "Config");
  std::size_t at = full.rfind('.');
  if (nested && at != std::string_view::npos && at > 0) at = full.rfind('.', at - 1);
  return at == std::string_view::npos ? full : full.substr(at + 1);
}

// Whether a call makes a part of a configuration. Of all others this reader does not know what they
// return.
bool is_part(const PythonValue& value) {
  return value.default_of.has_value() || value.text.ends_with("Config") ||
         is_python_name(value.text, "default_adamw");
}

class TitanReader {
 public:
  TitanReader(const File& file, const Given& given, Settings& settings)
      : file_(file),
        given_(given),
        settings_(settings),
        python_(file.name, kTrainer, given.variables) {}

  core::Result<TitanFunction> read() {
    if (const core::Status done = python_.read(file_.text); !done.ok()) return done.problems();
    const auto name = chosen();
    if (!name.ok()) return name.problems();
    // What was called to choose may have changed values of the whole file.
    python_ = Python(file_.name, kTrainer, given_.variables);
    if (const core::Status done = python_.read(file_.text); !done.ok()) return done.problems();
    const std::vector<const PythonFunction*> all = python_.functions();
    const PythonFunction& function = **std::ranges::find(all, *name, &PythonFunction::name);
    const auto result = python_.call(function);
    if (!result.ok()) return result.problems();
    const PythonValue& value = python_.at(*result);
    if (value.kind != ValueKind::object || !is_python_name(value.text, kTrainer))
      return core::Problem{at(function.line, function.name),
                           "a function that returns a Trainer.Config(...) which the text of the "
                           "file states",
                           found(value), "write the Trainer.Config(...) in this file"};
    function_.where = at(value.line, "model_spec");
    for (const auto& [key, ref] : value.members) add_root(key, ref, *result);
    if (!value.items.empty()) needs(value, "Trainer.Config", "arguments by name", "");
    guess_module(function.name);
    add_given();
    for (const PythonCall& call : python_.unfollowed())
      settings_.leave_default(call.source, fmt::format("line {}", call.line),
                              "this call is not followed, and may change the configuration");
    if (!problems_.empty()) return problems_;
    return function_;
  }

 private:
  std::string at(int line, std::string_view what = "") const {
    return fmt::format("{}:{}{}{}", file_.name, line, what.empty() ? "" : " ", what);
  }

  static std::string found(const PythonValue& value) {
    if (value.kind == ValueKind::object && !value.default_of)
      return fmt::format("{}(...)", class_of(value.text));
    if (!value.source.empty()) return value.source;
    if (value.kind == ValueKind::none) return "None";
    if (value.kind == ValueKind::whole) return std::to_string(value.whole);
    return value.kind == ValueKind::text ? value.text : "a value that is worked out when it runs";
  }

  void needs(const PythonValue& value, std::string_view what, std::string expected,
             std::string fix) {
    problems_.push_back({at(value.line, what), std::move(expected), found(value), std::move(fix)});
  }

  // ---- which function ----
  bool may_be_meant(const PythonFunction& function) {
    const bool needs_arguments = std::ranges::any_of(
        function.parameters, [](const auto& parameter) { return !parameter.by_default; });
    if (function.name.starts_with('_') || needs_arguments || !function.followed) return false;
    std::string_view type = function.returns;
    while (!type.empty() && (type.back() == '"' || type.back() == '\'')) type.remove_suffix(1);
    if (!type.empty()) return type.ends_with("Config");
    const auto result = python_.call(function);
    if (!result.ok()) core::append(problems_, result);
    return result.ok() && python_.at(*result).kind == ValueKind::object &&
           is_python_name(python_.at(*result).text, kTrainer);
  }

  core::Result<std::string> chosen() {
    const std::vector<const PythonFunction*> all = python_.functions();
    if (std::ranges::find(all, given_.config, &PythonFunction::name) != all.end())
      return given_.config;
    std::vector<std::string_view> names;
    for (const PythonFunction* function : all)
      if (may_be_meant(*function)) names.push_back(function->name);
    if (!problems_.empty()) return problems_;
    if (names.empty())
      return core::Problem{file_.name, "a function that returns torchtitan's Trainer.Config",
                           "none", ""};
    if (given_.config.empty() && names.size() == 1) return std::string(names.front());
    const std::size_t shown = std::min(names.size(), kMostListed);
    std::string list = fmt::format(
        "{}", fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "));
    if (shown < names.size()) list += fmt::format(" and {} more", names.size() - shown);
    if (given_.config.empty())
      return core::Problem{file_.name, "one function that returns a configuration",
                           fmt::format("{} of them: {}", names.size(), list),
                           "say which with --config NAME"};
    const std::string_view near = core::nearest(given_.config, names);
    return core::Problem{"--config", fmt::format("a function of {}: {}", file_.name, list),
                         given_.config, near.empty() ? "" : fmt::format("did you mean {}?", near)};
  }

  // ---- its values ----
  void add_root(const std::string& key, PythonRef ref, PythonRef whole) {
    const PythonValue& value = python_.at(ref);
    if (key == "**")
      return needs(value, "Trainer.Config", "arguments that the file states", "write them out");
    if (key == "model_spec") return add_model(ref);
    for (const auto& [section, type] : kSections)
      if (key == section) {
        const bool own = value.kind == ValueKind::object &&
                         (value.default_of == whole || is_python_name(value.text, type));
        const bool known = own && value.items.empty() && !has_more(value);
        if (known) return add_members(value, key, 1, ref);
        return needs(value, key,
                     fmt::format("{}(...) with names and values that the file states", type),
                     "write them out");
      }
    add(key, ref, 0, whole);
  }

  static bool has_more(const PythonValue& value) {
    return std::ranges::any_of(value.members,
                               [](const auto& member) { return member.first == "**"; });
  }

  void add_members(const PythonValue& value, const std::string& key, int depth, PythonRef ref) {
    for (std::size_t i = 0; i < value.items.size(); ++i)
      add(fmt::format("{}.{}", key, i), value.items[i], depth + 1, ref);
    for (const auto& [name, member] : value.members)
      add(fmt::format("{}.{}", key, name), member, depth + 1, ref);
  }

  // False, and a problem: the configuration stands for more than any has.
  bool counts(const PythonValue& value) {
    if (++count_ == kMostSettings + 1)
      problems_.push_back(
          {at(value.line), fmt::format("at most {} settings", kMostSettings), "more of them", ""});
    return count_ <= kMostSettings;
  }

  void put(const std::string& key, std::vector<std::string> words, const PythonValue& value,
           bool known = true) {
    if (!counts(value)) return;
    Setting setting{key, std::move(words), known, true, at(value.line)};
    setting.fix = fmt::format("write it out, or say it with --var {}=VALUE", key);
    settings_.add(std::move(setting));
  }

  // A scalar, or a list of them and of lists of them; null: something else is in it.
  std::optional<core::Json> plain(PythonRef ref, int depth) {
    const PythonValue& value = python_.at(ref);
    if (value.kind == ValueKind::flag) return core::Json(value.whole != 0 ? "True" : "False");
    if (value.kind == ValueKind::whole) return core::Json(value.whole);
    if (value.kind == ValueKind::real) return core::Json(value.real);
    if (value.kind == ValueKind::text) return core::Json(value.text);
    if (value.kind == ValueKind::none) return core::Json("None");
    if (value.kind != ValueKind::list || depth > kDeepestValue) return std::nullopt;
    std::vector<core::Json> items;
    for (const PythonRef item : value.items) {
      if (!counts(value)) return std::nullopt;
      auto one = plain(item, depth + 1);
      if (!one) return std::nullopt;
      items.push_back(std::move(*one));
    }
    return core::Json::from_items(std::move(items));
  }

  void add(const std::string& key, PythonRef ref, int depth, PythonRef parent) {
    const PythonValue& value = python_.at(ref);
    if (count_ > kMostSettings) return;
    if (depth > kDeepestValue) return put(key, {found(value)}, value, false);
    if (value.kind == ValueKind::none && std::ranges::find(kMayBeNone, key) == kMayBeNone.end())
      return;
    if (value.kind == ValueKind::object) return add_object(key, ref, depth, parent);
    if (value.kind == ValueKind::dict)
      return counts(value) ? add_members(value, key, depth, ref) : void();
    if (value.kind == ValueKind::list) return add_list(key, ref, depth);
    if (const auto word = plain(ref, depth)) return put(key, {setting_word(*word)}, value);
    put(key, {value.kind == ValueKind::name ? value.text : found(value)}, value, false);
  }

  void add_object(const std::string& key, PythonRef ref, int depth, PythonRef parent) {
    const PythonValue& value = python_.at(ref);
    if (!is_part(value) || (value.default_of && value.default_of != parent))
      return put(key, {found(value)}, value, false);
    if (!value.default_of)
      put(key, {std::string(class_of(value.text))}, value);
    else if (!counts(value))
      return;
    add_members(value, key, depth, ref);
  }

  // A list of objects becomes their classes, and what each of them says by its class.
  void add_list(const std::string& key, PythonRef ref, int depth) {
    const PythonValue& value = python_.at(ref);
    std::vector<std::string> words;
    if (const auto list = plain(ref, depth)) {
      for (const core::Json& item : list->items()) words.push_back(setting_word(item));
      return put(key, std::move(words), value);
    }
    for (const PythonRef item : value.items) {
      const PythonValue& one = python_.at(item);
      if (one.kind != ValueKind::object || !is_part(one) || one.default_of)
        return put(key, {found(value)}, value, false);
      words.emplace_back(class_of(one.text));
    }
    put(key, words, value);
    for (std::size_t i = 0; i < words.size() && count_ <= kMostSettings; ++i) {
      const std::string_view name = words[i];
      const std::string_view suffix = ".Config";
      const bool nested = name.ends_with(suffix);
      add_members(
          python_.at(value.items[i]),
          fmt::format("{}.{}", key, name.substr(0, name.size() - (nested ? suffix.size() : 0))),
          depth + 1, value.items[i]);
    }
  }

  // model_registry("8B", attn_backend="varlen", converters=[...])
  void add_model(PythonRef ref) {
    const PythonValue& value = python_.at(ref);
    const bool registry =
        value.kind == ValueKind::object && is_python_name(value.text, "model_registry");
    if (!registry || has_more(value)) {
      if (given_.model.empty())
        return needs(value, "model_spec", "model_registry(...) with values that the file states",
                     "name the model with --model");
      return put("model_spec", {found(value)}, value, false);
    }
    function_.where = at(value.line, "model_registry");
    std::string_view module = value.text;
    module.remove_suffix(std::string_view("model_registry").size());
    if (module.ends_with('.')) module.remove_suffix(1);
    const std::size_t dot = module.rfind('.');
    if (dot != std::string_view::npos && dot + 1 < module.size())
      function_.module = module.substr(dot + 1);
    if (!value.items.empty()) add("model_spec.flavor", value.items.front(), 1, ref);
    for (std::size_t i = 1; i < value.items.size(); ++i)
      add(fmt::format("model_spec.{}", i), value.items[i], 1, ref);
    for (const auto& [name, member] : value.members) add("model_spec." + name, member, 1, ref);
  }

  // `from . import model_registry` names no module: the name of the file's folder does ("llama3"),
  // or that of the function ("llama3_8b").
  void guess_module(std::string_view function) {
    static constexpr std::array<std::string_view, 9> kModules{
        "deepseek_v3", "muse_glimmer", "kimi_k2_7", "gpt_oss", "qwen3_5",
        "llama3",      "llama4",       "qwen3",     "flux"};
    if (!function_.module.empty()) return;
    std::string_view folder = file_.name;
    folder = folder.substr(0, std::min(folder.rfind('/'), folder.size()));
    folder = folder.substr(folder.rfind('/') + 1);
    for (const std::string_view module : kModules)
      if (folder == module) function_.module = module;
    for (const std::string_view module : kModules)
      if (function_.module.empty() && function.find(module) != std::string_view::npos)
        function_.module = module;
  }

  // What the user says of a setting, as torchtitan's own --training.steps.
  void add_given() {
    for (const auto& [key, value] : given_.variables) {
      if (key.find('.') == std::string::npos && !settings_.has(key)) continue;
      settings_.add({key, {value}, true, true, "--var"});
    }
  }

  const File& file_;
  const Given& given_;
  Settings& settings_;
  Python python_;
  TitanFunction function_;
  std::size_t count_ = 0;
  core::Problems problems_;
};

}  // namespace

core::Result<TitanFunction> add_titan_function(const File& file, const Given& given,
                                               Settings& settings) {
  return TitanReader(file, given, settings).read();
}

}  // namespace reports::imports
