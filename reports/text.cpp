#include "reports/text.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/parse_units.hpp"

namespace reports {
namespace {

// Characters, not bytes.
int columns_of(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string blanks(int n) { return std::string(static_cast<std::size_t>(std::max(n, 0)), ' '); }

bool is_unit(std::string_view word) {
  constexpr std::array<std::string_view, 15> kUnits{
      "%", "ps", "ns", "us", "ms", "s", "min", "h", "d", "B", "KiB", "MiB", "GiB", "TiB", "USD"};
  const std::size_t letters = std::min(word.find_last_not_of(".,:;)") + 1, word.size());
  return std::ranges::find(kUnits, word.substr(0, letters)) != kUnits.end();
}

// A number and its unit are one word: "8.3 %" does not break between the two.
std::vector<std::string_view> words_of(std::string_view text) {
  const auto next_end = [&](std::size_t from) {
    return std::min(text.find_first_of(" \n", from), text.size());
  };
  std::vector<std::string_view> words;
  while (!text.empty()) {
    std::size_t end = next_end(0);
    const bool number = end > 0 && text[end - 1] >= '0' && text[end - 1] <= '9';
    if (number && end < text.size() && text[end] == ' ') {
      const std::size_t unit_end = next_end(end + 1);
      if (is_unit(text.substr(end + 1, unit_end - end - 1))) end = unit_end;
    }
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// The longest prefix of a word longer than `width` that ends in a comma and fits, else all of it.
std::string_view prefix_that_fits(std::string_view word, int width) {
  if (columns_of(word) <= width || width < 1) return word;
  const std::size_t comma = word.substr(0, static_cast<std::size_t>(width)).rfind(',');
  return comma == std::string_view::npos ? word : word.substr(0, comma + 1);
}

// Lines of at most `width` columns.
std::vector<std::string> lines_of(std::string_view text, int width, int first_width) {
  std::vector<std::string> lines{""};
  int room = first_width;
  for (std::string_view word : words_of(text)) {
    bool same_word = false;
    while (!word.empty()) {
      const std::string_view part = prefix_that_fits(word, width);
      std::string& line = lines.back();
      const int needed = columns_of(part) + (line.empty() || same_word ? 0 : 1);
      if (!line.empty() && columns_of(line) + needed > room) {
        lines.emplace_back(part);
        room = width;
      } else {
        if (!line.empty() && !same_word) line += ' ';
        line += part;
      }
      word.remove_prefix(part.size());
      same_word = true;
    }
  }
  return lines;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    lines.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return lines;
}

// Characters that show: escapes of colour do not.
int shown_columns(std::string_view text) {
  int hidden = 0;
  for (std::size_t at = text.find('\033'); at != std::string_view::npos;
       at = text.find('\033', at + 1))
    hidden += static_cast<int>(std::min(text.find('m', at), text.size() - 1) - at + 1);
  return columns_of(text) - hidden;
}

constexpr std::string_view kEighths[] = {"\u258f", "\u258e", "\u258d", "\u258c",
                                        "\u258b", "\u258a", "\u2589"};

}  // namespace

int widest_line(std::string_view text) {
  int widest = 0;
  for (std::string_view line : split_lines(text)) widest = std::max(widest, shown_columns(line));
  return widest;
}

std::string painted(std::string_view text, Ink ink, TextStyle style) {
  if (!style.colour || ink == Ink::plain) return std::string(text);
  const char* code = ink == Ink::heading ? "1" : ink == Ink::good ? "32" : ink == Ink::bad ? "31"
                                                                                          : "2";
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

std::string painted_lines(std::string_view text, Ink ink, TextStyle style) {
  std::string result;
  for (std::string_view line : split_lines(text)) result += painted(line, ink, style) + '\n';
  return result;
}

std::string wrapped(std::string_view text, int first, int rest, TextStyle style) {
  std::string result;
  int indent = first;
  for (const std::string& line : lines_of(text, style.width - rest, style.width - first)) {
    result += blanks(indent) + line + '\n';
    indent = rest;
  }
  return result;
}

std::string beside(std::string_view left, std::string_view right, int gap, TextStyle style) {
  const auto a = split_lines(left), b = split_lines(right);
  const int start = widest_line(left) + gap;
  if (start + widest_line(right) > style.width)
    return std::string(left) + (left.empty() || right.empty() ? "" : "\n") + std::string(right);
  std::string result;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    std::string line(i < a.size() ? a[i] : std::string_view());
    if (i < b.size() && !b[i].empty())
      line += blanks(start - shown_columns(line)) + std::string(b[i]);
    result += line + '\n';
  }
  return result;
}

void Table::add(std::vector<std::string> cells) {
  PLANNER_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
  inks_.push_back(Ink::plain);
}

void Table::paint_last(Ink ink) { inks_.back() = ink; }

std::vector<int> Table::widths() const {
  std::vector<int> widths;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    int width = columns_of(columns_[c].title);
    for (const auto& row : rows_) width = std::max(width, columns_of(row[c]));
    widths.push_back(width);
  }
  return widths;
}

std::string Table::row_text(const std::vector<std::string>& cells,
                            const std::vector<int>& widths, TextStyle style) const {
  std::string line;
  int used = 0;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    line += "  ";
    used += 2;
    const bool last = c + 1 == cells.size();
    if (last && columns_[c].align == Align::left) {
      const int room = std::max(style.width - used, 20);
      const std::vector<std::string> parts = lines_of(cells[c], room, room);
      for (std::size_t i = 0; i < parts.size(); ++i) {
        if (i > 0) line.append(1, '\n').append(blanks(used));
        line += parts[i];
      }
      break;
    }
    const std::string gap = blanks(widths[c] - columns_of(cells[c]));
    line += columns_[c].align == Align::left ? fmt::format("{}{}", cells[c], gap)
                                             : fmt::format("{}{}", gap, cells[c]);
    used += widths[c];
  }
  while (!line.empty() && line.back() == ' ') line.pop_back();
  return line + '\n';
}

std::string Table::text(TextStyle style) const {
  const std::vector<int> column_widths = widths();
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::string head = row_text(titles, column_widths, style);
  if (head == "\n") head.clear();  // a table without titles
  std::string result = head.empty() ? head : painted_lines(head, Ink::faint, style);
  for (std::size_t i = 0; i < rows_.size(); ++i)
    result += painted_lines(row_text(rows_[i], column_widths, style), inks_[i], style);
  return result;
}

std::string energy_text(double joules) {
  double amount = joules / 3600;
  std::string_view unit = "Wh";
  for (const std::string_view larger : {"kWh", "MWh", "GWh", "TWh"}) {
    if (std::abs(amount) < 999.5) break;
    amount /= 1000;
    unit = larger;
  }
  return fmt::format("{:.3g} {}", amount, unit);
}

int bar_width(TextStyle style) { return style.wide() ? 40 : std::clamp(style.width - 48, 8, 32); }

Table share_table() { return Table({{"", Align::left}, {""}, {""}, {"", Align::left}}); }

void add_share(Table& table, std::string_view name, std::string figure, double share,
               TextStyle style) {
  table.add({std::string(name), std::move(figure), percent_text(share),
             bar(share, bar_width(style), style)});
}

std::string bar(double fraction, int width, TextStyle style) {
  const double clamped = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0;
  const int parts = style.unicode ? 8 : 1;
  int filled = static_cast<int>(std::lround(clamped * width * parts));
  if (clamped > 0) filled = std::max(filled, 1);
  std::string text;
  for (int i = 0; i < filled / parts; ++i) text += style.unicode ? "\u2588" : "#";
  int used = filled / parts;
  if (filled % parts > 0) {
    text += kEighths[static_cast<std::size_t>(filled % parts - 1)];
    ++used;
  }
  for (; used < width; ++used) text += style.unicode ? "\u00b7" : ".";
  return text;
}

std::string percent_text(double fraction) {
  const double percent = fraction * 100;
  const double size = std::abs(percent);
  const int digits = size < 0.995 && size > 0 ? 2 : size < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} %", percent, digits);
}

std::string number_text(double number) {
  const double size = std::abs(number);
  if (size >= 9e18) return fmt::format("{:.0f}", number);  // no count
  if (size >= 999'999.5) return core::count_text(std::llround(number));
  if (size >= 999.5) {
    const auto whole = std::llround(number);
    return fmt::format("{},{:03}", whole / 1000, std::abs(whole % 1000));
  }
  if (size < 1e-12) return "0";
  const int digits = std::max(0, 3 - static_cast<int>(std::floor(std::log10(size))));
  std::string text = fmt::format("{:.{}f}", number, digits);
  if (digits > 0) text.erase(std::min(text.find_last_not_of('0') + 1, text.size()));
  if (text.ends_with('.')) text.pop_back();
  return text;
}

std::string signed_percent_text(double fraction) {
  return fmt::format("{}{}", fraction > 0 ? "+" : "", percent_text(fraction));
}

}  // namespace reports
