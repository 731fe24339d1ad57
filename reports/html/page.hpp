#pragma once
// Page: a report before it has a form: parts (one per subject), sections, and in them texts, tables
// and charts. html.hpp and markdown.hpp write it; both print the same tables. A cell knows its
// exact value and which file says so, so that a test can hold every number on the page to its file.
// Texts are plain: whatever a file said, they are escaped where they are written. Value types.

#include <string>
#include <variant>
#include <vector>

#include "core/json.hpp"

namespace reports::html {

struct Cell {
  std::string text;        // as people read it
  core::Json value{};      // the exact number behind it; null: the text alone
  std::string source{};    // "2/chosen/time/step": file 2 of the page, JSON pointer; "": made here
  bool strong = false;     // the recommended one
};

struct PageColumn {
  std::string title;
  bool number = true;      // right-aligned, and sorted by value
};

struct PageTable {
  std::string caption;
  std::vector<PageColumn> columns;
  std::vector<std::vector<Cell>> rows;  // one cell per column
  bool folded = false;     // behind a click: a chart's data
};

// `data` is what page.js draws from; `alternative` says the same in words.
struct Chart {
  std::string kind;        // as page.js names them
  std::string title, alternative;
  core::Json data;
};

struct Text {
  std::string text;
  bool lead = false;       // the answer
};
struct Bullets {
  std::vector<std::string> items;
};

using Block = std::variant<Text, Bullets, Chart, PageTable>;

struct Section {
  std::string title;
  std::vector<Block> blocks;
};
struct Part {
  std::string title;
  std::vector<Section> sections;
};
struct Page {
  std::string title;
  std::vector<Part> parts;
  std::vector<std::string> files;  // names, in the order of Cell::source
  std::string made_by;             // "planner 0.1.0"
};

}  // namespace reports::html
