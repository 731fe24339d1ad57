#pragma once
// A Page written: as one HTML file that needs nothing else, as a piece of another HTML page, or as
// Markdown. Pure; thread-safe.

#include <string>

#include "core/code.hpp"
#include "reports/html/page.hpp"

namespace reports::html {

// The page with its style, its script, the plotting library and the charts' data inside. Its
// content security policy allows the two scripts by their hashes and no request at all.
std::string to_html(const Page& page);

// The same texts, pictures and tables as one element to put into another page, a notebook's say:
// no script and no charts, and a style that holds for this element alone. The first section is
// open, the others are behind a click.
std::string to_html_part(const Page& page);

// A figure with the picture: for each layer a box, for each kind of link a row of coloured cells.
core::Code picture_html(const NetworkPicture& picture);
core::Code graph_html(const GraphPicture& picture);

// The same texts and tables; of a chart or a picture its words.
std::string to_markdown(const Page& page);

}  // namespace reports::html
