#pragma once
// Plain text for a terminal of 80 columns: headings, wrapped paragraphs, tables, bars. Colour is
// ANSI and only where asked for. Pure functions; thread-safe.

#include <string>
#include <string_view>
#include <vector>

namespace reports {

inline constexpr int kWidth = 80;

struct TextStyle {
  bool colour = false;
};

enum class Ink { plain, heading, good, bad, faint };
// The text in that ink, or as it is without colour.
std::string painted(std::string_view text, Ink ink, TextStyle style);

// Words of the text on lines of at most kWidth columns, the first indented by `first` and the
// others by `rest`; a word longer than a line stands alone. Ends with a newline.
std::string wrapped(std::string_view text, int first, int rest);

enum class Align { left, right };
struct Column {
  std::string title;
  Align align = Align::right;
};

// Columns two blanks apart, indented by two. The last column, when it is left-aligned, takes what
// is left of the line and wraps inside itself; the others are as wide as their widest cell.
class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}
  // REQUIRES: one cell per column.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  std::string text() const;

 private:
  std::vector<int> widths() const;
  std::string row_text(const std::vector<std::string>& cells, const std::vector<int>& widths) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// `width` columns of which the fraction (clamped to [0, 1]) is filled: "######....".
std::string bar(double fraction, int width);

// "12.3 %", "0.46 %", "-3.1 %".
std::string percent_text(double fraction);

}  // namespace reports
