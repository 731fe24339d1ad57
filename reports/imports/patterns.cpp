#include "reports/imports/patterns.hpp"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

#include "models/spec.hpp"

namespace reports::imports {
namespace {

constexpr std::size_t kMostSymbols = models::kMaxLayers * 4;
constexpr int kMostBrackets = 32;

// Symbols, and brackets around symbols, each perhaps "*N" times: both languages, which differ in
// what opens a bracket and in what stands between.
class Repeated {
 public:
  Repeated(std::string_view text, std::string_view symbols, std::string_view skipped)
      : text_(text), symbols_(symbols), skipped_(skipped) {}

  std::optional<std::string> all() {
    std::optional<std::string> row = sequence(0);
    return row && at_ == text_.size() ? row : std::nullopt;
  }

 private:
  void skip() {
    while (at_ < text_.size() && skipped_.find(text_[at_]) != std::string_view::npos) ++at_;
  }
  std::optional<std::string> sequence(int depth) {
    std::string row;
    for (skip(); at_ < text_.size() && text_[at_] != ')' && text_[at_] != ']'; skip()) {
      std::optional<std::string> part = one(depth);
      if (!part) return part;
      const std::size_t count = times();
      if (count == 0 || part->size() * count + row.size() > kMostSymbols) return std::nullopt;
      for (std::size_t i = 0; i < count; ++i) row += *part;
    }
    return row;
  }
  std::optional<std::string> one(int depth) {
    const char c = text_[at_++];
    if (c == '(' || c == '[') {
      if (depth > kMostBrackets) return std::nullopt;
      std::optional<std::string> inner = sequence(depth + 1);
      if (at_ >= text_.size() || text_[at_] != (c == '(' ? ')' : ']')) return std::nullopt;
      ++at_;
      return inner;
    }
    if (symbols_.find(c) == std::string_view::npos) return std::nullopt;
    return std::string(1, c);
  }
  // 1 where nothing multiplies; 0: no number.
  std::size_t times() {
    skip();
    if (at_ >= text_.size() || text_[at_] != '*') return 1;
    ++at_;
    skip();
    std::size_t count = 0;
    const auto [end, error] =
        std::from_chars(text_.data() + at_, text_.data() + text_.size(), count);
    at_ = static_cast<std::size_t>(end - text_.data());
    return error == std::errc() && count <= kMostSymbols ? count : 0;
  }

  std::string_view text_, symbols_, skipped_;
  std::size_t at_ = 0;
};

}  // namespace

std::optional<std::vector<bool>> layer_pattern(std::string_view text, std::int64_t layers,
                                               EveryNth every_nth) {
  std::vector<bool> pattern;
  if (text.find('[') == std::string_view::npos) {
    std::int64_t n = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
    if (error != std::errc() || end != text.data() + text.size() || n < 1) return std::nullopt;
    for (std::int64_t l = 0; l < layers; ++l)
      pattern.push_back(l % n == (every_nth == EveryNth::first ? 0 : n - 1));
    return pattern;
  }
  const std::optional<std::string> row = Repeated(text, "01", " ,+").all();
  if (!row || std::cmp_not_equal(row->size(), layers)) return std::nullopt;
  for (const char c : *row) pattern.push_back(c == '1');
  return pattern;
}

std::optional<Layout> pipeline_layout(std::string_view text) {
  const std::optional<std::string> row = Repeated(text, "Etm|L", " ,").all();
  if (!row) return std::nullopt;
  Layout layout;
  layout.layers.push_back(0);
  bool module = false;
  for (const char c : *row) {
    if (c == '|') layout.layers.push_back(0);
    if (c == '|') layout.others = layout.others || module;
    if (c == 't') ++layout.layers.back();
    module = module || c == 'm';
  }
  return layout;
}

}  // namespace reports::imports
