// Pictures of operator graphs, as SVG inside the page: boxes in rows, each below what it reads.
#include <algorithm>

#include <fmt/format.h>

#include "reports/html/write_page.hpp"

namespace reports::html {
namespace {

using core::Code;
using core::code;

constexpr int kWidth = 168, kHeight = 40, kAcross = 196, kDown = 78, kMargin = 8;
constexpr std::size_t kLetters = 26;   // of a line in a box

std::string shortened(const std::string& text) {
  return text.size() <= kLetters ? text : text.substr(0, kLetters - 1) + "\u2026";
}

}  // namespace

Code graph_html(const GraphPicture& picture) {
  int rows = 1, columns = 1;
  std::vector<int> in_row(picture.nodes.size() + 1, 0);
  for (const GraphNode& n : picture.nodes) {
    rows = std::max(rows, n.row + 1);
    columns = std::max(columns, ++in_row[static_cast<std::size_t>(n.row)]);
  }
  const int width = columns * kAcross, height = rows * kDown;
  // Rows of fewer boxes stand in the middle.
  const auto left = [&](const GraphNode& n) {
    const int own = in_row[static_cast<std::size_t>(n.row)];
    return (columns - own) * kAcross / 2 + n.column * kAcross + (kAcross - kWidth) / 2;
  };
  const auto top = [&](const GraphNode& n) { return n.row * kDown + kMargin; };
  Code svg = code(
      "<svg class=\"operators\" viewBox=\"0 0 {} {}\" width=\"{}\" role=\"img\" "
      "aria-label=\"{}\">\n",
      width, height, width, Code::html(picture.alternative));
  for (const GraphEdge& e : picture.edges) {
    const GraphNode& a = picture.nodes[static_cast<std::size_t>(e.from)];
    const GraphNode& b = picture.nodes[static_cast<std::size_t>(e.to)];
    const int x1 = left(a) + kWidth / 2, y1 = top(a) + kHeight;
    const int x2 = left(b) + kWidth / 2, y2 = top(b);
    svg += code("<line class=\"{}\" x1=\"{}\" y1=\"{}\" x2=\"{}\" y2=\"{}\"/>\n",
                Code::own(e.moves ? "moves" : "stays"), x1, y1, x2, y2);
    if (!e.label.empty())
      svg += code("<text class=\"moved\" x=\"{}\" y=\"{}\">{}</text>\n", (x1 + x2) / 2,
                  (y1 + y2) / 2 + 4, Code::html(e.label));
  }
  for (const GraphNode& n : picture.nodes) {
    svg += code(
        "<g><title>{}{}{}</title><rect class=\"f{}\" x=\"{}\" y=\"{}\" "
        "width=\"{}\" height=\"{}\" rx=\"4\"/>",
        Code::html(n.name), Code::own(n.note.empty() ? "" : ", then "), Code::html(n.note), n.shade,
        left(n), top(n), kWidth, kHeight);
    svg += code("<text class=\"on-f{}\" x=\"{}\" y=\"{}\">{}</text>", n.shade, left(n) + kWidth / 2,
                top(n) + (n.note.empty() ? 24 : 17), Code::html(shortened(n.name)));
    if (!n.note.empty())
      svg += code("<text class=\"on-f{} small\" x=\"{}\" y=\"{}\">{}</text>", n.shade,
                  left(n) + kWidth / 2, top(n) + 32, Code::html(shortened(n.note)));
    svg += "</g>\n";
  }
  Code out = code(
      "<figure class=\"network\">\n<figcaption>{}</figcaption>\n"
      "<ul class=\"ramp\">",
      Code::html(picture.title));
  for (std::size_t f = 0; f < picture.legend.size(); ++f)
    out += code(
        "<li><svg class=\"swatch\" width=\"14\" height=\"14\" aria-hidden=\"true\">"
        "<rect class=\"f{}\" width=\"14\" height=\"14\"/></svg>{}</li>",
        f, Code::html(picture.legend[f]));
  return out + "</ul>\n" + svg + "</svg>\n" +
         code("<p class=\"alternative\">{}</p>\n</figure>\n", Code::html(picture.alternative));
}

}  // namespace reports::html
