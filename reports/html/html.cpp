#include <algorithm>
#include <cmath>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/embedded.hpp"
#include "core/sha256.hpp"
#include "reports/html/write_page.hpp"

std::span<const core::EmbeddedFile> reports_html_data();

namespace reports::html {
namespace {

using core::Code;
using core::code;
using core::Json;

Code embedded(std::string_view name) {
  for (const core::EmbeddedFile& file : reports_html_data())
    if (file.name == name) return Code::own(file.text);
  PLANNER_CHECK(false, "a file of the page is not in the binary");
  return {};
}

// The pieces see each other, and nobody else sees them.
Code page_script() {
  Code script = "'use strict';\n(() => {\n";
  for (const char* piece : {"base", "drawers", "timeline", "charts"})
    script += embedded(fmt::format("page/{}.js", piece));
  return script + "})();\n";
}

// A sentence for an element: a number and its unit stay on one line.
Code sentence(std::string_view text) {
  constexpr std::string_view kUnits[] = {"%",   "B",   "KiB", "MiB", "GiB", "TiB", "PiB", "us",
                                         "ms",  "s",   "min", "h",   "d",   "K",   "M",   "T",
                                         "USD", "kWh", "MWh", "GWh"};
  std::string out(text);
  for (std::size_t at = out.find(' '); at != std::string::npos; at = out.find(' ', at + 1)) {
    if (at == 0 || out[at - 1] < '0' || out[at - 1] > '9') continue;
    const std::size_t end = std::min(out.find_first_of(" .,;:)", at + 1), out.size());
    const std::string_view next = std::string_view(out).substr(at + 1, end - at - 1);
    if (std::ranges::find(kUnits, next) != std::end(kUnits)) out.replace(at, 1, "\u00a0");
  }
  return Code::html(out);
}

// The style of the page, for the elements inside one element alone: nested rules, in which `&` is
// that element.
Code style_inside(const Code& selector) {
  std::string style = embedded("page.css").text();
  for (const auto& [whole, inside] : {std::pair(":root", "&"), std::pair("\nbody {", "\n& {"),
                                      std::pair("  body {", "  & {")})
    for (std::size_t at = 0; (at = style.find(whole, at)) != std::string::npos;)
      style.replace(at, std::string_view(whole).size(), inside);
  return code("{} {{\n{}}}\n", selector, Code::own(style));
}

class ElementWriter {
 public:
  explicit ElementWriter(const Page& page, bool charts = true)
      : page_(page), draws_charts_(charts) {}

  Code run_part() {
    out_ = code(
        "<div class=\"planner-part\">\n<style>\n{}</style>\n"
        "<p class=\"lead\">{}</p>\n",
        style_inside(".planner-part"), sentence(page_.title));
    if (!page_.about.empty()) out_ += code("<p class=\"small\">{}</p>\n", sentence(page_.about));
    bool first = true;
    for (const Part& part : page_.parts)
      for (const Section& section : part.sections) {
        const std::string title =
            page_.parts.size() == 1 ? section.title : part.title + ": " + section.title;
        if (!first) out_ += code("<details><summary>{}</summary>\n", Code::html(title));
        for (const Block& block : section.blocks)
          std::visit([&](const auto& b) { write(b); }, block);
        if (!first) out_ += "</details>\n";
        first = false;
      }
    return std::move(out_) + "</div>\n";
  }

  Code run() {
    Code body;
    std::swap(body, out_);
    write_body();
    std::swap(body, out_);
    const Code library = embedded("vendor/echarts.min.js");
    const Code script = page_script();
    out_ = code(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "script-src 'sha256-{}' 'sha256-{}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n"
        "<link rel=\"icon\" href=\"data:,\">\n"  // else a browser asks a server for one
        "<title>{}</title>\n<meta name=\"description\" content=\"{}\">\n"
        "<style>\n{}</style>\n</head>\n<body>\n",
        Code::own(core::sha256_base64(library)), Code::own(core::sha256_base64(script)),
        Code::html(page_.title), Code::html(described()), embedded("page.css"));
    out_ += body;
    out_ += code("<script type=\"application/json\" id=\"charts\">{}</script>\n",
                 Code::script(charts_));
    for (const Code& text : {library, script}) out_ += code("<script>{}</script>\n", text);
    return std::move(out_) + "</body>\n</html>\n";
  }

 private:
  void write_body() {
    out_ += "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n<header>\n";
    out_ += code(
        "<div><p class=\"brand\">planner</p>\n<h1 id=\"title\">{}</h1></div>\n"
        "<button type=\"button\" id=\"theme\" hidden>Theme: system</button>\n",
        sentence(page_.title));
    if (!page_.about.empty()) out_ += code("<p class=\"about\">{}</p>\n", sentence(page_.about));
    write_contents();
    out_ += "</header>\n<main id=\"main\" tabindex=\"-1\">\n";
    for (std::size_t p = 0; p < page_.parts.size(); ++p) write_part(page_.parts[p], p);
    out_ += "</main>\n<footer><p>";
    out_ += code("Made by {} from ", Code::html(page_.made_by));
    for (std::size_t i = 0; i < page_.files.size(); ++i)
      out_ += code("{}<code>{}</code>", Code::own(i == 0 ? "" : ", "), Code::html(page_.files[i]));
    out_ += ". Point at a number to see its exact value and its place in the file.</p></footer>\n";
  }

  static Code id(std::size_t part, std::size_t section) {
    return code("s{}-{}", part + 1, section + 1);
  }
  std::string described() const {
    return fmt::format("A report of planner: {}{}", page_.title,
                       page_.about.empty() ? std::string() : ". " + page_.about);
  }
  // A page of one part needs no heading for it: the title says the same.
  bool has_one_part() const { return page_.parts.size() == 1; }

  void write_contents() {
    out_ += "<details class=\"contents\"><summary>Contents</summary>"
            "<nav aria-label=\"Contents\"><ul>\n";
    for (std::size_t p = 0; p < page_.parts.size(); ++p) {
      if (!has_one_part())
        out_ += code("<li><a href=\"#p{}\">{}</a><ul>\n", p + 1, Code::html(page_.parts[p].title));
      for (std::size_t s = 0; s < page_.parts[p].sections.size(); ++s)
        out_ += code("<li><a href=\"#{}\">{}</a></li>\n", id(p, s),
                     Code::html(page_.parts[p].sections[s].title));
      if (!has_one_part()) out_ += "</ul></li>\n";
    }
    out_ += "</ul></nav></details>\n";
  }

  void write_part(const Part& part, std::size_t p) {
    const int level = has_one_part() ? 2 : 3;
    if (has_one_part())
      out_ += "<article aria-labelledby=\"title\">\n";
    else
      out_ += code(
          "<article aria-labelledby=\"p{0}\">\n<h2 class=\"part\" "
          "id=\"p{0}\">{1}</h2>\n",
          p + 1, Code::html(part.title));
    for (std::size_t s = 0; s < part.sections.size(); ++s) {
      out_ += code("<section>\n<h{1} class=\"section\" id=\"{0}\">{2}</h{1}>\n", id(p, s), level,
                   Code::html(part.sections[s].title));
      for (const Block& block : part.sections[s].blocks)
        std::visit([&](const auto& b) { write(b); }, block);
      out_ += "</section>\n";
    }
    out_ += "</article>\n";
  }

  void write(const Verdict& verdict) {
    out_ += code("<p class=\"verdict {}\"><strong>{}</strong> {}</p>\n", name(verdict.tone),
                 Code::html(verdict.word), sentence(verdict.sentence));
  }
  void write(const Tiles& tiles) {
    out_ += code("<ul class=\"tiles\" aria-label=\"{}\">\n", Code::html(tiles.caption));
    for (const Tile& tile : tiles.tiles) {
      out_ += code(
          "<li class=\"tile {}\"><p class=\"what\">{}</p>\n"
          "<p class=\"figure\">",
          name(tile.tone), Code::html(tile.title));
      write_value("span", "", tile.figure);
      if (!tile.unit.empty())
        out_ += code(" <span class=\"unit\">{}</span>", Code::html(tile.unit));
      out_ += "</p>\n";
      if (tile.gauge) write(*tile.gauge);
      out_ += code("<p class=\"note\">{}</p></li>\n", sentence(tile.note));
    }
    out_ += "</ul>\n";
  }
  void write(const Gauge& gauge) {
    const auto percent = [](double share) {
      return std::isfinite(share) ? 100 * std::clamp(share, 0.0, 1.0) : 0.0;
    };
    const double from = percent(gauge.from), to = percent(gauge.to);
    out_ += code(
        "<div class=\"gauge\" role=\"img\" aria-label=\"{}\"><span class=\"fill\" "
        "style=\"left:{:.2f}%;width:{:.2f}%\"></span>",
        Code::html(gauge.says), from, std::max(to - from, 0.0));
    if (gauge.mark)
      out_ += code("<span class=\"mark\" style=\"left:{:.2f}%\"></span>", percent(*gauge.mark));
    out_ += "</div>\n";
  }
  void write(const Bar& bar) {
    double sum = 0;
    for (const BarPart& part : bar.parts) sum += part.size;
    const double length = std::max({sum, bar.limit, 1e-30});
    Code segments, legend;
    for (const BarPart& part : bar.parts) {
      segments += code("<span class=\"k{}\" style=\"width:{:.3f}%\"></span>", part.colour + 1,
                       100 * part.size / length);
      legend +=
          code("<li><span class=\"key k{}\"></span>{} ", part.colour + 1, Code::html(part.name));
      std::swap(out_, legend);
      write_value("b", "", part.figure);
      std::swap(out_, legend);
      legend += "</li>\n";
    }
    if (sum > bar.limit)
      segments +=
          code("<span class=\"limit\" style=\"left:{:.3f}%\"></span>", 100 * bar.limit / length);
    out_ += code(
        "<figure>\n<figcaption>{}</figcaption>\n<div class=\"bar\" role=\"img\" "
        "aria-label=\"{}\">{}</div>\n<ul class=\"legend\">\n{}",
        Code::html(bar.title), Code::html(bar.alternative), segments, legend);
    if (bar.rest.size > 0)
      out_ += code("<li><span class=\"key\"></span>{} <b>{}</b></li>\n", Code::html(bar.rest.name),
                   Code::html(bar.rest.figure.text));
    out_ += code("</ul>\n<p class=\"alternative\">{}</p>\n</figure>\n", sentence(bar.alternative));
  }
  void write(const Text& text) {
    const Code kClasses[] = {"", " class=\"lead\"", " class=\"small\""};
    out_ +=
        code("<p{}>{}</p>\n", kClasses[static_cast<std::size_t>(text.kind)], sentence(text.text));
  }
  void write(const Bullets& bullets) {
    out_ += "<ul>\n";
    for (const std::string& item : bullets.items) out_ += code("<li>{}</li>\n", sentence(item));
    out_ += "</ul>\n";
  }
  void write(const Chart& chart) {
    if (!draws_charts_) return;
    const std::size_t n = charts_.size() + 1;
    out_ += code(
        "<figure>\n<figcaption id=\"c{0}t\">{1}</figcaption>\n"
        "<div class=\"chart\" id=\"c{0}\" role=\"img\" aria-labelledby=\"c{0}t c{0}a\"></div>\n"
        "<p class=\"alternative\" id=\"c{0}a\">{2}</p>\n</figure>\n",
        n, Code::html(chart.title), sentence(chart.alternative));
    charts_.push_back(Json::object({{"kind", chart.kind}, {"data", chart.data}}));
  }
  void write(const NetworkPicture& picture) { out_ += picture_html(picture); }
  void write(const GraphPicture& picture) { out_ += graph_html(picture); }
  void write(const PageTable& table) {
    if (table.folded)
      out_ += code(
          "<details class=\"table\"><summary>{} <span>(table of {} {})</span>"
          "</summary>\n",
          Code::html(table.caption), table.rows.size(),
          Code::own(table.rows.size() == 1 ? "row" : "rows"));
    out_ += code(
        "<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"{0}\">"
        "<table><caption>{0}</caption>\n<thead><tr>",
        Code::html(table.caption));
    for (const PageColumn& column : table.columns)
      out_ += code("<th scope=\"col\"{}>{}</th>", Code::own(column.number ? " class=\"n\"" : ""),
                   Code::html(column.title));
    out_ += "</tr></thead>\n<tbody>\n";
    for (const std::vector<Cell>& row : table.rows) {
      out_ += "<tr>";
      for (std::size_t i = 0; i < row.size(); ++i) write(row[i], table.columns[i].number);
      out_ += "</tr>\n";
    }
    out_ += "</tbody></table></div>\n";
    if (table.folded) out_ += "</details>\n";
  }
  void write(const Cell& cell, bool number) {
    const bool words = cell.value.is_null() && cell.text != "-";
    write_value("td", Code::own(number && !words ? " class=\"n\"" : ""), cell);
  }
  // An element with the cell's text, its exact value and its place.
  void write_value(const Code& element, const Code& attributes, const Cell& cell) {
    out_ += code("<{}{}", element, attributes);
    if (!cell.value.is_null())
      out_ += code(" data-value=\"{}\"", Code::html(core::dump(cell.value, 0)));
    if (!cell.source.empty()) out_ += code(" data-source=\"{}\"", Code::html(cell.source));
    const Code text = Code::html(cell.text);
    out_ += cell.strong ? code("><strong>{}</strong></{}>", text, element)
                        : code(">{}</{}>", text, element);
  }

  static Code name(Tone tone) {
    const Code kNames[] = {"plain", "good", "bad"};
    return kNames[static_cast<std::size_t>(tone)];
  }

  const Page& page_;
  const bool draws_charts_;
  Code out_;
  Json charts_ = Json::array();
};

}  // namespace

std::string to_html(const Page& page) {
  return ElementWriter(page).run().text();
}

std::string to_html_part(const Page& page) {
  return ElementWriter(page, false).run_part().text();
}

}  // namespace reports::html
