#include <fmt/format.h>

#include "core/embedded.hpp"
#include "reports/html/sha256.hpp"
#include "reports/html/write_page.hpp"
#include "tests/catch.hpp"

std::span<const core::EmbeddedFile> reports_html_data();

namespace {

using core::Json;
using namespace reports::html;

std::string hex(std::string_view text) {
  std::string out;
  for (const std::uint8_t byte : sha256(text)) out += fmt::format("{:02x}", byte);
  return out;
}

Page page_saying(const std::string& text) {
  PageTable table{text, {{text, false}, {"n"}}, {{{text, {}, "", true}, {"1", Json(1), "0/a"}}},
                  false};
  return {text,
          {{text, {{text, {Text{text, true}, Bullets{{text}},
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

TEST_CASE("SHA-256 gives the standard's examples, and their lengths around a block") {
  // [fips180-4] examples: "abc", the empty text, and 448 bits, which take two blocks.
  CHECK(hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(hex(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  CHECK(sha256_base64("") == "47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=");
}

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

TEST_CASE("markup, control characters and broken UTF-8 are written as text") {
  CHECK(escaped("<b a=\"1\" c='2'>&") == "&lt;b a=&quot;1&quot; c=&#39;2&#39;&gt;&amp;");
  CHECK(escaped(std::string_view("a\0b\x1b\x7f", 5)) == "a\ufffdb\ufffd\ufffd");
  CHECK(escaped("\xff\xc3(\xed\xa0\x80") == "\ufffd\ufffd(\ufffd\ufffd\ufffd");
  CHECK(escaped("\u202etxt") == "\ufffdtxt");
  CHECK(escaped("\u00e9 \u4e2d \U0001f600") == "\u00e9 \u4e2d \U0001f600");
  CHECK(escaped("\xc2\x85") == "\ufffd");  // a control character of two bytes
}

TEST_CASE("JSON in a script element has none of the characters that could end it") {
  const std::string text = script_json(Json::object({{"</script>&", "<!--\u2028\u2029"}}));
  CHECK(text.find_first_of("<>&") == std::string::npos);
  CHECK(text.find("\u2028") == std::string::npos);
  // Still the same value.
  const core::Result<Json> again = core::parse_json(text, "page");
  REQUIRE(again.ok());
  CHECK(again->at("</script>&").as_string() == "<!--\u2028\u2029");
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

TEST_CASE("Markdown prints the table that HTML prints") {
  const Page page = page_saying("a_b | c");
  const std::string markdown = to_markdown(page);
  CHECK(markdown.find("| **a_b \\| c** | 1 |") != std::string::npos);
  CHECK(markdown.find("|---|---:|") != std::string::npos);
  const std::string html = to_html(page);
  CHECK(html.find("data-value=\"1\" data-source=\"0/a\">1</td>") != std::string::npos);
}
