#pragma once
// Page: a report before it has a form: parts (one per subject), sections, and in them texts, tables
// and charts. html.hpp and markdown.hpp write it; both print the same tables. A cell knows its
// exact value and which file says so, so that a test can hold every number on the page to its file.
// Texts are plain: whatever a file said, they are escaped where they are written. Value types.

#include <cstdint>
#include <optional>
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
  bool folded = false;     // behind a click, and open on paper: a chart's data
};

// `data` is what page.js draws from; `alternative` says the same in words.
struct Chart {
  std::string kind;        // as page.js names them
  std::string title, alternative;
  core::Json data;
};

enum class TextKind : std::uint8_t {
  plain,
  lead,  // the answer of a part
  note,  // what a figure rests on, in small letters
};
struct Text {
  std::string text;
  TextKind kind = TextKind::plain;
};
struct Bullets {
  std::vector<std::string> items;
};

// How a figure stands to its limit. Words say it too: colour alone does not reach everybody.
enum class Tone : std::uint8_t { plain, good, bad };

// The answer: in a word, and in one sentence.
struct Verdict {
  std::string word, sentence;
  Tone tone = Tone::plain;
};

// A line from 0 to 1, filled from `from` to `to`. `mark` is a limit, or the value inside a range.
struct Gauge {
  double from = 0, to = 0;
  std::optional<double> mark{};
  std::string says;        // the same in words
};
struct Tile {
  std::string title;
  Cell figure;
  std::string unit, note;  // "tokens/s", and what the gauge shows
  std::optional<Gauge> gauge{};
  Tone tone = Tone::plain;
};
struct Tiles {
  std::string caption;
  std::vector<Tile> tiles;
};

// One whole, cut into parts, each with its figure in a legend.
struct BarPart {
  std::string name;
  Cell figure;
  double size = 0;         // in the unit of the bar's length
  int colour = 0;          // of the palette, from 0: that of the same part in other charts
};
struct Bar {
  std::string title, alternative;
  std::vector<BarPart> parts;
  double limit = 0;        // what the parts have to fit into: a line, and the bar's least length
  BarPart rest;            // what is left below the limit
};

// A row of a picture: a layer of a network, or links between two layers. A cell stands for one link
// or for several that follow one another.
struct PictureRow {
  std::string name, note;        // "leaf to spine", "512 links of 94.0 GB/s: mean 2.6 %, ..."
  std::vector<double> shares{};  // by cell, 0 to 1: how busy; empty: a layer
};
// A network from top to bottom, drawn as SVG: it needs no script.
struct NetworkPicture {
  std::string title, alternative;
  std::vector<PictureRow> rows;
};

// A box of a graph, in a row below all that it reads, with a class of colour; and an arrow, with
// what it carries where that is told.
struct GraphNode {
  std::string name, note;
  int row = 0, column = 0, shade = 0;
};
struct GraphEdge {
  int from = 0, to = 0;                // indices of nodes
  bool moves = false;                  // drawn to be seen
  std::string label;
};
// Drawn as SVG, too. The legend has what each class of colour stands for.
struct GraphPicture {
  std::string title, alternative;
  std::vector<std::string> legend;
  std::vector<GraphNode> nodes;
  std::vector<GraphEdge> edges;
};

using Block = std::variant<Verdict, Tiles, Text, Bar, Bullets, Chart, NetworkPicture, GraphPicture,
                           PageTable>;

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
  std::string about{};             // what was asked, in a line; "": several things
  std::vector<Part> parts;
  std::vector<std::string> files;  // names, in the order of Cell::source
  std::string made_by;             // "planner 0.1.0"
};

}  // namespace reports::html
