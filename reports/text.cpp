#include "reports/text.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/check.hpp"

namespace reports {
namespace {

// Characters, not bytes.
int columns_of(std::string_view text) {
  return static_cast<int>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string blanks(int n) { return std::string(static_cast<std::size_t>(std::max(n, 0)), ' '); }

std::vector<std::string_view> words_of(std::string_view text) {
  std::vector<std::string_view> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find_first_of(" \n"), text.size());
    if (end > 0) words.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

// Lines of at most `width` columns.
std::vector<std::string> lines_of(std::string_view text, int width, int first_width) {
  std::vector<std::string> lines{""};
  int room = first_width;
  for (std::string_view word : words_of(text)) {
    std::string& line = lines.back();
    const int needed = columns_of(word) + (line.empty() ? 0 : 1);
    if (!line.empty() && columns_of(line) + needed > room) {
      lines.emplace_back(word);
      room = width;
    } else {
      if (!line.empty()) line += ' ';
      line += word;
    }
  }
  return lines;
}

}  // namespace

std::string painted(std::string_view text, Ink ink, TextStyle style) {
  if (!style.colour || ink == Ink::plain) return std::string(text);
  const char* code = ink == Ink::heading ? "1" : ink == Ink::good ? "32" : ink == Ink::bad ? "31"
                                                                                          : "2";
  return fmt::format("\033[{}m{}\033[0m", code, text);
}

std::string wrapped(std::string_view text, int first, int rest) {
  std::string result;
  int indent = first;
  for (const std::string& line : lines_of(text, kWidth - rest, kWidth - first)) {
    result += blanks(indent) + line + '\n';
    indent = rest;
  }
  return result;
}

void Table::add(std::vector<std::string> cells) {
  PLANNER_CHECK(cells.size() == columns_.size());
  rows_.push_back(std::move(cells));
}

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
                            const std::vector<int>& widths) const {
  std::string line;
  int used = 0;
  for (std::size_t c = 0; c < cells.size(); ++c) {
    line += "  ";
    used += 2;
    const bool last = c + 1 == cells.size();
    if (last && columns_[c].align == Align::left) {
      const int room = std::max(kWidth - used, 20);
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

std::string Table::text() const {
  const std::vector<int> column_widths = widths();
  std::vector<std::string> titles;
  for (const Column& column : columns_) titles.push_back(column.title);
  std::string result = row_text(titles, column_widths);
  if (result == "\n") result.clear();  // a table without titles
  for (const auto& row : rows_) result += row_text(row, column_widths);
  return result;
}

std::string bar(double fraction, int width) {
  const double clamped = std::isfinite(fraction) ? std::clamp(fraction, 0.0, 1.0) : 0;
  const auto filled = static_cast<std::size_t>(std::lround(clamped * width));
  return std::string(filled, '#') + std::string(static_cast<std::size_t>(width) - filled, '.');
}

std::string percent_text(double fraction) {
  const double percent = fraction * 100;
  const double size = std::abs(percent);
  const int digits = size < 0.995 && size > 0 ? 2 : size < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} %", percent, digits);
}

}  // namespace reports
