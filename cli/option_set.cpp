#include "cli/option_set.hpp"

#include <algorithm>
#include <array>

#include <CLI/App.hpp>
#include <CLI/Config.hpp>
#include <CLI/Formatter.hpp>
#include <fmt/format.h>

#include "core/json.hpp"
#include "planner/strategy/keys.hpp"

namespace cli {

struct OptionSet::Parser {
  CLI::App app;
  std::string group = "Options";

  CLI::Option* placed(CLI::Option* option, std::string_view value_name) {
    option->group(group);
    if (!value_name.empty()) option->type_name(std::string(value_name));
    return option;
  }
};

namespace {

// What launchers and trainers call what is an option here.
struct OtherOptionName {
  std::string_view name, option;
};
constexpr std::array<OtherOptionName, 16> kOtherNames{{{"--batch", "global-batch"},
                                                       {"--batch-size", "global-batch"},
                                                       {"--gbs", "global-batch"},
                                                       {"--sequence-length", "seq"},
                                                       {"--max-seq-length", "seq"},
                                                       {"--block-size", "seq"},
                                                       {"--context-length", "seq"},
                                                       {"--dtype", "precision"},
                                                       {"--nnodes", "gpus"},
                                                       {"--num-nodes", "gpus"},
                                                       {"--nproc-per-node", "gpus-per-node"},
                                                       {"--machine", "gpu"},
                                                       {"--gpu-type", "gpu"},
                                                       {"--lora", "lora-rank"},
                                                       {"--qlora", "quantization"},
                                                       {"--load-in-4bit", "quantization"}}};

// An option of another name, or a key of the strategy, which is pinned. "" for neither.
std::string meant_option(std::string_view word, const CLI::App& app) {
  const auto has = [&](std::string_view option) {
    return app.get_option_no_throw("--" + std::string(option)) != nullptr;
  };
  const std::string_view typed = word.substr(0, word.find('='));
  for (const OtherOptionName& other : kOtherNames)
    if (typed == other.name && has(other.option)) return "--" + std::string(other.option);
  const std::size_t begin = std::min(typed.find_first_not_of('-'), typed.size());
  const planner::StrategyKey* key = planner::strategy_key_meant(typed.substr(begin));
  if (key == nullptr || !has("pin")) return "";
  return fmt::format("--pin {}=VALUE", key->name);
}

std::string_view nearest_option(std::string_view text, const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional()) names.push_back(option->get_name());
  const std::vector<std::string_view> views(names.begin(), names.end());
  const std::string_view near = core::nearest(text.substr(0, text.find('=')), views);
  for (const CLI::Option* option : app.get_options())
    if (option->nonpositional() && option->get_name() == near) return option->get_lnames().front();
  return {};
}

core::Problems unexpected(const CLI::App& app) {
  core::Problems problems;
  const std::vector<std::string> words = app.remaining();
  const auto is_option = [](const std::string& word) { return word.starts_with("-"); };
  const bool any_option = std::ranges::any_of(words, is_option);
  for (const std::string& word : words) {
    const bool option = is_option(word);
    if (any_option && !option) continue;  // most likely the value of an unknown option
    std::string near = option ? meant_option(word, app) : "";
    if (option && near.empty())
      if (const std::string_view name = nearest_option(word, app); !name.empty())
        near = fmt::format("--{}", name);
    problems.push_back({"command line", option ? "a known option" : "options alone",
                        fmt::format("\"{}\"", word),
                        near.empty() ? fmt::format("see {} --help", app.get_name())
                                     : fmt::format("did you mean {}?", near)});
  }
  return problems;
}

// CLI11's message as "expected ...": it names the option itself.
core::Problem problem_of(const CLI::ParseError& error, const CLI::App& app) {
  constexpr std::string_view kRequired = " is required";  // as CLI11 says it
  const std::string_view said = error.what();
  if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::RequiredError) &&
      said.ends_with(kRequired))
    return {"command line", std::string(said.substr(0, said.size() - kRequired.size())), "none",
            "see " + app.get_name() + " --help"};
  return {"command line", "options as in " + app.get_name() + " --help", error.what(), ""};
}

}  // namespace

OptionSet::OptionSet(std::string_view verb, std::string_view purpose, std::string_view examples)
    : parser_(std::make_unique<Parser>()),
      title_(verb.empty() ? std::string("planner") : fmt::format("planner {}", verb)),
      purpose_(purpose), examples_(examples) {
  parser_->app.name(title_);
  parser_->app.description(std::string(purpose));
  parser_->app.footer("Examples:\n" + std::string(examples));
  parser_->app.get_formatter()->column_width(32);
  parser_->app.set_help_flag("--help,-h", "print this page");
}

OptionSet::~OptionSet() = default;

void OptionSet::group(std::string_view title) { parser_->group = group_ = title; }

void OptionSet::text(std::string_view name, std::optional<std::string>& out,
                     std::string_view value_name, std::string_view help) {
  const auto store = [&out](const std::string& value) { out = value; };
  auto* option = parser_->app.add_option_function<std::string>(std::string(name), store,
                                                               std::string(help));
  parser_->placed(option, value_name);
  named_.push_back({std::string(name), &out});
  described_.push_back({group_, std::string(name), std::string(value_name), std::string(help)});
}

void OptionSet::texts(std::string_view name, std::vector<std::string>& out,
                      std::string_view value_name, std::string_view help) {
  auto* option = parser_->app.add_option(std::string(name), out, std::string(help));
  parser_->placed(option, value_name)->allow_extra_args(false);
  described_.push_back(
      {group_, std::string(name), std::string(value_name), std::string(help), "values"});
}

void OptionSet::flag(std::string_view name, bool& out, std::string_view help) {
  parser_->placed(parser_->app.add_flag(std::string(name), out, std::string(help)), "");
  described_.push_back({group_, std::string(name), "", std::string(help), "flag"});
}

void OptionSet::positional(std::string_view name, std::optional<std::string>& out,
                           std::string_view help) {
  parser_->app
      .add_option_function<std::string>(
          std::string(name), [&out](const std::string& value) { out = value; }, std::string(help))
      ->type_name("");
  described_.push_back({"", std::string(name), "", std::string(help), "value", true});
}

void OptionSet::positional(std::string_view name, std::string& out, std::string_view help) {
  described_.push_back({"", std::string(name), "", std::string(help), "value", true, true});
  parser_->app.add_option(std::string(name), out, std::string(help))->required()->type_name("");
}

void OptionSet::positionals(std::string_view name, std::vector<std::string>& out,
                            std::string_view help) {
  described_.push_back({"", std::string(name), "", std::string(help), "values", true, true});
  parser_->app.add_option(std::string(name), out, std::string(help))->required()->type_name("");
}

// A section of docs/cli.md.
std::string OptionSet::markdown() const {
  const auto cell = [](std::string text) {
    for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
      text.insert(at, 1, '\\');
    return text;
  };
  // "PLAN", "[NAME]", "FILE ...", "--top N"
  const auto usage = [](const Described& d) {
    if (!d.positional) return d.value.empty() ? d.name : fmt::format("{} {}", d.name, d.value);
    if (!d.required) return fmt::format("[{}]", d.name);
    return d.takes == "values" ? fmt::format("{} ...", d.name) : d.name;
  };
  std::string text = fmt::format("## {}\n\n{}\n\n```\n{}\n```\n", title_, purpose_, examples_);
  std::vector<std::string> groups;
  for (const Described& d : described_)
    if (std::ranges::find(groups, d.group) == groups.end()) groups.push_back(d.group);
  for (const std::string& group : groups) {
    text += fmt::format("\n| {} | |\n|---|---|\n", group.empty() ? "arguments" : group);
    for (const Described& d : described_)
      if (d.group == group)
        text += fmt::format("| `{}` | {} |\n", usage(d), cell(d.help));
  }
  return text + '\n';
}

std::string OptionSet::json() const {
  using core::Json;
  Json arguments = Json::array(), options = Json::array();
  for (const Described& d : described_) {
    Json one = Json::object({{"name", d.name}, {"takes", d.takes}, {"help", d.help}});
    if (d.positional) {
      one.set("required", d.required);
      arguments.push_back(std::move(one));
      continue;
    }
    one.set("value", d.value);
    one.set("group", d.group);
    options.push_back(std::move(one));
  }
  constexpr std::string_view kStart = "planner ";
  const bool plans = title_.size() < kStart.size();
  return core::dump(Json::object({{"name", plans ? "plan" : title_.substr(kStart.size())},
                                  {"purpose", purpose_},
                                  {"examples", examples_},
                                  {"arguments", std::move(arguments)},
                                  {"options", std::move(options)}}));
}

bool is_help_form(Arguments arguments) {
  return arguments.size() == 1 &&
         (arguments.front() == kMarkdownHelp || arguments.front() == kJsonHelp);
}

core::Result<std::optional<std::string>> OptionSet::parse(Arguments arguments) {
  if (is_help_form(arguments))
    return std::optional(arguments.front() == kJsonHelp ? json() : markdown());
  CLI::App& app = parser_->app;
  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::CallForHelp&) {
    return std::optional(app.help());
  } catch (const CLI::ExtrasError&) {
    return unexpected(app);
  } catch (const CLI::ParseError& error) {
    return problem_of(error, app);
  }
  return std::optional<std::string>();
}

}  // namespace cli
