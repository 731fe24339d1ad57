#pragma once
// OptionSet: the options of one verb, parsed. A thin layer over CLI11 that keeps its headers in one
// file, answers an unknown option with the nearest known one, and turns every error into a Problem
// (exit code 2). References given to it outlive parse(). Thread-compatible.

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace cli {

using Arguments = std::span<const std::string>;

// An option that takes one value, and where that goes.
struct NamedValue {
  std::string name;                    // "--top"
  std::optional<std::string>* value = nullptr;
};

// What `planner help --markdown` and `planner help --json` give each verb instead of arguments.
inline constexpr std::string_view kMarkdownHelp = "--help-as-markdown";
inline constexpr std::string_view kJsonHelp = "--help-as-json";
bool is_help_form(Arguments arguments);

class OptionSet {
 public:
  // examples: whole lines, shown below the options.
  OptionSet(std::string_view verb, std::string_view purpose, std::string_view examples);
  OptionSet(const OptionSet&) = delete;
  OptionSet& operator=(const OptionSet&) = delete;
  ~OptionSet();

  // Heading of the options that follow.
  void group(std::string_view title);
  // name "--top"; a value stays as typed, and empty when it was not given.
  void text(std::string_view name, std::optional<std::string>& out, std::string_view value_name,
            std::string_view help);
  // May be given several times.
  void texts(std::string_view name, std::vector<std::string>& out, std::string_view value_name,
             std::string_view help);
  void flag(std::string_view name, bool& out, std::string_view help);
  void positional(std::string_view name, std::string& out, std::string_view help);
  // May be left out.
  void positional(std::string_view name, std::optional<std::string>& out, std::string_view help);
  void positionals(std::string_view name, std::vector<std::string>& out, std::string_view help);

  // The options of text() so far, in their order.
  const std::vector<NamedValue>& named() const { return named_; }

  // The help page when it was asked for (with kMarkdownHelp alone: as a section of docs/cli.md),
  // else empty and the references are filled. With kJsonHelp alone: as an element of `verbs` of
  // `planner help --json`.
  core::Result<std::optional<std::string>> parse(Arguments arguments);

 private:
  struct Parser;
  // As the reference prints it. takes: flag, value, values (may be given several times).
  struct Described {
    std::string group, name, value, help;
    std::string_view takes = "value";
    bool positional = false, required = false;
  };
  std::string markdown() const;
  std::string json() const;

  std::unique_ptr<Parser> parser_;
  std::vector<NamedValue> named_;
  std::string group_ = "Arguments", title_, purpose_, examples_;
  std::vector<Described> described_;
};

}  // namespace cli
