#pragma once
// Text that a stranger may have written: names and strings of files, words of the command line.
// Readers refuse hidden characters in names (hidden_in). Whoever writes such a text into another
// language passes it through the encoder of that language, so that it stays data there. Pure;
// thread-safe.
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

// The first hidden character of a text in words, "the character U+001B" or "the byte 0xff, which is
// not UTF-8"; nothing where all of them can be seen.
std::optional<std::string> hidden_in(std::string_view text);

// For a terminal, a log, or a comment of one line in a script: hidden characters become \x1b or
// \u202e. Everything else stays, backslashes too.
std::string visible(std::string_view text);

// One word of a POSIX shell. A plain text stays as it is; anything else is put in single quotes.
std::string shell_word(std::string_view text);

// A TOML basic string with its quotes.
std::string toml_string(std::string_view text);

}  // namespace core
