#pragma once
// Text in another language: a script, a manifest, a configuration, a page, a command to copy. It is
// made of this program's own literals and of words that anybody may have written (the model's name
// in a plan). A literal is a constant of the program; a word gets in through the encoder of the
// place where it stands, and by no other way: formatting a plain text into code does not compile.
// Pure; thread-safe.

#include <cstddef>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include <fmt/format.h>

#include "core/json.hpp"

namespace core {

class Code {
 public:
  Code() = default;
  // A literal of the program, as it stands.
  template <std::size_t kSize>
  Code(const char (&literal)[kSize]) : text_(literal, kSize - 1) {}
  // A text of the program's own tables: names of its enumerations, files that are compiled in.
  // Never a text of a file or of the command line.
  static Code own(std::string_view text) { return Code(std::string(text)); }

  // Encoders, by the place where a word stands.
  // One word of bash; of any POSIX shell where no character is hidden.
  static Code shell(std::string_view word);
  static Code toml(std::string_view text);   // a basic string with its quotes
  static Code yaml(std::string_view text);   // a scalar: plain where that is the text, else quoted
  static Code html(std::string_view text);   // between tags, or within an attribute's quotes
  static Code markdown(std::string_view text);  // text, or a cell of a table: it stays on its line
  // A field of CSV, quoted where it must be [rfc4180]. A text that a spreadsheet would take for a
  // formula (its first character is one of = + - @) gets a single quote in front.
  static Code csv(std::string_view text);
  static Code comment(std::string_view text);  // the rest of a line that is a comment already
  static Code json(const Json& value, int indent = 2);
  // JSON for a script element of a page: no text in it can end the element.
  static Code script(const Json& value);

  const std::string& text() const { return text_; }
  operator std::string_view() const { return text_; }
  bool empty() const { return text_.empty(); }

  Code& operator+=(const Code& more) {
    text_ += more.text_;
    return *this;
  }
  friend Code operator+(Code a, const Code& b) { return std::move(a += b); }
  friend bool operator==(const Code&, const Code&) = default;
  // Every line moved right by so many blanks, empty ones as they are.
  Code indented(int blanks) const;

  // What an encoder made.
  template <class... Args>
  friend Code code(fmt::format_string<Args...> text, Args&&... args);

 private:
  explicit Code(std::string text) : text_(std::move(text)) {}
  std::string text_;
};

// What can stand in code as it is: code, and numbers.
template <class T>
concept CodeArgument =
    std::is_arithmetic_v<std::remove_cvref_t<T>> || std::is_same_v<std::remove_cvref_t<T>, Code>;

// As fmt::format. The text is a constant of the program.
template <class... Args>
Code code(fmt::format_string<Args...> text, Args&&... args) {
  static_assert((CodeArgument<Args> && ...),
                "a text gets into code through an encoder of core::Code alone");
  return Code(fmt::format(text, std::forward<Args>(args)...));
}

// A row of a table, newline at the end: code and numbers as they are, texts through the encoder.
template <class... Cells>
Code markdown_row(const Cells&... cells) {
  Code row = "|";
  const auto add = [&](const auto& cell) {
    if constexpr (CodeArgument<decltype(cell)>)
      row += code(" {} |", cell);
    else
      row += code(" {} |", Code::markdown(cell));
  };
  (add(cells), ...);
  return row + "\n";
}
template <class... Cells>
Code csv_row(const Cells&... cells) {
  Code row;
  bool first = true;
  const auto add = [&](const auto& cell) {
    if (!first) row += ",";
    first = false;
    if constexpr (CodeArgument<decltype(cell)>)
      row += code("{}", cell);
    else
      row += Code::csv(cell);
  };
  (add(cells), ...);
  return row + "\n";
}

}  // namespace core

template <>
struct fmt::formatter<core::Code> : fmt::formatter<std::string_view> {
  template <class Context>
  auto format(const core::Code& code, Context& context) const {
    return fmt::formatter<std::string_view>::format(code.text(), context);
  }
};
