#pragma once
// CSV (RFC 4180: comma, double quotes, CRLF or LF, quoted newlines) with a header row, read into
// cells that are asked for by column name. Problems carry the line and the column's name, and are
// collected. An empty cell means absent; blank lines are skipped. Value types; thread-compatible.
//
//   Result<CsvTable> table = parse_csv(text, "runs.csv");
//   table->require_columns({"id", "gpus"}, problems);
//   for (const CsvRow& row : table->rows()) {
//     row.required("gpus", gpus, at_least(1), problems);
//     row.optional("step_seconds", seconds, positive(), problems);   // false when empty
//   }

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/range.hpp"
#include "core/result.hpp"

namespace core {

class CsvTable;

// One row; refers to its table, which must outlive it and stay where it is.
class CsvRow {
 public:
  CsvRow(const CsvTable& table, std::size_t index) : table_(&table), index_(index) {}

  int line() const;  // of the row's first character
  bool has(std::string_view column) const { return !text(column).empty(); }
  // The cell; "" when it is empty or the table has no such column.
  std::string_view text(std::string_view column) const;

  // Reads the cell into out, and says whether it did. required: an empty cell is a problem.
  // optional: an empty cell leaves out as it is. bool: 0, 1, true, false.
  bool required(std::string_view column, std::string& out, Problems& problems) const;
  bool required(std::string_view column, bool& out, Problems& problems) const;
  bool required(std::string_view column, std::int64_t& out, IntRange range,
                Problems& problems) const;
  bool required(std::string_view column, double& out, NumberRange range, Problems& problems) const;
  template <class T, class... Rest>
  bool optional(std::string_view column, T& out, Rest&&... rest) const {
    return has(column) && required(column, out, rest...);
  }

  // Adds a problem at the cell.
  void problem(std::string_view column, std::string expected, std::string fix,
               Problems& problems) const;

 private:
  const CsvTable* table_;
  std::size_t index_;
};

class CsvTable {
 public:
  const std::string& source() const { return source_; }
  const std::vector<std::string>& columns() const { return columns_; }
  std::size_t size() const { return cells_.size(); }
  std::vector<CsvRow> rows() const;
  bool has_column(std::string_view column) const;

  // One problem per missing column, with the nearest one there is.
  bool require_columns(const std::vector<std::string_view>& wanted, Problems& problems) const;

 private:
  friend class CsvRow;
  friend class CsvParser;
  std::string source_;
  std::vector<std::string> columns_;
  std::vector<std::vector<std::string>> cells_;  // [row][column]
  std::vector<int> lines_;                       // of each row
};

// Refused: no header, a column named twice or not at all, a row of another length than the header
// (each such row is a problem), a cell with hidden characters (core/untrusted.hpp) other than tabs
// and line breaks (likewise), an unclosed quote, text after a closing quote. With bad_rows, rows
// of another length and after a broken quote go there and the others are the table. O(bytes).
Result<CsvTable> parse_csv(std::string_view text, std::string_view source_name,
                           Problems* bad_rows = nullptr);

}  // namespace core
