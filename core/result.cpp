#include "core/result.hpp"

#include <algorithm>
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

// Levenshtein distance, O(|a| |b|) time and O(|b|) space.
static std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replace = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replace});
    }
  }
  return row.back();
}

std::string_view nearest(std::string_view text, const std::vector<std::string_view>& candidates) {
  std::string_view best;
  std::size_t best_distance = std::max<std::size_t>(2, text.size() / 3) + 1;
  for (std::string_view c : candidates) {
    const std::size_t d = distance(text.substr(0, 64), c);
    if (d < best_distance) best = c, best_distance = d;
  }
  return best;
}

}  // namespace core
