#pragma once
// Document: a file of this tool (plan/1, simulate/1, run/1, compare/1, validate/1, sweep/1), read
// and checked, with what it holds. Cells are made from it by JSON pointer, so that what a page
// prints is what the file says. Value type; thread-safe to read.

#include <optional>
#include <string>
#include <string_view>

#include "core/json.hpp"
#include "core/result.hpp"
#include "exec/record/run_record.hpp"
#include "planner/plan/plan.hpp"
#include "reports/html/page.hpp"

namespace reports::html {

enum class DocumentKind : std::uint8_t { plan, simulate, run, compare, validate, sweep };
std::string_view name(DocumentKind kind);

struct Document {
  std::string name;                    // its path
  std::size_t index = 0;               // among the page's files
  DocumentKind kind{};
  core::Json root;
  std::optional<planner::Plan> plan;   // of kind plan
  std::optional<exec::RunRecord> run;  // of kind run
};

// Problems: unreadable, no JSON, another schema (a newer version of a known one says so), or parts
// that a page needs and that are missing or of another kind, each with its place.
core::Result<Document> parse_document(std::string text, std::string_view source_name);

// money: USD; energy: joules.
enum class Unit : std::uint8_t { text, bytes, seconds, count, fraction, money, energy, number };

// A number as people read it: "18.3 GiB", "15.0 s", "2.4 %", "4,132", "1.42 MWh"; `-` for null.
std::string shown(const core::Json& value, Unit unit);

// The value at a JSON pointer; null where there is none.
const core::Json* at(const core::Json& root, std::string_view pointer);
// What the file says there; "-" where it says nothing.
Cell cell(const Document& document, std::string_view pointer, Unit unit);
// A number that no file holds.
Cell made(core::Json value, Unit unit);
inline Cell words(std::string text) { return {std::move(text), {}, {}, false}; }

}  // namespace reports::html
