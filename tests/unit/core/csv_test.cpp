#include "core/csv.hpp"

#include "tests/catch.hpp"

using namespace core;

namespace {

CsvTable parsed_table(std::string_view text) {
  auto table = parse_csv(text, "runs.csv");
  REQUIRE(table.ok());
  return std::move(table).value();
}

std::string table_refusal(std::string_view text) {
  const auto table = parse_csv(text, "runs.csv");
  REQUIRE(!table.ok());
  return to_text(table.problems());
}

}  // namespace

TEST_CASE("CSV cells are read by column name and type") {
  const CsvTable table = parsed_table("id,gpus,seconds,tied\nx,8,0.5,1\ny,,,false\n");
  REQUIRE(table.size() == 2);
  Problems problems;
  std::string id;
  std::int64_t gpus = 0;
  double seconds = 0;
  bool tied = false;
  const CsvRow first = table.rows()[0], second = table.rows()[1];
  CHECK(first.required("id", id, problems));
  CHECK(first.required("gpus", gpus, at_least(1), problems));
  CHECK(first.optional("seconds", seconds, positive(), problems));
  CHECK(first.required("tied", tied, problems));
  CHECK(id == "x");
  CHECK(gpus == 8);
  CHECK(seconds == 0.5);
  CHECK(tied);
  CHECK(!second.optional("seconds", seconds, positive(), problems));
  CHECK(second.required("tied", tied, problems));
  CHECK(!tied);
  CHECK(seconds == 0.5);
  CHECK(problems.empty());
}

TEST_CASE("quoted CSV fields hold commas, quotes and newlines, and rows end with CRLF or LF") {
  const CsvTable table = parsed_table("\xEF\xBB\xBF" "a,b\r\n\"1,\"\"2\"\"\",\"x\ny\"\r\n\r\n3,4");
  REQUIRE(table.size() == 2);
  CHECK(table.columns() == std::vector<std::string>{"a", "b"});
  CHECK(table.rows()[0].text("a") == "1,\"2\"");
  CHECK(table.rows()[0].text("b") == "x\ny");
  CHECK(table.rows()[0].line() == 2);
  CHECK(table.rows()[1].text("b") == "4");
  CHECK(table.rows()[1].line() == 5);
}

TEST_CASE("a CSV cell that does not fit names line, column, range and content") {
  const CsvTable table = parsed_table("gpus,t,on\n0,-1,maybe\n8x,nan,\n");
  Problems problems;
  std::int64_t gpus = 1;
  double t = 1;
  bool on = true;
  for (const CsvRow& row : table.rows()) {
    row.required("gpus", gpus, at_least(1), problems);
    row.required("t", t, positive(), problems);
    row.required("on", on, problems);
  }
  CHECK(to_text(problems) ==
        "runs.csv:2 column gpus: expected an integer >= 1, found \"0\"\n"
        "runs.csv:2 column t: expected a number above 0, found \"-1\"\n"
        "runs.csv:2 column on: expected 0, 1, true or false, found \"maybe\"\n"
        "runs.csv:3 column gpus: expected an integer >= 1, found \"8x\"\n"
        "runs.csv:3 column t: expected a number above 0, found \"nan\"\n"
        "runs.csv:3 column on: expected 0, 1, true or false, found an empty cell\n");
}

TEST_CASE("missing CSV columns are named with the nearest one there is") {
  const CsvTable table = parsed_table("id,gpu_count\n1,2\n");
  Problems problems;
  CHECK(table.require_columns({"id"}, problems));
  CHECK(!table.require_columns({"gpus_count", "seconds"}, problems));
  std::string text;
  CHECK(!table.rows()[0].required("seconds", text, problems));
  CHECK(to_text(problems) ==
        "runs.csv:1: expected a column \"gpus_count\", found none; is it \"gpu_count\"?\n"
        "runs.csv:1: expected a column \"seconds\", found none\n"
        "runs.csv:2 column seconds: expected a text, found no such column\n");
}

TEST_CASE("malformed CSV is refused with its lines") {
  CHECK(table_refusal("") == "runs.csv:1: expected a header row, found an empty file\n");
  CHECK(table_refusal("a,b\n1\n2,3\n4,5,6\n") ==
        "runs.csv:2: expected 2 fields, as in the header, found 1\n"
        "runs.csv:4: expected 2 fields, as in the header, found 3\n");
  CHECK(table_refusal("a,,a\n") ==
        "runs.csv:1: expected a name for column 2, found an empty cell\n"
        "runs.csv:1: expected column \"a\" once, found it twice\n");
  CHECK(table_refusal("a\n\"x\ny") ==
        "runs.csv:2: expected a closing quote, found the end of the file\n");
  CHECK(table_refusal("a\n\"x\"y\n") ==
        "runs.csv:2: expected a comma or the end of the line after a closing quote, found 'y'; "
        "write a quote inside a field twice: \"\"\n");
}

TEST_CASE("CSV with more columns, cells or bad rows than memory is for is refused by its line") {
  std::string wide = "c0";
  for (int i = 1; i <= 4096; ++i) wide += ",c" + std::to_string(i);
  CHECK(table_refusal(wide) == "runs.csv:1: expected at most 4096 columns, found more\n");
  CHECK(table_refusal("a,b\n" + std::string(1 << 20, ',')) ==
        "runs.csv:2: expected at most 4096 columns, found more\n");
  std::string deep = "a,b\n", ragged = "a,b\n";
  for (int i = 0; i < 1 << 21; ++i) deep += ",\n";
  CHECK(table_refusal(deep) ==
        "runs.csv:2097153: expected at most 4194304 cells, found more; divide the file\n");
  for (int i = 0; i < 1 << 20; ++i) ragged += "1,2,3\n";
  Problems bad;
  const auto table = parse_csv(ragged, "runs.csv", &bad);
  REQUIRE(!table.ok());
  CHECK(table.problems().size() == 1001);
}
