#include "cli/man_page.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "core/check.hpp"

namespace cli {
namespace {

using core::Json;

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](char c) {
    return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  });
  return text;
}

std::string bold(std::string_view text) { return fmt::format("\\fB{}\\fR", roff_text(text)); }
std::string italic(std::string_view text) { return fmt::format("\\fI{}\\fR", roff_text(text)); }

// "PLAN", "[NAME]", "FILE ...".
std::string usage_of_argument(const Json& argument) {
  const std::string& name = argument.at("name").as_string();
  if (!argument.at("required").as_bool()) return fmt::format("[{}]", italic(name));
  return italic(name) + (argument.at("takes").as_string() == "values" ? " ..." : "");
}

void add_item(std::string& page, const std::string& term, std::string_view help) {
  page += fmt::format(".TP\n{}\n{}\n", term, roff_text(help));
}

std::vector<std::string> groups_of(const Json& options) {
  std::vector<std::string> groups;
  for (const Json& option : options.items())
    if (std::ranges::find(groups, option.at("group").as_string()) == groups.end())
      groups.push_back(option.at("group").as_string());
  return groups;
}

void add_options(std::string& page, const Json& verb) {
  if (verb.at("arguments").size() > 0) page += ".SS Arguments\n";
  for (const Json& argument : verb.at("arguments").items())
    add_item(page, usage_of_argument(argument), argument.at("help").as_string());
  for (const std::string& group : groups_of(verb.at("options"))) {
    page += fmt::format(".SS \"{}\"\n", roff_text(group));
    for (const Json& option : verb.at("options").items()) {
      if (option.at("group").as_string() != group) continue;
      const std::string& value = option.at("value").as_string();
      add_item(page,
               bold(option.at("name").as_string()) +
                   (value.empty() ? std::string() : fmt::format(" {}", italic(value))),
               option.at("help").as_string());
    }
  }
}

// As --help shows it: lines stay lines.
void add_examples(std::string& page, const Json& verb) {
  page += fmt::format(".PP\n.nf\n{}\n.fi\n", roff_text(verb.at("examples").as_string()));
}

std::string command_of(const Json& verb, bool plans) {
  return plans ? "planner" : fmt::format("planner {}", verb.at("name").as_string());
}

void add_synopsis(std::string& page, const Json& verb, bool plans) {
  page += ".br\n" + bold(command_of(verb, plans));
  for (const Json& argument : verb.at("arguments").items())
    page += ' ' + usage_of_argument(argument);
  page += fmt::format(" [{}]...\n", italic("OPTION"));
}

}  // namespace

std::string roff_text(std::string_view text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    switch (c) {
      case '\\': out += "\\e"; break;
      case '-': out += "\\-"; break;
      case '\'': out += "\\(aq"; break;
      case '`': out += "\\(ga"; break;
      case '^': out += "\\(ha"; break;
      case '~': out += "\\(ti"; break;
      case '"': out += "\\(dq"; break;
      default: out += c;
    }
    line_begins = c == '\n';
  }
  return out;
}

std::string man_page(const Json& verbs, std::string_view version) {
  PLANNER_CHECK(verbs.size() > 0, "the verb plan");
  const Json& plan = verbs.items().front();
  std::string page = fmt::format(
      ".\\\" Written by: planner help --man\n.TH PLANNER 1 \"\" \"planner {}\" \"User Commands\"\n"
      ".SH NAME\nplanner \\- plan, simulate and run the training of large models\n.SH SYNOPSIS\n",
      roff_text(version));
  for (const Json& verb : verbs.items()) add_synopsis(page, verb, &verb == &plan);
  page += fmt::format(".SH DESCRIPTION\n{}\n", roff_text(plan.at("purpose").as_string()));
  add_examples(page, plan);
  page += ".SH OPTIONS\n";
  add_options(page, plan);
  for (const Json& verb : verbs.items()) {
    if (&verb == &plan) continue;
    page += fmt::format(".SH \"{}\"\n{}\n", roff_text(upper(command_of(verb, false))),
                        roff_text(verb.at("purpose").as_string()));
    add_examples(page, verb);
    add_options(page, verb);
  }
  page += fmt::format(".SH \"EXIT STATUS\"\n{}", roff_text(kExitCodes));
  page += ".SH ENVIRONMENT\n";
  add_item(page, bold("COLUMNS"), "width of text, instead of the terminal's");
  add_item(page, bold("NO_COLOR"), "if set, no colour on a terminal");
  add_item(page, bold("PLANNER_SECRET"),
           "what processes of one run prove to each other (exec over several machines)");
  page += ".SH \"SEE ALSO\"\nThe guide and the formats of files, in the folder "
          "share/doc/planner beside bin.\n";
  return page;
}

}  // namespace cli
