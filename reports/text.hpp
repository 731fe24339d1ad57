#pragma once
// Plain text for a terminal: headings, wrapped paragraphs, tables, bars, blocks side by side, in
// the columns of its style. Colour is ANSI and only where asked for, block characters only where
// the reader's locale has them. Widths count characters of UTF-8. Pure functions; thread-safe.

#include <string>
#include <string_view>
#include <vector>

namespace reports {

inline constexpr int kWidth = 80;         // where nobody says how wide the reader's terminal is
inline constexpr int kMinWidth = 60;      // narrower terminals wrap by themselves
inline constexpr int kMaxWidth = 200;     // longer lines lose the eye
inline constexpr int kWideWidth = 140;    // from here a page has more columns

struct TextStyle {
  bool colour = false;
  bool unicode = false;
  int width = kWidth;
  bool wide() const { return width >= kWideWidth; }
};

enum class Ink { plain, heading, good, bad, faint };
// The text in that ink, or as it is without colour.
std::string painted(std::string_view text, Ink ink, TextStyle style);

// Each line by itself, so that blocks of lines can stand beside each other.
std::string painted_lines(std::string_view lines, Ink ink, TextStyle style);

// Words of the text on lines of at most the style's columns, the first indented by `first` and the
// others by `rest`; a word longer than a line breaks after a comma, else stands alone. Ends with a
// newline.
std::string wrapped(std::string_view text, int first, int rest, TextStyle style = {});

// Columns that the widest line of the text takes on a terminal; colours take none.
int widest_line(std::string_view text);

// Two blocks of lines next to each other, a gap of `gap` between them, when both fit the style's
// columns; else one below the other with an empty line between.
std::string beside(std::string_view left, std::string_view right, int gap, TextStyle style);

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
  std::string text(TextStyle style = {}) const;
  // The last row added is printed in this ink.
  void paint_last(Ink ink);

 private:
  std::vector<int> widths() const;
  std::string row_text(const std::vector<std::string>& cells, const std::vector<int>& widths,
                       TextStyle style) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<Ink> inks_;  // one per row
};

// `width` columns of which the fraction (clamped to [0, 1]) is filled: "######....", or in eighths
// of a block where the style has Unicode. Anything above nothing shows.
std::string bar(double fraction, int width, TextStyle style = {});

// "12.3 %", "0.46 %", "-3.1 %".
std::string percent_text(double fraction);
// The same with its sign, + too: "+3.1 %".
std::string signed_percent_text(double fraction);

// Any number, never in e-notation: four significant digits below 1,000 ("0.01235", "12.35"),
// thousands in full ("6,348"), from a million on as a count ("1.23 M").
std::string number_text(double number);

// Joules in the largest of Wh, kWh ... TWh that is at most the energy: "1.42 MWh".
std::string energy_text(double joules);

// Width of such a bar in a block of names and figures.
int bar_width(TextStyle style);
// Parts of a whole, one a row: its name, the figure, its share, and a bar of that.
Table share_table();
void add_share(Table& table, std::string_view name, std::string figure, double share,
               TextStyle style);

}  // namespace reports
