#include "core/code.hpp"

#include <array>
#include <cctype>

#include "core/untrusted.hpp"

namespace core {
namespace {

constexpr std::string_view kLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

bool is_made_of(std::string_view text, std::string_view letters, std::string_view others) {
  for (const char c : text)
    if (letters.find(c) == std::string_view::npos && others.find(c) == std::string_view::npos)
      return false;
  return true;
}

// Whether YAML 1.1 and 1.2 both read it back as this text: no number, no truth value, no markup.
bool is_plain_yaml(std::string_view text) {
  constexpr std::array<std::string_view, 9> kOther{"true", "false", "null", "yes", "no",
                                                   "on",   "off",   "y",    "n"};
  if (text.empty() || kLetters.find(text.front()) == std::string_view::npos) return false;
  std::string lower(text);
  for (char& c : lower)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  for (const std::string_view other : kOther)
    if (lower == other) return false;
  return text.back() != ':' && is_made_of(text, kLetters, "0123456789_-./:@");
}

}  // namespace

Code Code::shell(std::string_view word) {
  if (!word.empty() && is_made_of(word, kLetters, "0123456789_-+./,:=@%"))
    return Code(std::string(word));
  // Hidden characters are bytes in bash's $'...': they reach no terminal as they are.
  const bool hides = hidden_in(word).has_value();
  std::string out = hides ? "$'" : "'";
  std::string_view left = word;
  while (!left.empty()) {
    const std::size_t length = utf8_length(left);
    const std::string_view character = left.substr(0, length > 0 ? length : 1);
    left.remove_prefix(character.size());
    if (length == 0 || is_hidden(code_point(character, length)))
      for (const char byte : character)
        out += fmt::format("\\x{:02x}", static_cast<unsigned char>(byte));
    else if (character == "'")
      out += hides ? "\\'" : "'\\''";
    else if (character == "\\" && hides)
      out += "\\\\";
    else
      out += character;
  }
  return Code(out + '\'');
}

Code Code::toml(std::string_view text) {
  std::string out = "\"";
  for_each_character(
      text,
      [&](std::string_view character) {
        if (character == "\"" || character == "\\") out += '\\';
        out += character;
      },
      [&](char32_t point, bool) { out += fmt::format("\\u{:04X}", static_cast<unsigned>(point)); });
  return Code(out + '"');
}

Code Code::yaml(std::string_view text) {
  return is_plain_yaml(text) ? Code(std::string(text)) : json(Json(text), 0);
}

Code Code::html(std::string_view text) {
  std::string out;
  for_each_character(
      text,
      [&](std::string_view character) {
        if (character == "&")
          out += "&amp;";
        else if (character == "<")
          out += "&lt;";
        else if (character == ">")
          out += "&gt;";
        else if (character == "\"")
          out += "&quot;";
        else if (character == "'")
          out += "&#39;";
        else
          out += character;
      },
      [&](char32_t point, bool) { out += point == '\n' ? "\n" : "\ufffd"; });
  return Code(std::move(out));
}

// What would be HTML there is written as a reference, what would be markup with a backslash.
Code Code::markdown(std::string_view text) {
  const std::string safe = html(text).text();
  const auto in_word = [&](std::size_t i) {  // an underscore there is no markup
    const auto letter = [&](std::size_t j) {
      return j < safe.size() && std::isalnum(static_cast<unsigned char>(safe[j])) != 0;
    };
    return i > 0 && letter(i - 1) && letter(i + 1);
  };
  std::string out;
  for (std::size_t i = 0; i < safe.size(); ++i) {
    const char c = safe[i];
    if (c == '\n')
      out += ' ';
    else if (c == '_' && !in_word(i))
      out += "\\_";
    else if (std::string_view("\\`*{}[]|~").find(c) != std::string_view::npos)
      out += {'\\', c};
    else
      out += c;
  }
  // Quotes harm nobody here.
  for (const auto& [from, to] : {std::pair{std::string_view("&quot;"), '"'}, {"&#39;", '\''}})
    for (std::size_t at = out.find(from); at != std::string::npos; at = out.find(from, at))
      out.replace(at, from.size(), 1, to);
  return Code(std::move(out));
}

Code Code::csv(std::string_view text) {
  constexpr std::string_view kStartsFormula = "=+-@";
  const std::string seen = visible(text);
  std::string out;
  if (!text.empty() && kStartsFormula.find(text.front()) != std::string_view::npos) out = '\'';
  for (const char c : seen) {
    if (c == '"') out += '"';
    out += c;
  }
  const bool quoted = out.find_first_of("\",") != std::string::npos;
  return Code(quoted ? fmt::format("\"{}\"", out) : out);
}

Code Code::comment(std::string_view text) {
  return Code(visible(text));
}

Code Code::json(const Json& value, int indent) {
  return Code(dump(value, indent));
}

Code Code::script(const Json& value) {
  const std::string text = dump(value, 0);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i, 3);
    if (text[i] == '<')
      out += "\\u003c";
    else if (text[i] == '>')
      out += "\\u003e";
    else if (text[i] == '&')
      out += "\\u0026";
    else if (rest == "\u2028" || rest == "\u2029")
      out += rest == "\u2028" ? "\\u2028" : "\\u2029", i += 2;
    else
      out += text[i];
  }
  return Code(std::move(out));
}

Code Code::indented(int blanks) const {
  std::string out;
  bool line_begins = true;
  for (const char c : text_) {
    if (line_begins && c != '\n') out.append(static_cast<std::size_t>(blanks), ' ');
    out += c;
    line_begins = c == '\n';
  }
  return Code(std::move(out));
}

}  // namespace core
