#include "core/csv.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "core/read_number.hpp"
#include "core/untrusted.hpp"

namespace core {
namespace {

// A quoted cell may hold lines and tabs.
std::string without_breaks(std::string text) {
  std::erase_if(text, [](char c) { return c == '\n' || c == '\r' || c == '\t'; });
  return text;
}

}  // namespace

// Splits the text into records. A record is one row: its fields and the line that it starts on.
class CsvParser {
 public:
  // A cell takes at least 32 bytes of memory, and a row that is refused takes some hundreds.
  static constexpr std::size_t kMostColumns = 4096, kMostCells = std::size_t{4} << 20,
                               kMostProblems = 1000;

  CsvParser(std::string_view text, std::string_view source, Problems* bad_rows)
      : text_(text), source_(source), bad_rows_(bad_rows) {
    if (text_.substr(0, 3) == "\xEF\xBB\xBF") at_ = 3;  // byte order mark
  }

  Result<CsvTable> parse() {
    CsvTable table;
    table.source_ = source_;
    std::vector<std::string> fields;
    while (at_ < text_.size()) {
      const int line = line_;
      fields.clear();
      if (!read_record(fields)) break;  // what follows a broken quote means nothing
      if (!within_limits(fields.size(), line)) return problems_;
      const bool blank = fields.size() == 1 && fields[0].empty();
      if (blank) continue;
      if (table.columns_.empty())
        table.columns_ = fields, header_holds_ = check_header(fields, line);
      else
        add_row(table, fields, line);
    }
    if (table.columns_.empty() && problems_.empty()) problem(1, "a header row", "an empty file");
    if (bad_rows_ != nullptr && header_holds_) *bad_rows_ = std::move(problems_);
    else if (!problems_.empty()) return problems_;
    return table;
  }

 private:
  bool within_limits(std::size_t fields, int line) {
    cells_ += fields;
    if (fields > kMostColumns)
      problem(line, fmt::format("at most {} columns", kMostColumns), "more");
    else if (cells_ > kMostCells)
      problem(line, fmt::format("at most {} cells", kMostCells), "more", "divide the file");
    else if (problems_.size() >= kMostProblems)
      problem(line, fmt::format("fewer than {} bad rows", kMostProblems), "more of them");
    else
      return true;
    return false;
  }

  // Leaves at_ at the start of the next line, or within a line that has too many columns.
  bool read_record(std::vector<std::string>& fields) {
    while (true) {
      fields.emplace_back();
      if (at_ < text_.size() && text_[at_] == '"') {
        if (!read_quoted(fields.back())) return false;
      } else {
        const std::size_t end = std::min(text_.find_first_of(",\r\n", at_), text_.size());
        fields.back() = text_.substr(at_, end - at_);
        at_ = end;
      }
      if (at_ == text_.size()) return true;
      const char c = text_[at_++];
      if (c == ',' && fields.size() > kMostColumns) return true;
      if (c == ',') continue;
      if (c == '\r' && at_ < text_.size() && text_[at_] == '\n') ++at_;
      ++line_;
      return true;
    }
  }

  bool read_quoted(std::string& field) {
    const int line = line_;
    for (++at_; at_ < text_.size(); ++at_) {
      if (text_[at_] == '"' && text_.substr(at_ + 1, 1) != "\"") {
        const std::string_view next = text_.substr(++at_, 1);
        if (next.empty() || next.find_first_of(",\r\n") == 0) return true;
        problem(line_, "a comma or the end of the line after a closing quote",
                fmt::format("'{}'", next), "write a quote inside a field twice: \"\"");
        return false;
      }
      if (text_[at_] == '"') ++at_;  // "" is one quote
      if (text_[at_] == '\n') ++line_;
      field += text_[at_];
    }
    problem(line, "a closing quote", "the end of the file");
    return false;
  }

  bool check_header(const std::vector<std::string>& names, int line) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i].empty())
        problem(line, fmt::format("a name for column {}", i + 1), "an empty cell");
      else if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i),
                         names[i]) != names.begin() + static_cast<std::ptrdiff_t>(i))
        problem(line, fmt::format("column \"{}\" once", names[i]), "it twice");
    }
    return problems_.empty();
  }

  void add_row(CsvTable& table, const std::vector<std::string>& fields, int line) {
    if (fields.size() != table.columns_.size()) {
      problem(line, fmt::format("{} fields, as in the header", table.columns_.size()),
              std::to_string(fields.size()));
      return;
    }
    for (std::size_t i = 0; i < fields.size(); ++i)
      if (const auto hidden = hidden_in(without_breaks(fields[i])); hidden) {
        problem(line, fmt::format("column {} without control characters", table.columns_[i]),
                *hidden, "remove the character");
        return;
      }
    table.cells_.push_back(fields);
    table.lines_.push_back(line);
  }

  void problem(int line, std::string expected, std::string found, std::string fix = "") {
    problems_.push_back({fmt::format("{}:{}", source_, line), std::move(expected),
                         std::move(found), std::move(fix)});
  }

  std::string_view text_;
  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::size_t cells_ = 0;
  bool header_holds_ = false;
  Problems problems_;
  Problems* bad_rows_;
};

Result<CsvTable> parse_csv(std::string_view text, std::string_view source_name,
                           Problems* bad_rows) {
  return CsvParser(text, source_name, bad_rows).parse();
}

std::vector<CsvRow> CsvTable::rows() const {
  std::vector<CsvRow> rows;
  for (std::size_t i = 0; i < cells_.size(); ++i) rows.emplace_back(*this, i);
  return rows;
}

bool CsvTable::has_column(std::string_view column) const {
  return std::find(columns_.begin(), columns_.end(), column) != columns_.end();
}

bool CsvTable::require_columns(const std::vector<std::string_view>& wanted,
                               Problems& problems) const {
  const std::size_t before = problems.size();
  for (std::string_view column : wanted) {
    if (has_column(column)) continue;
    const std::string_view near = nearest(column, {columns_.begin(), columns_.end()});
    problems.push_back({source_ + ":1", fmt::format("a column \"{}\"", column), "none",
                        near.empty() ? "" : fmt::format("is it \"{}\"?", near)});
  }
  return problems.size() == before;
}

int CsvRow::line() const { return table_->lines_[index_]; }

std::string_view CsvRow::text(std::string_view column) const {
  const auto& columns = table_->columns_;
  const auto at = std::find(columns.begin(), columns.end(), column);
  if (at == columns.end()) return {};
  return table_->cells_[index_][static_cast<std::size_t>(at - columns.begin())];
}

void CsvRow::problem(std::string_view column, std::string expected, std::string fix,
                     Problems& problems) const {
  const std::string_view cell = text(column);
  const std::string_view found = table_->has_column(column) ? "an empty cell" : "no such column";
  problems.push_back({fmt::format("{}:{} column {}", table_->source_, line(), column),
                      std::move(expected),
                      cell.empty() ? std::string(found) : fmt::format("\"{}\"", cell),
                      std::move(fix)});
}

bool CsvRow::required(std::string_view column, std::string& out, Problems& problems) const {
  const std::string_view cell = text(column);
  const bool one_line = !hidden_in(cell), good = !cell.empty() && one_line;
  if (good) out = cell;
  else problem(column, one_line ? "a text" : "a text of one line", "", problems);
  return good;
}

bool CsvRow::required(std::string_view column, bool& out, Problems& problems) const {
  const std::string_view cell = text(column);
  const bool yes = cell == "1" || cell == "true", no = cell == "0" || cell == "false";
  if (!yes && !no) problem(column, "0, 1, true or false", "", problems);
  else out = yes;
  return yes || no;
}

bool CsvRow::required(std::string_view column, std::int64_t& out, IntRange range,
                      Problems& problems) const {
  const auto number = number_in<std::int64_t>(text(column));
  const bool good = number && contains(range, *number);
  if (good) out = *number;
  else problem(column, to_text(range), "", problems);
  return good;
}

bool CsvRow::required(std::string_view column, double& out, NumberRange range,
                      Problems& problems) const {
  const auto number = number_in<double>(text(column));
  const bool good = number && contains(range, *number);
  if (good) out = *number;
  else problem(column, to_text(range), "", problems);
  return good;
}

}  // namespace core
