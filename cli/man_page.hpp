#pragma once
// The manual page planner(1), in the macros of man(7), from what the verbs say of themselves
// (`planner help --json`): the descriptions of --help and of docs/cli.md. Pure; thread-safe.

#include <string>
#include <string_view>

#include "core/json.hpp"

namespace cli {

// What each exit code means, as sentences; docs/cli.md prints it too.
inline constexpr std::string_view kExitCodes =
    "Exit codes: 0 done; 1 a valid question whose answer is no; 2 bad input; 3 failed while\n"
    "running; 130 interrupted.\n";

// verbs: an array, its first element the verb `plan`. REQUIRES: elements as OptionSet writes them.
std::string man_page(const core::Json& verbs, std::string_view version);

// Text as roff prints it letter by letter: no line of it is a request, no backslash an escape, and
// a hyphen is the one that can be typed.
std::string roff_text(std::string_view text);

}  // namespace cli
