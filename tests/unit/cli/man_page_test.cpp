#include "cli/man_page.hpp"

#include "tests/catch.hpp"

namespace {

using cli::roff_text;
using core::Json;

Json verb(const char* name, const char* help) {
  return Json::object(
      {{"name", name},
       {"purpose", ".so /etc/passwd"},
       {"examples", "  planner \\ 'x'"},
       {"arguments", Json::array({Json::object({{"name", "FILE"},
                                                {"takes", "values"},
                                                {"required", true},
                                                {"help", help}})})},
       {"options", Json::array({Json::object({{"name", "--out"},
                                              {"takes", "value"},
                                              {"help", help},
                                              {"value", "FILE"},
                                              {"group", "Output"}})})}});
}

}  // namespace

TEST_CASE("no text of a manual page is a request or an escape of roff") {
  CHECK(roff_text("--json") == "\\-\\-json");
  CHECK(roff_text(".so /etc/passwd") == "\\&.so /etc/passwd");
  CHECK(roff_text("a.b\n.x\n'y") == "a.b\n\\&.x\n\\&\\(aqy");
  CHECK(roff_text("a\\nb") == "a\\enb");
  CHECK(roff_text("~ ^ ` \"") == "\\(ti \\(ha \\(ga \\(dq");
}

TEST_CASE("a manual page has a section for each verb, with its options in their groups") {
  const std::string page =
      cli::man_page(Json::array({verb("plan", "plan it"), verb("emit", "emit it")}), "1.2.3");
  CHECK(page.find(".TH PLANNER 1 \"\" \"planner 1.2.3\"") != std::string::npos);
  CHECK(page.find("\\fBplanner\\fR \\fIFILE\\fR ... [\\fIOPTION\\fR]...") != std::string::npos);
  const std::size_t section = page.find(".SH \"PLANNER EMIT\"\n\\&.so /etc/passwd\n");
  REQUIRE(section != std::string::npos);
  CHECK(page.find(".SS \"Output\"\n.TP\n\\fB\\-\\-out\\fR \\fIFILE\\fR\nemit it\n", section) !=
        std::string::npos);
  CHECK(page.find("\n.so") == std::string::npos);
  CHECK(page.find(".SH \"EXIT STATUS\"\nExit codes: 0 done;") != std::string::npos);
}
