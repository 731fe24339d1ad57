#include "core/result.hpp"

#include <algorithm>
#include <cctype>
#include <numeric>

#include "core/untrusted.hpp"

namespace core {

std::string to_text(const Problem& p) {
  if (!p.statement.empty()) return p.statement;
  std::string text = p.where;
  if (!text.empty()) text += ": ";
  text += "expected " + p.expected;
  if (!p.found.empty()) text += ", found " + p.found;
  if (!p.fix.empty()) text += "; " + p.fix;
  return visible(text);
}

std::string to_text(const Problems& problems) {
  std::string text;
  for (const Problem& p : problems) text += to_text(p) + "\n";
  return text;
}

int exit_code(const Problems& problems) {
  const bool running = std::any_of(problems.begin(), problems.end(), [](const Problem& p) {
    return p.kind == ProblemKind::failed_running;
  });
  return running ? 3 : 2;
}

// Edit distance in which two neighbouring characters may change places for one edit (optimal string
// alignment). O(|a| |b|) time, O(|b|) space.
static std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1), last(b.size() + 1), row(b.size() + 1);
  std::iota(last.begin(), last.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const bool same = a[i - 1] == b[j - 1];
      row[j] = std::min({last[j] + 1, row[j - 1] + 1, last[j - 1] + (same ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    before.swap(last);
    last.swap(row);
  }
  return last.back();
}

// Whether `part` is in `text`, beginning and ending where a word does: "gpus" in "--num-gpus".
static bool is_words_of(std::string_view part, std::string_view text) {
  const auto ends_word = [&](std::size_t at) {
    if (at == 0 || at >= text.size()) return true;
    return !std::isalnum(static_cast<unsigned char>(text[at - 1])) ||
           !std::isalnum(static_cast<unsigned char>(text[at]));
  };
  const std::size_t at = text.find(part);
  return at != text.npos && ends_word(at) && ends_word(at + part.size());
}

std::string_view nearest(std::string_view text, const std::vector<std::string_view>& candidates) {
  text = text.substr(0, 64);
  std::string_view best, within;
  std::size_t best_distance = std::max<std::size_t>(2, text.size() / 3) + 1;
  for (std::string_view c : candidates) {
    const std::size_t d = distance(text, c);
    const bool is_swap = std::is_permutation(c.begin(), c.end(), text.begin(), text.end());
    if (d < best_distance || (d == best_distance && is_swap)) best = c, best_distance = d;
    const std::string_view words = c.substr(std::min(c.find_first_not_of('-'), c.size()));
    if (words.size() > std::max<std::size_t>(within.size(), 2) && is_words_of(words, text))
      within = c;
  }
  return best_distance > 1 && !within.empty() ? within : best;
}

}  // namespace core
