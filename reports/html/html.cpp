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

using core::Json;

std::string_view embedded(std::string_view name) {
  for (const core::EmbeddedFile& file : reports_html_data())
    if (file.name == name) return file.text;
  PLANNER_CHECK(false, "a file of the page is not in the binary");
  return {};
}

// The pieces see each other, and nobody else sees them.
std::string page_script() {
  std::string script = "'use strict';\n(() => {\n";
  for (const char* piece : {"base", "drawers", "timeline", "charts"})
    script += embedded(fmt::format("page/{}.js", piece));
  return script + "})();\n";
}

// Length of the UTF-8 character at the start of the text; 0: none.
std::size_t character_at(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (std::size_t i = 1; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool surrogate = first == 0xed && byte(1) > 0x9f;
  return overlong || surrogate || (first == 0xf4 && byte(1) > 0x8f) ? 0 : length;
}

// U+202A to U+202E and U+2066 to U+2069 turn the direction of what follows.
bool turns_direction(std::string_view c) {
  return (c >= "\u202a" && c <= "\u202e") || (c >= "\u2066" && c <= "\u2069");
}

// A sentence for an element: a number and its unit stay on one line.
std::string sentence(std::string_view text) {
  constexpr std::string_view kUnits[] = {"%",   "B",   "KiB", "MiB", "GiB", "TiB", "PiB", "us",
                                         "ms",  "s",   "min", "h",   "d",   "K",   "M",   "T",
                                         "USD", "kWh", "MWh", "GWh"};
  std::string out = escaped(text);
  for (std::size_t at = out.find(' '); at != std::string::npos; at = out.find(' ', at + 1)) {
    if (at == 0 || out[at - 1] < '0' || out[at - 1] > '9') continue;
    const std::size_t end = std::min(out.find_first_of(" .,;:)", at + 1), out.size());
    const std::string_view next = std::string_view(out).substr(at + 1, end - at - 1);
    if (std::ranges::find(kUnits, next) != std::end(kUnits)) out.replace(at, 1, "\u00a0");
  }
  return out;
}

// The style of the page, for the elements inside one element alone: nested rules, in which `&` is
// that element.
std::string style_inside(std::string_view selector) {
  std::string style(embedded("page.css"));
  for (const auto& [whole, inside] : {std::pair(":root", "&"), std::pair("\nbody {", "\n& {"),
                                      std::pair("  body {", "  & {")})
    for (std::size_t at = 0; (at = style.find(whole, at)) != std::string::npos;)
      style.replace(at, std::string_view(whole).size(), inside);
  return fmt::format("{} {{\n{}}}\n", selector, style);
}

class ElementWriter {
 public:
  explicit ElementWriter(const Page& page, bool charts = true)
      : page_(page), draws_charts_(charts) {}

  std::string run_part() {
    out_ = fmt::format("<div class=\"planner-part\">\n<style>\n{}</style>\n"
                       "<p class=\"lead\">{}</p>\n",
                       style_inside(".planner-part"), sentence(page_.title));
    if (!page_.about.empty())
      out_ += fmt::format("<p class=\"small\">{}</p>\n", sentence(page_.about));
    bool first = true;
    for (const Part& part : page_.parts)
      for (const Section& section : part.sections) {
        const std::string title =
            page_.parts.size() == 1 ? section.title : part.title + ": " + section.title;
        if (!first) out_ += fmt::format("<details><summary>{}</summary>\n", escaped(title));
        for (const Block& block : section.blocks)
          std::visit([&](const auto& b) { write(b); }, block);
        if (!first) out_ += "</details>\n";
        first = false;
      }
    return std::move(out_) + "</div>\n";
  }

  std::string run() {
    std::string body;
    std::swap(body, out_);
    write_body();
    std::swap(body, out_);
    const std::string_view library = embedded("vendor/echarts.min.js");
    const std::string script = page_script();
    out_ = fmt::format(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "script-src 'sha256-{}' 'sha256-{}'; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<meta name=\"color-scheme\" content=\"light dark\">\n"
        "<link rel=\"icon\" href=\"data:,\">\n"  // else a browser asks a server for one
        "<title>{}</title>\n<meta name=\"description\" content=\"{}\">\n"
        "<style>\n{}</style>\n</head>\n<body>\n",
        core::sha256_base64(library), core::sha256_base64(script), escaped(page_.title),
        escaped(described()), embedded("page.css"));
    out_ += body;
    out_ += fmt::format("<script type=\"application/json\" id=\"charts\">{}</script>\n",
                        script_json(charts_));
    for (const std::string_view text : {library, std::string_view(script)}) {
      out_ += "<script>";
      out_ += text;
      out_ += "</script>\n";
    }
    return std::move(out_) + "</body>\n</html>\n";
  }

 private:
  void write_body() {
    out_ += "<a class=\"skip\" href=\"#main\">Skip to the report</a>\n<header>\n";
    out_ += fmt::format("<div><p class=\"brand\">planner</p>\n<h1 id=\"title\">{}</h1></div>\n"
                        "<button type=\"button\" id=\"theme\" hidden>Theme: system</button>\n",
                        sentence(page_.title));
    if (!page_.about.empty())
      out_ += fmt::format("<p class=\"about\">{}</p>\n", sentence(page_.about));
    write_contents();
    out_ += "</header>\n<main id=\"main\" tabindex=\"-1\">\n";
    for (std::size_t p = 0; p < page_.parts.size(); ++p) write_part(page_.parts[p], p);
    out_ += "</main>\n<footer><p>";
    out_ += fmt::format("Made by {} from ", escaped(page_.made_by));
    for (std::size_t i = 0; i < page_.files.size(); ++i)
      out_ += fmt::format("{}<code>{}</code>", i == 0 ? "" : ", ", escaped(page_.files[i]));
    out_ += ". Point at a number to see its exact value and its place in the file.</p></footer>\n";
  }

  static std::string id(std::size_t part, std::size_t section) {
    return fmt::format("s{}-{}", part + 1, section + 1);
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
        out_ += fmt::format("<li><a href=\"#p{}\">{}</a><ul>\n", p + 1,
                            escaped(page_.parts[p].title));
      for (std::size_t s = 0; s < page_.parts[p].sections.size(); ++s)
        out_ += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", id(p, s),
                            escaped(page_.parts[p].sections[s].title));
      if (!has_one_part()) out_ += "</ul></li>\n";
    }
    out_ += "</ul></nav></details>\n";
  }

  void write_part(const Part& part, std::size_t p) {
    const int level = has_one_part() ? 2 : 3;
    if (has_one_part())
      out_ += "<article aria-labelledby=\"title\">\n";
    else
      out_ += fmt::format("<article aria-labelledby=\"p{0}\">\n<h2 class=\"part\" "
                          "id=\"p{0}\">{1}</h2>\n",
                          p + 1, escaped(part.title));
    for (std::size_t s = 0; s < part.sections.size(); ++s) {
      out_ += fmt::format("<section>\n<h{1} class=\"section\" id=\"{0}\">{2}</h{1}>\n",
                          id(p, s), level, escaped(part.sections[s].title));
      for (const Block& block : part.sections[s].blocks)
        std::visit([&](const auto& b) { write(b); }, block);
      out_ += "</section>\n";
    }
    out_ += "</article>\n";
  }

  void write(const Verdict& verdict) {
    out_ += fmt::format("<p class=\"verdict {}\"><strong>{}</strong> {}</p>\n", name(verdict.tone),
                        escaped(verdict.word), sentence(verdict.sentence));
  }
  void write(const Tiles& tiles) {
    out_ += fmt::format("<ul class=\"tiles\" aria-label=\"{}\">\n", escaped(tiles.caption));
    for (const Tile& tile : tiles.tiles) {
      out_ += fmt::format("<li class=\"tile {}\"><p class=\"what\">{}</p>\n"
                          "<p class=\"figure\">",
                          name(tile.tone), escaped(tile.title));
      write_value("span", tile.figure);
      if (!tile.unit.empty())
        out_ += fmt::format(" <span class=\"unit\">{}</span>", escaped(tile.unit));
      out_ += "</p>\n";
      if (tile.gauge) write(*tile.gauge);
      out_ += fmt::format("<p class=\"note\">{}</p></li>\n", sentence(tile.note));
    }
    out_ += "</ul>\n";
  }
  void write(const Gauge& gauge) {
    const auto percent = [](double share) {
      return std::isfinite(share) ? 100 * std::clamp(share, 0.0, 1.0) : 0.0;
    };
    const double from = percent(gauge.from), to = percent(gauge.to);
    out_ += fmt::format("<div class=\"gauge\" role=\"img\" aria-label=\"{}\"><span class=\"fill\" "
                        "style=\"left:{:.2f}%;width:{:.2f}%\"></span>",
                        escaped(gauge.says), from, std::max(to - from, 0.0));
    if (gauge.mark)
      out_ += fmt::format("<span class=\"mark\" style=\"left:{:.2f}%\"></span>",
                          percent(*gauge.mark));
    out_ += "</div>\n";
  }
  void write(const Bar& bar) {
    double sum = 0;
    for (const BarPart& part : bar.parts) sum += part.size;
    const double length = std::max({sum, bar.limit, 1e-30});
    std::string segments, legend;
    for (const BarPart& part : bar.parts) {
      segments += fmt::format("<span class=\"k{}\" style=\"width:{:.3f}%\"></span>",
                              part.colour + 1, 100 * part.size / length);
      legend += fmt::format("<li><span class=\"key k{}\"></span>{} ", part.colour + 1,
                            escaped(part.name));
      std::swap(out_, legend);
      write_value("b", part.figure);
      std::swap(out_, legend);
      legend += "</li>\n";
    }
    if (sum > bar.limit)
      segments += fmt::format("<span class=\"limit\" style=\"left:{:.3f}%\"></span>",
                              100 * bar.limit / length);
    out_ += fmt::format("<figure>\n<figcaption>{}</figcaption>\n<div class=\"bar\" role=\"img\" "
                        "aria-label=\"{}\">{}</div>\n<ul class=\"legend\">\n{}",
                        escaped(bar.title), escaped(bar.alternative), segments, legend);
    if (bar.rest.size > 0)
      out_ += fmt::format("<li><span class=\"key\"></span>{} <b>{}</b></li>\n",
                          escaped(bar.rest.name), escaped(bar.rest.figure.text));
    out_ += fmt::format("</ul>\n<p class=\"alternative\">{}</p>\n</figure>\n",
                        sentence(bar.alternative));
  }
  void write(const Text& text) {
    constexpr std::string_view kClasses[] = {"", " class=\"lead\"", " class=\"small\""};
    out_ += fmt::format("<p{}>{}</p>\n", kClasses[static_cast<std::size_t>(text.kind)],
                        sentence(text.text));
  }
  void write(const Bullets& bullets) {
    out_ += "<ul>\n";
    for (const std::string& item : bullets.items)
      out_ += fmt::format("<li>{}</li>\n", sentence(item));
    out_ += "</ul>\n";
  }
  void write(const Chart& chart) {
    if (!draws_charts_) return;
    const std::size_t n = charts_.size() + 1;
    out_ += fmt::format(
        "<figure>\n<figcaption id=\"c{0}t\">{1}</figcaption>\n"
        "<div class=\"chart\" id=\"c{0}\" role=\"img\" aria-labelledby=\"c{0}t c{0}a\"></div>\n"
        "<p class=\"alternative\" id=\"c{0}a\">{2}</p>\n</figure>\n",
        n, escaped(chart.title), sentence(chart.alternative));
    charts_.push_back(Json::object({{"kind", chart.kind}, {"data", chart.data}}));
  }
  void write(const NetworkPicture& picture) { out_ += picture_html(picture); }
  void write(const GraphPicture& picture) { out_ += graph_html(picture); }
  void write(const PageTable& table) {
    if (table.folded)
      out_ += fmt::format("<details class=\"table\"><summary>{} <span>(table of {} {})</span>"
                          "</summary>\n",
                          escaped(table.caption), table.rows.size(),
                          table.rows.size() == 1 ? "row" : "rows");
    out_ += fmt::format("<div class=\"scroll\" role=\"group\" tabindex=\"0\" aria-label=\"{0}\">"
                        "<table><caption>{0}</caption>\n<thead><tr>",
                        escaped(table.caption));
    for (const PageColumn& column : table.columns)
      out_ += fmt::format("<th scope=\"col\"{}>{}</th>", column.number ? " class=\"n\"" : "",
                          escaped(column.title));
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
    write_value(number && !words ? "td class=\"n\"" : "td", cell);
  }
  // An element with the cell's text, its exact value and its place; `start` may carry a class.
  void write_value(std::string_view start, const Cell& cell) {
    out_ += fmt::format("<{}", start);
    if (!cell.value.is_null())
      out_ += fmt::format(" data-value=\"{}\"", escaped(core::dump(cell.value, 0)));
    if (!cell.source.empty())
      out_ += fmt::format(" data-source=\"{}\"", escaped(cell.source));
    const std::string_view element = start.substr(0, start.find(' '));
    const std::string text = escaped(cell.text);
    out_ += cell.strong ? fmt::format("><strong>{}</strong></{}>", text, element)
                        : fmt::format(">{}</{}>", text, element);
  }

  static std::string_view name(Tone tone) {
    constexpr std::string_view kNames[] = {"plain", "good", "bad"};
    return kNames[static_cast<std::size_t>(tone)];
  }

  const Page& page_;
  const bool draws_charts_;
  std::string out_;
  Json charts_ = Json::array();
};

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    const std::size_t length = character_at(text);
    const std::string_view c = text.substr(0, length == 0 ? 1 : length);
    text.remove_prefix(c.size());
    const auto code = static_cast<unsigned char>(c.front());
    const bool control = length == 1 && (code == 0x7f || (code < 0x20 && code != '\n'));
    const bool high_control = length == 2 && c >= "\xc2\x80" && c <= "\xc2\x9f";
    if (length == 0 || control || high_control || turns_direction(c)) out += "\ufffd";
    else if (c == "&") out += "&amp;";
    else if (c == "<") out += "&lt;";
    else if (c == ">") out += "&gt;";
    else if (c == "\"") out += "&quot;";
    else if (c == "'") out += "&#39;";
    else out += c;
  }
  return out;
}

std::string script_json(const core::Json& value) {
  const std::string text = core::dump(value, 0);
  std::string out;
  out.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::string_view rest = std::string_view(text).substr(i, 3);
    if (text[i] == '<') out += "\\u003c";
    else if (text[i] == '>') out += "\\u003e";
    else if (text[i] == '&') out += "\\u0026";
    else if (rest == "\u2028" || rest == "\u2029") out += rest == "\u2028" ? "\\u2028" : "\\u2029",
                                                   i += 2;
    else out += text[i];
  }
  return out;
}

std::string to_html(const Page& page) { return ElementWriter(page).run(); }

std::string to_html_part(const Page& page) { return ElementWriter(page, false).run_part(); }

}  // namespace reports::html
