#include <cmath>

#include <fmt/format.h>

#include "core/embedded.hpp"
#include "core/sha256.hpp"
#include "reports/html/document.hpp"
#include "reports/html/write_page.hpp"
#include "tests/catch.hpp"

std::span<const core::EmbeddedFile> reports_html_data();

namespace {

using core::Json;
using namespace reports::html;

std::string hex(std::string_view text) {
  std::string out;
  for (const std::uint8_t byte : core::sha256(text)) out += fmt::format("{:02x}", byte);
  return out;
}

Page page_saying(const std::string& text) {
  PageTable table{text, {{text, false}, {"n"}}, {{{text, {}, "", true}, {"1", Json(1), "0/a"}}},
                  false};
  const Cell cell{text, Json(1), text, false};
  const Tile tile{text, cell, text, text, Gauge{0, 0.5, 0.7, text}};
  const Bar bar{text, text, {{text, cell, 1, 0}}, 2, {text, cell, 1, 0}};
  return {text,
          text,
          {{text, {{text, {Verdict{text, text}, Tiles{text, {tile}}, bar,
                           Text{text, TextKind::lead}, Bullets{{text}},
                           Chart{"heat", text, text, Json::object({{text, text}})}, table}}}}},
          {text},
          text};
}

std::size_t times(std::string_view text, std::string_view part) {
  std::size_t n = 0;
  for (std::size_t at = text.find(part); at != std::string_view::npos; at = text.find(part, at + 1))
    ++n;
  return n;
}

}  // namespace

TEST_CASE("the embedded plotting library is the one that vendor/README.md names") {
  for (const core::EmbeddedFile& file : reports_html_data()) {
    if (file.name != "vendor/echarts.min.js") continue;
    CHECK(hex(file.text) == "e84270bd0cd5bdf60fefc26d00c2a391cb2e81f4d26a7a9ee16185a54773a3cf");
    return;
  }
  FAIL("no plotting library");
}

TEST_CASE("no embedded script can end its element") {
  for (const core::EmbeddedFile& file : reports_html_data()) {
    CHECK(file.text.find("</script") == std::string_view::npos);
    CHECK(file.text.find("<!--") == std::string_view::npos);
  }
}

TEST_CASE("a hostile text never becomes markup, wherever a page holds it") {
  const std::string hostile = "</title></script><script>hit()</script><img src=x onerror=hit()>'\"";
  const std::string html = to_html(page_saying(hostile));
  CHECK(times(html, "<img") == times(to_html(page_saying("")), "<img"));
  CHECK(times(html, "<script") == 3);  // the data, the library, the page's own
  CHECK(times(html, "hit()</script>") == 0);
  CHECK(times(html, "</title>") == 1);
  CHECK(html.find("default-src 'none'") != std::string::npos);
  const std::string markdown = to_markdown(page_saying(hostile + "|`*\n# x"));
  CHECK(markdown.find("<script") == std::string::npos);
  CHECK(markdown.find("\n# x") == std::string::npos);
}

TEST_CASE("a part has no script, no markup of a stranger, and a style that holds inside it alone") {
  const std::string hostile = "</style></div><script>hit()</script><img src=x onerror=hit()>'\"";
  const std::string part = to_html_part(page_saying(hostile));
  CHECK(times(part, "<script") == 0);
  CHECK(times(part, "<img") == 0);
  CHECK(times(part, "</style>") == 1);
  CHECK(times(part, "id=\"") == 0);     // a notebook shows several
  CHECK(part.starts_with("<div class=\"planner-part\">\n<style>\n.planner-part {\n"));
  CHECK(part.find(":root") == std::string::npos);
  CHECK(part.find("body {") == std::string::npos);
  CHECK(times(part, "{") == times(part, "}"));
  const std::string table = "data-value=\"1\" data-source=\"0/a\">1</td>";
  CHECK(times(part, table) == times(to_html(page_saying(hostile)), table));
}

TEST_CASE("the first section of a part is open, the others are behind a click") {
  Page page;
  page.parts = {{"p", {{"one", {Text{"first"}}}, {"two", {Text{"second"}}}}}};
  const std::string part = to_html_part(page);
  CHECK(times(part, "<details>") == 1);
  CHECK(part.find("first") < part.find("<details><summary>two</summary>"));
}

TEST_CASE("Markdown prints the table that HTML prints") {
  const Page page = page_saying("a_b | c");
  const std::string markdown = to_markdown(page);
  CHECK(markdown.find("| **a_b \\| c** | 1 |") != std::string::npos);
  CHECK(markdown.find("|---|---:|") != std::string::npos);
  const std::string html = to_html(page);
  CHECK(html.find("data-value=\"1\" data-source=\"0/a\">1</td>") != std::string::npos);
}

TEST_CASE("a gauge stays inside its track, whatever its numbers are") {
  Page page;
  page.parts = {{"p", {{"s", {Tiles{"t", {{"a", words("1"), "", "", Gauge{-1, 7, 3, "x"}},
                                          {"b", words("1"), "", "", Gauge{0, NAN, {}, "x"}}}}}}}}};
  const std::string html = to_html(page);
  CHECK(html.find("left:0.00%;width:100.00%") != std::string::npos);
  CHECK(html.find("class=\"mark\" style=\"left:100.00%\"") != std::string::npos);
  CHECK(html.find("left:0.00%;width:0.00%") != std::string::npos);
  CHECK(html.find("nan") == html.find("nan", html.find("</main>")));
}

TEST_CASE("a number and its unit stay on one line, and nothing else is bound together") {
  Page page;
  page.parts = {{"p", {{"s", {Text{"risk of 4.9 %, 12 GiB, 3 ms. 7 GPUs"}}}}}};
  const std::string html = to_html(page);
  CHECK(html.find("4.9\u00a0%, 12\u00a0GiB, 3\u00a0ms. 7 GPUs") != std::string::npos);
}

TEST_CASE("a page of one part has no heading for it, and one of two has") {
  Page page{"title", "about", {{"first", {{"s", {}}}}}, {}, ""};
  CHECK(times(to_html(page), "<h2") == 1);
  page.parts.push_back({"second", {{"s", {}}}});
  CHECK(times(to_html(page), "<h2") == 2);
  CHECK(times(to_html(page), "<h3") == 2);
}
