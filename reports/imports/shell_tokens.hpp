#pragma once
// Internal to imports/: a shell script cut into words and operators. Words keep their quotes and
// dollar signs, which shell_expand.hpp replaces. Pure; thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace reports::imports {

struct ShellToken {
  enum class Kind : std::uint8_t { word, operator_, newline, array };
  Kind kind = Kind::word;
  std::string text;                    // of a word as written; of an array "NAME" or "NAME+"
  std::vector<ShellToken> items;       // of an array
  int line = 0;
};

// Comments, joined lines and here-documents are gone. Problems: a quote or bracket that nothing
// closes, with the line where it opens.
core::Result<std::vector<ShellToken>> shell_tokens(std::string_view text, std::string_view name);

// The end of what opens at `at` ("'", "\"", "`", "$(", "${", "$((" ): the place behind its close;
// npos where nothing closes it, or where more than kMostNested such lie in each other.
inline constexpr int kMostNested = 64;
std::size_t shell_closed(std::string_view text, std::size_t at, int depth = 0);

bool is_shell_name(std::string_view text);

}  // namespace reports::imports
