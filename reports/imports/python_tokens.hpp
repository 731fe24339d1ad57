#pragma once
// Internal to imports/: the words of a Python file, which is read as text and never run. Pure;
// thread-safe.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace reports::imports {

struct PythonToken {
  // opaque: a literal whose value this reader does not work out, as f"{x}", b"x", "\x41" and 2j.
  enum class Kind : std::uint8_t { name, number, text, opaque, op, newline, indent, dedent, end };
  Kind kind;
  std::string_view source;  // as it stands in the file
  std::string text{};       // of Kind::text: its value
  int line = 0;
  // Of a bracket and of an indent: the place of the token that closes it, and the other way round.
  std::size_t partner = 0;

  bool is(std::string_view word) const {
    return source == word && (kind == Kind::op || kind == Kind::name);
  }
};

// Ends with Kind::end. Problems, each with its line: a text or a bracket that nothing closes, a
// line whose indentation fits no line above it, a character that Python does not have; more than
// 262,144 tokens, 32 levels of indentation or 48 of brackets. O(text).
core::Result<std::vector<PythonToken>> python_tokens(std::string_view text,
                                                     const std::string& name);

}  // namespace reports::imports
