#include "exec/run/device_times.hpp"

#include "exec/run/trace.hpp"
#include "tests/catch.hpp"

using namespace exec;
using program::ActionKind;
using program::Stream;

namespace {

// Two products and a sum of gradients beside them: a kernel apart from another, two of one action
// that ran at one time, one within a stretch of another stream's.
struct Step {
  Step() {
    program::RankClass k;
    k.name = "stage 0";
    k.operators.resize(1);
    k.operators[0].name = "fc";
    k.actions.resize(2);
    k.actions[0].kind = ActionKind::forward;
    k.actions[0].op = 0;
    k.actions[1].kind = ActionKind::accumulate;
    k.actions[1].stream = Stream::gradient;
    k.blocks.push_back({"block"});
    program.classes = {k};
    StepLog& log = logs.emplace_back();
    log.streams[0] = {{0, 0, {}, 1.0, 3.0}, {0, 0, {}, 3.0, 6.0}};
    log.streams[static_cast<std::size_t>(Stream::gradient)] = {{1, 0, {}, 5.0, 7.5}};
  }
  void kernel(Stream s, std::uint32_t entry, const char* name, double start, double finish) {
    if (!logs[0].kernels) logs[0].kernels.emplace();
    logs[0].kernels->push_back({s, entry, name, start, finish});
  }
  program::Program program;
  std::vector<StepLog> logs;
};

Step recorded() {
  Step s;
  s.kernel(Stream::compute, 0, "gemm", 1.5, 2.5);
  s.kernel(Stream::compute, 1, "gemm", 3.5, 5.0);
  s.kernel(Stream::compute, 1, "bias", 4.5, 5.5);
  s.kernel(Stream::gradient, 0, "add", 5.25, 7.0);
  return s;
}

}  // namespace

TEST_CASE("actions have the sum and the union of their own kernels beside their events") {
  const Step s = recorded();
  const auto t = device_times(s.program, s.logs, 0);
  REQUIRE(t);
  REQUIRE(t->actions.size() == 2);
  const MeasuredAction &sum = t->actions[0], &product = t->actions[1];
  CHECK(sum.name == "accumulate");
  CHECK(sum.kernels == 1);
  CHECK(sum.covered == core::Seconds(1.75));
  CHECK(product.name == "forward fc");
  CHECK(product.actions == 2);
  CHECK(product.kernels == 3);
  CHECK(product.events == core::Seconds(2.0 + 3.0));
  CHECK(product.sum == core::Seconds(1.0 + 1.5 + 1.0));
  CHECK(product.covered == core::Seconds(1.0 + 2.0));  // 3.5 to 5.5 once
}

TEST_CASE("a step is busy where any kernel ran, and has gaps between its first and its last") {
  const Step s = recorded();
  const auto t = device_times(s.program, s.logs, 0);
  REQUIRE(t);
  CHECK(t->events == core::Seconds(6.5));       // 1 to 7.5
  CHECK(t->busy == core::Seconds(1.0 + 3.5));   // 1.5 to 2.5, 3.5 to 7
  CHECK(t->gaps == core::Seconds(1.0));         // 2.5 to 3.5
  REQUIRE(t->kernels.size() == 3);
  CHECK(t->kernels[0].name == "gemm");
  CHECK(t->kernels[0].calls == 2);
  CHECK(t->kernels[0].total == core::Seconds(2.5));
  CHECK(t->kernels[1].name == "add");
  CHECK(t->kernels[2].name == "bias");
}

TEST_CASE("a device that was not asked has no times, one that ran nothing has zeros") {
  Step s;
  CHECK_FALSE(device_times(s.program, s.logs, 0));
  s.logs[0].kernels.emplace();
  const auto t = device_times(s.program, s.logs, 0);
  REQUIRE(t);
  CHECK(t->busy == core::Seconds(0));
  CHECK(t->gaps == core::Seconds(0));
  CHECK(t->actions.size() == 2);
}

TEST_CASE("a trace has a lane of kernels beside each stream, under the action that gave them") {
  const Step s = recorded();
  const std::string text = write_trace(s.program, s.logs, {TraceDetail::op}).value().bytes;
  CHECK(text.find(R"("name":"compute kernels")") != std::string::npos);
  CHECK(text.find(R"("name":"gradient kernels")") != std::string::npos);
  // From the first action on, in microseconds; the second of two at one time from the first's end.
  CHECK(text.find(R"("name":"gemm","cat":"kernel","pid":0,"tid":9,"ts":500000.000,)"
                  R"("dur":1000000.000,"args":{"action":"forward fc")") != std::string::npos);
  CHECK(text.find(R"("name":"bias","cat":"kernel","pid":0,"tid":9,"ts":4000000.000,)"
                  R"("dur":500000.000)") != std::string::npos);
  Step plain;
  CHECK(write_trace(plain.program, plain.logs, {TraceDetail::op}).value().bytes.find("kernels") ==
        std::string::npos);
}
