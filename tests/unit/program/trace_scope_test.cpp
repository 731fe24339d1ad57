#include "sim/program/trace_scope.hpp"

#include <fmt/format.h>

#include "core/json.hpp"
#include "tests/catch.hpp"

using program::IndexRanges;
using program::TraceChoice;
using program::TraceFormat;
using program::TraceSubject;

namespace {

IndexRanges parsed(std::string_view text) {
  return program::parse_index_ranges(text, "--ranks").value();
}

// One slice for each rank and micro-batch that is shown, and one that ends the step: in JSON all
// are of 100 bytes or a little less.
void draw(program::TraceFile& file, const program::TraceScope& scope) {
  for (const int rank : scope.ranks)
    for (std::int64_t m = 0; m <= scope.of_micro_batches; ++m) {
      const std::string name = fmt::format("rank {} micro-batch {}", rank, m);
      if (m == scope.of_micro_batches || scope.shows(m))
        file.slice({0, name, "pass", m * 1000, (m + 1) * 1000});
    }
}

program::Trace written(const TraceChoice& choice, const TraceSubject& subject) {
  return program::write_trace(choice, subject, draw).value();
}

TraceSubject of(std::int64_t ranks, std::vector<int> unlike, std::int64_t micro_batches) {
  TraceSubject s;
  s.ranks = ranks;
  s.unlike = std::move(unlike);
  s.micro_batches = micro_batches;
  return s;
}

}  // namespace

TEST_CASE("ranks and micro-batches are read as numbers, ranges and all of them") {
  CHECK(program::to_text(parsed("0,3,8-11")) == "0, 3, 8 to 11");
  CHECK(program::to_text(parsed("0..3")) == "0 to 3");
  CHECK(program::to_text(parsed("4,3,2,9..10,10")) == "2 to 4, 9 to 10");
  CHECK(program::has(parsed("all"), 1 << 20));
  CHECK(!program::has(parsed("8.."), 7));
  CHECK(program::has(parsed("8..,2"), 1000));
  for (const char* text : {"", "x", "3-1", "-1", "1,", "1..x", "1-", "5000000000", "1 2"}) {
    const auto ranges = program::parse_index_ranges(text, "--ranks");
    INFO(text);
    REQUIRE(!ranges.ok());
    CHECK(ranges.problems().front().where == "--ranks");
  }
}

TEST_CASE("what fits is shown whole; else like ranks once, then fewer micro-batches, then ranks") {
  const TraceSubject subject = of(8, {0, 4}, 50);
  TraceChoice choice;
  choice.most_bytes = 8 * 51 * 110;
  CHECK(written(choice, subject).scope.whole());

  choice.most_bytes = 2 * 51 * 110;
  program::Trace trace = written(choice, subject);
  CHECK(trace.scope.ranks == std::vector<int>{0, 4});
  CHECK((trace.scope.once_each && trace.scope.all_micro_batches && trace.scope.chosen));

  choice.most_bytes = 2 * 21 * 100;
  trace = written(choice, subject);
  CHECK(trace.scope.ranks == std::vector<int>{0, 4});
  const std::int64_t last = trace.scope.micro_batches.front().high;
  CHECK((last > 10 && last < 49));
  CHECK(trace.bytes.size() <= choice.most_bytes);
  choice.ranks = IndexRanges{{0, 0}, {4, 4}};
  choice.micro_batches = IndexRanges{{0, last + 1}};
  CHECK(written(choice, subject).bytes.size() > choice.most_bytes);  // one more would not fit

  choice = {};
  choice.most_bytes = 300;
  trace = written(choice, subject);
  CHECK(trace.scope.ranks == std::vector<int>{0});
  CHECK(program::to_text(trace.scope.micro_batches) == "0");
  choice.most_bytes = 1;               // one rank and one micro-batch are always shown
  CHECK(written(choice, subject).scope.ranks == std::vector<int>{0});
}

TEST_CASE("what is asked for is shown, however large, and what is not there is refused") {
  const TraceSubject subject = of(8, {0, 4}, 50);
  TraceChoice choice;
  choice.most_bytes = 300;
  choice.ranks = parsed("2,6");
  choice.micro_batches = parsed("3..4,49");
  program::Trace trace = written(choice, subject);
  CHECK(trace.scope.ranks == std::vector<int>{2, 6});
  CHECK(program::to_text(trace.scope) ==
        "shows ranks 2, 6 of 8 and micro-batches 3 to 4, 49 of 50.");
  choice.ranks = parsed("all");
  choice.micro_batches = parsed("all");
  trace = written(choice, subject);
  CHECK(trace.scope.whole());
  CHECK(trace.bytes.size() > 8 * 50 * 80);
  CHECK(program::to_text(trace.scope) == "shows every rank and every micro-batch.");

  choice.ranks = parsed("8");
  choice.micro_batches = parsed("50..");
  const auto refused = program::write_trace(choice, subject, draw);
  REQUIRE(!refused.ok());
  REQUIRE(refused.problems().size() == 2);
  CHECK(refused.problems()[0].where == "--ranks");
  CHECK(refused.problems()[0].expected == "ranks from 0 to 7");
  CHECK(refused.problems()[1].where == "--micro-batches");

  choice = {};
  choice.ranks = choice.micro_batches = parsed("all");
  choice.most_bytes_asked = 500;
  CHECK(!program::write_trace(choice, subject, draw).ok());
}

TEST_CASE("of more ranks than a viewer shows, one of each that behave alike is drawn") {
  const program::Trace trace = written({}, of(65, {0, 30}, 1));
  CHECK(trace.scope.ranks == std::vector<int>{0, 30});
  CHECK(program::to_text(trace.scope) ==
        "shows ranks 0, 30 of 65 (of ranks that behave alike, one) and every micro-batch, so that "
        "a browser opens it. All of them: --ranks all --micro-batches all.");
}
