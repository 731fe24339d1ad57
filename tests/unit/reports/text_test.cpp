#include "reports/text.hpp"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <sstream>

#include "reports/comparison.hpp"
#include "reports/plan_text.hpp"
#include "reports/run_text.hpp"
#include "tests/catch.hpp"
#include "tests/unit/reports/sample.hpp"

using namespace reports;
using reports_test::has;

namespace {

// The text equals tests/golden/NAME; UPDATE_GOLDEN=1 rewrites the file instead.
void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(PLANNER_GOLDEN) + "/" + name;
  if (std::getenv("UPDATE_GOLDEN") != nullptr) {
    std::ofstream(path) << text;
    return;
  }
  std::stringstream golden;
  golden << std::ifstream(path).rdbuf();
  CHECK(golden.str() == text);
}

std::size_t longest_line(const std::string& text) {
  std::size_t longest = 0;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    longest = std::max<std::size_t>(
        longest, static_cast<std::size_t>(std::ranges::count_if(line, [](char c) {
          return (static_cast<unsigned char>(c) & 0xC0) != 0x80;
        })));
  return longest;
}

// What no terminal is too narrow or too wide for: a pipeline with many stages and long lists.
planner::Plan wordy_plan() {
  planner::Plan plan = reports_test::sample_plan();
  plan.chosen->strategy.pipeline = 16;
  plan.chosen->strategy.stages.assign(16, 8);
  plan.chosen->memory.stages.assign(20, plan.chosen->memory.stages.front());
  plan.alternatives.assign(7, *plan.chosen);
  plan.rejected.front().strategy = plan.chosen->strategy;
  return plan;
}

}  // namespace

TEST_CASE("words wrap at 80 columns and a long word stands alone") {
  const std::string long_word(90, 'x');
  CHECK(wrapped("a b", 2, 4) == "  a b\n");
  CHECK(wrapped("a " + long_word + " b", 2, 4) == "  a\n    " + long_word + "\n    b\n");
}

TEST_CASE("a number stays on the line of its unit") {
  CHECK(wrapped("wait for 8.3 %.", 0, 2, {.width = 13}) == "wait for\n  8.3 %.\n");
  CHECK(wrapped("wait for 12 GiB, or", 0, 2, {.width = 12}) == "wait for\n  12 GiB, or\n");
  CHECK(wrapped("of 4 ranks", 0, 2, {.width = 6}) == "of 4\n  ranks\n");
  CHECK(wrapped("of 4 d", 0, 2, {.width = 5}) == "of\n  4 d\n");
}

TEST_CASE("a table right-aligns numbers and wraps its last column inside itself") {
  Table table({{"n"}, {"text", Align::left}});
  table.add({"1", "short"});
  table.add({"100", std::string(50, 'a') + " " + std::string(30, 'b')});
  CHECK(table.text() == "    n  text\n    1  short\n  100  " + std::string(50, 'a') +
                            "\n       " + std::string(30, 'b') + "\n");
}

TEST_CASE("a bar is filled by its fraction, within its width") {
  CHECK(bar(0.5, 4) == "##..");
  CHECK(bar(7, 4) == "####");
  CHECK(bar(-1, 4) == "....");
}

TEST_CASE("percentages keep three digits or fewer") {
  CHECK(percent_text(0.1234) == "12.3 %");
  CHECK(percent_text(0.001) == "0.10 %");
  CHECK(percent_text(1.5) == "150 %");
  CHECK(percent_text(0) == "0.0 %");
}

TEST_CASE("a long word breaks after a comma where it can") {
  CHECK(wrapped("a stages=8,8,8,8 b", 2, 4, {.width = 14}) ==
        "  a stages=8,\n    8,8,8 b\n");
}

TEST_CASE("a bar in eighths of a block shows anything above nothing") {
  const TextStyle unicode{.unicode = true};
  CHECK(bar(0, 3, unicode) == "\u00b7\u00b7\u00b7");
  CHECK(bar(0.0001, 3, unicode) == "\u258f\u00b7\u00b7");
  CHECK(bar(0.5, 3, unicode) == "\u2588\u258c\u00b7");  // 12 of 24 eighths
  CHECK(bar(1, 3, unicode) == "\u2588\u2588\u2588");
  CHECK(bar(0.0001, 3) == "#..");
}

TEST_CASE("blocks stand beside each other when both fit, else below") {
  CHECK(beside("ab\nc\n", "x\ny\nz\n", 2, {.width = 5}) == "ab  x\nc   y\n    z\n");
  CHECK(beside("ab\n", "x\n", 2, {.width = 4}) == "ab\n\nx\n");
  CHECK(beside("\033[1mab\033[0m\n", "x\n", 2, {.width = 5}) == "\033[1mab\033[0m  x\n");
}

TEST_CASE("a plan prints as its golden pages, narrow and wide, without colour") {
  const std::string narrow = plan_text(reports_test::sample_plan(), {.full = true});
  check_golden("plan_80.txt", narrow);
  check_golden("plan_short.txt", plan_text(reports_test::sample_plan(), {}));
  CHECK(longest_line(narrow) <= 80);
  CHECK(narrow.find('\033') == std::string::npos);
  CHECK(std::ranges::all_of(narrow, [](char c) { return static_cast<unsigned char>(c) < 128; }));
  const std::string wide =
      plan_text(reports_test::sample_plan(),
                {.style = {.unicode = true, .width = 200}, .full = true});
  check_golden("plan_200.txt", wide);
  CHECK(longest_line(wide) > 100);
}

TEST_CASE("no page is wider than its terminal") {
  for (int width = kMinWidth; width <= kMaxWidth; ++width)
    for (const planner::Plan& plan : {reports_test::sample_plan(), wordy_plan()}) {
      for (const bool full : {false, true}) {
        const std::string text =
            plan_text(plan, {.style = {.unicode = true, .width = width}, .full = full});
        INFO("width " << width << '\n' << text);
        CHECK(longest_line(text) <= static_cast<std::size_t>(std::max(width, kWidth)));
      }
    }
}

TEST_CASE("the recommendation is the first line of the page") {
  CHECK(plan_text(reports_test::sample_plan(), {}).starts_with("Recommended: data=4 tensor=2"));
}

TEST_CASE("whose figures a page has, and how true they were, are said of what it plans") {
  planner::Plan plan = reports_test::sample_plan();
  const auto says = [&](std::string_view text) {
    return plan_text(plan, {.style = {.width = 200}}).find(text) != std::string::npos;
  };
  CHECK(says("this tool's own executor. On an H200"));
  plan.job.precision = core::DType::f8;
  CHECK(says("this tool's own executor. No GPU has run its products in 8 bits yet."));
  CHECK_FALSE(says("On an H200"));
  plan.assumptions.push_back(std::string(planner::kNoKernels) + "attention" +
                             std::string(planner::kNoKernelsWhere));
  CHECK(says("as if it had kernels on GPUs for attention."));
}

TEST_CASE("a plan without a feasible strategy says why and what would fit") {
  planner::Plan plan = reports_test::sample_plan();
  plan.chosen.reset();
  plan.alternatives.clear();
  CHECK(has(plan_text(plan, {}), "no feasible strategy"));
  CHECK(has(why_infeasible(plan), "90.0 GiB"));
  CHECK(has(why_infeasible(plan), "sharding=zero1"));
}

TEST_CASE("colour adds escapes and changes no other character") {
  std::string coloured = plan_text(reports_test::sample_plan(), {.style = {.colour = true}});
  REQUIRE(coloured.find('\033') != std::string::npos);
  std::string plain;
  for (std::size_t i = 0; i < coloured.size(); ++i) {
    if (coloured[i] == '\033') i = coloured.find('m', i);
    else plain += coloured[i];
  }
  CHECK(plain == plan_text(reports_test::sample_plan(), {}));
}

TEST_CASE("a comparison and a run print as their golden pages") {
  const exec::RunRecord run = reports_test::sample_run();
  const Comparison c = compare(reports_test::sample_plan(), run, "run.json").value();
  check_golden("compare.txt", comparison_text(c, {}));
  check_golden("run.txt", run_text(run, {}));
}

TEST_CASE("numbers are never in e-notation") {
  CHECK(number_text(0) == "0");
  CHECK(number_text(2.69) == "2.69");
  CHECK(number_text(12.3456) == "12.35");
  CHECK(number_text(0.0000123456) == "0.00001235");
  CHECK(number_text(999.96) == "1,000");
  CHECK(number_text(6348.4) == "6,348");
  CHECK(number_text(-6348.4) == "-6,348");
  CHECK(number_text(1'234'567) == "1.23 M");
  CHECK(number_text(4.68e12) == "4.68 T");
  CHECK(number_text(4.68e20).find('e') == std::string::npos);
}
