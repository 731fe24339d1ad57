#include "tests/fuzz/mutate.hpp"

#include <algorithm>
#include <array>
#include <string_view>

namespace fuzz {
namespace {

constexpr std::array<std::string_view, 52> kWords{
    "", "-", "--", "-0", "0", "-1", "1", "3", "7", "65536", "NaN", "inf", "-inf", "1e400", "1e-400",
    "1e18", "1.5", "0x10", "9223372036854775807", "9223372036854775808", "18446744073709551616",
    "24GiB", "50us", "1e30GiB", "-24GiB", "24 parsecs", "auto", "none", "true", "zero3", "fp8",
    "bf16", "nf4", "inference", "memory", "data=2", "data=3", "tensor=2", "pipeline=2",
    "stages=1,2,3", "offload=params", "a=b", "=", ",", "\xff\xfe\x80", "%s%n%d", "../../..",
    "/dev/null", "/nonexistent/x.json", "--json", "--pin", "--help"};

constexpr std::array<std::string_view, 20> kValues{
    "null", "true", "\"text\"", "[]", "{}", "0", "-0", "-1", "1", "0.5", "1e400", "-1e308", "1e308",
    "NaN", "Infinity", "9223372036854775807", "99999999999999999999", "1e-320", "\"\\ud800\"",
    "[1,2,3]"};

// Numbers that pass as counts: what they lead to is further in.
constexpr std::array<std::string_view, 16> kNumbers{"1",  "2",  "3",   "4",    "5",     "7",
                                                    "8",  "12", "48",  "64",   "1000",  "4096",
                                                    "65536", "1000000", "123456789", "0.25"};

std::string_view a_number(Dice& dice) { return kNumbers[dice.below(kNumbers.size())]; }

bool is_number(const std::string& word) {
  return !word.empty() && word.find_first_not_of("0123456789.") == std::string::npos;
}

std::size_t place(const std::string& text, Dice& dice) { return dice.below(text.size() + 1); }

void break_word(std::string& word, Dice& dice) {
  if (word.empty() || dice.below(4) == 0) {
    word.insert(place(word, dice), dice.below(8) == 0
                                       ? std::string(5000, 'a')
                                       : std::string(kWords[dice.below(kWords.size())]));
    return;
  }
  char& at = word[dice.below(word.size())];
  at = static_cast<char>(1 + dice.below(255));  // no argument holds a NUL
}

// First and past-the-end of the value after a random colon, roughly.
std::pair<std::size_t, std::size_t> a_value(const std::string& text, Dice& dice) {
  const std::size_t colon = text.find(':', place(text, dice));
  if (colon == std::string::npos) return {text.size(), text.size()};
  const std::size_t first = text.find_first_not_of(' ', colon + 1);
  if (first == std::string::npos) return {text.size(), text.size()};
  return {first, std::min(text.find_first_of(",}\n", first), text.size())};
}

std::string strange_value(Dice& dice) {
  constexpr std::size_t kDeep = 100'000, kLong = 200'000;
  switch (dice.below(24)) {
    case 0: return std::string(kDeep, '[');
    case 1: return std::string(kDeep, '[') + std::string(kDeep, ']');
    case 2: return '"' + std::string(kLong, 'a') + '"';
    case 3: return std::string(kLong, '9');
    default: return std::string(kValues[dice.below(kValues.size())]);
  }
}

// One digit becomes another or a few: what was valid mostly stays so.
void change_digit(std::string& text, Dice& dice) {
  const std::size_t at = text.find_first_of("0123456789", place(text, dice));
  if (at == std::string::npos) return;
  constexpr std::array<std::string_view, 6> kDigits{"0", "1", "9", "00", "17", "5"};
  text.replace(at, 1, kDigits[dice.below(kDigits.size())]);
}

void mutate_word(std::vector<std::string>& words, Dice& dice) {
  const std::size_t at = words.empty() ? 0 : dice.below(words.size());
  const auto it = words.begin() + static_cast<std::ptrdiff_t>(at);
  const std::string strange(kWords[dice.below(kWords.size())]);
  if (words.empty()) return words.push_back(strange);
  if (is_number(*it) || dice.below(3) == 0) return change_digit(*it, dice);
  switch (dice.below(12)) {
    case 0: words.erase(it); break;
    case 1: words.insert(it, *it); break;
    case 2: std::swap(*it, words[dice.below(words.size())]); break;
    case 3: words.insert(it, strange); break;
    case 4: break_word(*it, dice); break;
    default: *it = is_number(*it) && dice.below(2) == 0 ? std::string(a_number(dice)) : strange;
  }
}

void mutate_text(std::string& text, Dice& dice) {
  if (dice.below(2) == 0) return change_digit(text, dice);
  const std::size_t at = place(text, dice);
  const std::size_t length = std::min(dice.below(64), text.size() - at);
  switch (dice.below(12)) {
    case 0: text.resize(at); break;
    case 1: text.erase(at, length); break;
    case 2: text.insert(at, text.substr(at, length)); break;
    case 3:
      if (at < text.size()) text[at] = static_cast<char>(dice.below(256));
      break;
    default: {
      const auto [first, last] = a_value(text, dice);
      const bool number = is_number(text.substr(first, last - first));
      text.replace(first, last - first,
                   number && dice.below(2) == 0 ? std::string(a_number(dice))
                                                : strange_value(dice));
    }
  }
}

// First and past-the-end of a number or a text that is the value of a random key; nothing found:
// both the end.
std::pair<std::size_t, std::size_t> a_plain_value(const std::string& text, Dice& dice) {
  constexpr std::string_view kAfterKey = "\": ";
  constexpr int kTries = 20;
  for (int tries = 0; tries < kTries; ++tries) {
    const std::size_t key = text.find(kAfterKey, place(text, dice));
    if (key == std::string::npos) continue;
    const std::size_t first = key + kAfterKey.size();
    if (text[first] == '[' || text[first] == '{') continue;
    const std::size_t last = text.find_first_of(text[first] == '"' ? "\"" : ",}\n", first + 1);
    if (last == std::string::npos) continue;
    return {first, text[first] == '"' ? last + 1 : last};
  }
  return {text.size(), text.size()};
}

void lie(std::string& text, Dice& dice) {
  const auto [first, last] = a_plain_value(text, dice);
  if (first == last) return;
  const std::string value = text.substr(first, last - first);
  const auto [other_first, other_last] = a_plain_value(text, dice);
  const std::string other = text.substr(other_first, other_last - other_first);
  constexpr std::array<std::string_view, 8> kCounts{"0",  "1",    "2",       "3",
                                                    "64", "4096", "1000000", "1e18"};
  if (is_number(value) && dice.below(2) == 0)
    text.replace(first, last - first, kCounts[dice.below(kCounts.size())]);
  else if (!other.empty() && (other.front() == '"') == (value.front() == '"'))
    text.replace(first, last - first, other);
  else if (is_number(value))
    change_digit(text, dice);
}

}  // namespace

std::size_t Dice::below(std::size_t end) {
  state_ += 0x9e3779b97f4a7c15;  // splitmix64
  std::uint64_t z = state_;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return static_cast<std::size_t>((z ^ (z >> 31)) % end);
}

std::vector<std::string> mutate_words(std::vector<std::string> words, Dice& dice) {
  for (std::size_t i = 1 + dice.below(2); i > 0; --i) mutate_word(words, dice);
  return words;
}

std::string mutate_json(std::string text, Dice& dice) {
  for (std::size_t i = 1 + dice.below(3); i > 0; --i) mutate_text(text, dice);
  return text;
}

std::string lie_in_json(std::string text, Dice& dice) {
  for (std::size_t i = 1 + dice.below(3); i > 0; --i) lie(text, dice);
  return text;
}

}  // namespace fuzz
