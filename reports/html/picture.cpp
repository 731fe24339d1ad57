// Pictures of networks, as SVG inside the page. Widths are shares of the row, so that a picture
// fits any screen and its letters keep their size.
#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "reports/html/write_page.hpp"

namespace reports::html {
namespace {

using core::Code;
using core::code;

// Upper ends of all classes of shares but the last; page.css has a colour for each.
constexpr double kClassEnds[] = {0.1, 0.25, 0.5, 0.75, 0.9};
constexpr const char* kClassNames[] = {"below 10 %", "10 to 25 %", "25 to 50 %",
                            "50 to 75 %", "75 to 90 %", "90 % and more"};
constexpr std::size_t kMostNumbered = 12;  // cells of a row that are wide enough for a number
constexpr int kCellHeight = 26;

std::size_t class_of(double share) {
  return static_cast<std::size_t>(std::ranges::upper_bound(kClassEnds, share) -
                                  std::begin(kClassEnds));
}

// Text in which a percentage stays on one line.
Code unbroken(std::string_view text) {
  std::string out(text);
  for (std::size_t at = 0; (at = out.find(" %", at)) != std::string::npos;)
    out.replace(at, 1, "\u00a0");
  return Code::html(out);
}

Code cells_svg(const PictureRow& row) {
  const double width = 100.0 / static_cast<double>(row.shares.size());
  const bool numbered = row.shares.size() <= kMostNumbered;
  Code svg = code(
      "<svg class=\"cells\" width=\"100%\" height=\"{}\" role=\"img\" "
      "aria-label=\"{}\">",
      kCellHeight, Code::html(row.name + ": " + row.note));
  for (std::size_t i = 0; i < row.shares.size(); ++i) {
    const double share = std::isfinite(row.shares[i]) ? std::clamp(row.shares[i], 0.0, 1.0) : 0;
    const double left = width * static_cast<double>(i);
    svg += code("<rect class=\"h{}\" x=\"{:.3f}%\" width=\"{:.3f}%\" height=\"{}\"/>",
                class_of(share), left, width, kCellHeight);
    if (numbered)
      svg += code("<text class=\"on-h{}\" x=\"{:.3f}%\" y=\"{}\">{:.0f}</text>", class_of(share),
                  left + width / 2, kCellHeight - 8, 100 * share);
  }
  return svg + "</svg>\n";
}

}  // namespace

Code picture_html(const NetworkPicture& picture) {
  Code out = code("<figure class=\"network\">\n<figcaption>{}</figcaption>\n<ul class=\"ramp\">",
                  Code::html(picture.title));
  for (std::size_t c = 0; c < std::size(kClassNames); ++c)
    out += code(
        "<li><svg class=\"swatch\" width=\"14\" height=\"14\" aria-hidden=\"true\">"
        "<rect class=\"h{}\" width=\"14\" height=\"14\"/></svg>{}</li>",
        c, Code::own(kClassNames[c]));
  out += "</ul>\n";
  for (const PictureRow& row : picture.rows) {
    if (row.shares.empty())
      out += code("<p class=\"layer\">{}</p>\n", Code::html(row.name));
    else
      out += code("<div class=\"band\"><p><b>{}</b> {}</p>\n{}</div>\n", Code::html(row.name),
                  unbroken(row.note), cells_svg(row));
  }
  return out + code("<p class=\"alternative\">{}</p>\n</figure>\n", unbroken(picture.alternative));
}

}  // namespace reports::html
