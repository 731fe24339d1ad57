#include "reports/next_steps.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

namespace reports {
namespace {

constexpr int kLeastWords = 24;  // columns beside a command; with fewer the words stand below it

// Where options begin: blanks before a dash that no quote holds.
std::vector<std::string_view> options_of(std::string_view command) {
  std::vector<std::string_view> parts;
  std::size_t from = 0;
  bool quoted = false;
  for (std::size_t i = 0; i + 1 < command.size(); ++i) {
    if (command[i] == '\'') quoted = !quoted;
    if (quoted || command[i] != ' ' || command[i + 1] != '-') continue;
    parts.push_back(command.substr(from, i - from));
    from = i + 1;
  }
  parts.push_back(command.substr(from));
  return parts;
}

// The command on lines of the style's columns, as far as its options let it.
std::string broken(std::string_view command, TextStyle style) {
  constexpr std::string_view kGoesOn = " \\\n      ";
  constexpr std::size_t kRoomToGoOn = 2;
  const auto width = static_cast<std::size_t>(style.width);
  std::string text;
  std::size_t used = 2;
  for (const std::string_view part : options_of(command)) {
    if (!text.empty() && used + 1 + part.size() + kRoomToGoOn > width) {
      text += kGoesOn;
      used = 6 + part.size();
    } else {
      if (!text.empty()) text += ' ';
      used += part.size() + (text.empty() ? 0 : 1);
    }
    text += part;
  }
  return "  " + text + '\n';
}

}  // namespace

std::string next_steps_text(const std::vector<NextStep>& steps, TextStyle style) {
  if (steps.empty()) return "";
  std::string text = '\n' + painted("Next", Ink::heading, style) + '\n';
  std::size_t longest = 0;
  for (const NextStep& step : steps) longest = std::max(longest, step.command.text().size());
  if (static_cast<int>(longest) + 4 + kLeastWords <= style.width) {
    Table table({{"", Align::left}, {"", Align::left}});
    for (const NextStep& step : steps) table.add({step.command.text(), step.does});
    return text + table.text(style);
  }
  for (const NextStep& step : steps)
    text += broken(step.command, style) + wrapped(step.does, 4, 4, style);
  return text;
}

}  // namespace reports
