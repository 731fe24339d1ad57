#pragma once
// Text that a stranger may have written: names and strings of files, words of the command line.
// Readers refuse hidden characters in names (hidden_in). In another language such a text stays
// data: core::Code (code.hpp) takes it through that language's encoder alone. Pure; thread-safe.
//
// Hidden characters are those that a terminal or an editor acts on instead of showing them: C0 and
// C1 controls, delete, the controls of writing direction U+202A-202E and U+2066-2069, and bytes
// that are not UTF-8.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace core {

// Bytes of the well-formed UTF-8 sequence at the front of text (Unicode 15, table 3-7); 0: none.
// REQUIRES: text is not empty.
std::size_t utf8_length(std::string_view text);

// Of the sequence at the front of text, whose utf8_length is `length`.
char32_t code_point(std::string_view text, std::size_t length);

bool is_hidden(char32_t point);

// Calls seen(characters) for each well-formed sequence that can be seen, and hidden(point, is_byte)
// for every other character, or byte that is of none, in order.
template <class Seen, class Hidden>
void for_each_character(std::string_view text, Seen seen, Hidden hidden) {
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char32_t point =
        length > 0 ? code_point(text, length) : static_cast<unsigned char>(text.front());
    if (length == 0 || is_hidden(point))
      hidden(point, length == 0);
    else
      seen(text.substr(0, length));
    text.remove_prefix(length > 0 ? length : 1);
  }
}

// The first hidden character of a text in words, "the character U+001B" or "the byte 0xff, which is
// not UTF-8"; nothing where all of them can be seen.
std::optional<std::string> hidden_in(std::string_view text);

// For a terminal, a log, or a comment of one line in a script: hidden characters become \x1b or
// \u202e. Everything else stays, backslashes too.
std::string visible(std::string_view text);

}  // namespace core
