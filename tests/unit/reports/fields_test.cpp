#include "reports/fields.hpp"

#include "tests/catch.hpp"

using reports::csv_field;
using reports::markdown_field;

TEST_CASE("a cell that a spreadsheet would take for a formula is text") {
  CHECK(csv_field("=HYPERLINK(1)") == "'=HYPERLINK(1)");
  CHECK(csv_field("+1") == "'+1");
  CHECK(csv_field("-1,2") == "\"'-1,2\"");
  CHECK(csv_field("@SUM(1)") == "'@SUM(1)");
  CHECK(csv_field("\t=1") == "\\x09=1");
  CHECK(csv_field("a=1, b") == "\"a=1, b\"");
  CHECK(csv_field("say \"x\"") == "\"say \"\"x\"\"\"");
  CHECK(csv_field("") == "");
}

TEST_CASE("cells show hidden characters and stay on their line") {
  CHECK(csv_field("a\nb\x1b") == "a\\x0ab\\x1b");
  CHECK(markdown_field("a|b\n\x1b") == "a\\|b\\\\x0a\\\\x1b");  // read as a|b\x0a\x1b
}
