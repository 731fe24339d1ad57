// Profiles of torch.profiler, as logs.
#include "reports/logs/profile.hpp"

#include "reports/logs/log_comparison.hpp"
#include "tests/catch.hpp"
#include "tests/replaced.hpp"
#include "tests/unit/reports/sample.hpp"

using namespace reports::logs;
using Approx = Catch::Detail::Approx;

namespace {

// As Kineto writes them; two steps of 100 and 80 ms. Kernels of computation run at 0 to 50, 40 to
// 70 and 100 to 150 ms (70 and 50 in all); NCCL's at 60 to 90 (20 exposed) and 140 to 160 (10).
constexpr const char* kTrace = R"({
  "schemaVersion": 1, "profile_memory": 1, "traceEvents": [
  {"ph": "M", "name": "process_name", "ts": 0, "pid": 1, "tid": 0, "args": {"name": "python"}},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#2", "ts": 0, "dur": 100000.0},
  {"ph": "X", "cat": "gpu_user_annotation", "name": "ProfilerStep#2", "ts": 9, "dur": 99000},
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 5},
  {"ph": "X", "cat": "kernel", "name": "sm90_xmma_gemm", "ts": 0, "dur": 50000},
  {"ph": "X", "cat": "kernel", "name": "elementwise", "ts": 40000, "dur": 30000},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "ts": 60000,
   "dur": 30000},
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#3", "ts": 100000, "dur": 80000},
  {"ph": "X", "cat": "kernel", "name": "sm90_xmma_gemm", "ts": 100000, "dur": 50000},
  {"ph": "X", "cat": "kernel", "name": "ncclDevKernel_ReduceScatter", "ts": 140000, "dur": 20000},
  {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 5, "args": {
   "Device Type": 1, "Device Id": 0, "Total Allocated": 1000, "Total Reserved": 4096}},
  {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 6, "args": {
   "Device Type": 1, "Device Id": 0, "Total Allocated": 3000, "Total Reserved": 4096}},
  {"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "ts": 7, "args": {
   "Device Type": 0, "Device Id": -1, "Total Allocated": 9000, "Total Reserved": 9000}}]})";

}  // namespace

TEST_CASE("a profile's steps, kernels and peaks are read") {
  const auto log = read_log(kTrace, "trace.json");
  REQUIRE(log.ok());
  CHECK(log->format == kProfile);
  REQUIRE(log->steps.size() == 2);
  CHECK(log->steps[0].value == Approx(0.1));
  CHECK(log->steps[1].value == Approx(0.08));
  CHECK(log->allocated == core::Bytes(3000));
  CHECK(log->reserved == core::Bytes(4096));
  REQUIRE(log->device);
  CHECK(log->device->compute.value() == Approx((0.07 + 0.05) / 2));
  CHECK(log->device->communication.value() == Approx((0.03 + 0.02) / 2));
  CHECK(log->device->exposed_communication.value() == Approx((0.02 + 0.01) / 2));
}

TEST_CASE("a profile is compared with the plan term by term, and says what it measured") {
  const planner::Plan plan = reports_test::sample_plan();
  auto log = read_log(kTrace, "trace.json");
  REQUIRE(log.ok());
  const auto c = compare_log(plan, std::move(log).value(), "trace.json");
  REQUIRE(c.ok());
  std::vector<std::string> terms;
  for (const reports::ComparedTerm& t : c->terms) terms.push_back(t.term);
  CHECK(terms == std::vector<std::string>{"time.step", "throughput.tokens_per_second",
                                          "time.compute", "time.exposed_communication",
                                          "memory.live", "memory.reserved"});
  const planner::Time& time = plan.chosen->time;
  CHECK(c->terms[2].predicted == Approx((time.compute + time.optimizer).value()));
  CHECK(c->terms[3].predicted == Approx((time.exposed_communication + time.bubble).value()));
  CHECK(reports_test::has(log_text(*c, {}), "The profiler itself lengthens steps"));
  CHECK(reports_test::has(log_markdown(*c), "bubble of a pipeline"));
}

TEST_CASE("what is no profile of steps is refused by its place") {
  const auto refused = [](const std::string& text, const char* words) {
    const auto log = read_log(text, "trace.json");
    REQUIRE_FALSE(log.ok());
    INFO(core::to_text(log.problems()));
    CHECK(reports_test::has(core::to_text(log.problems()), words));
  };
  refused(R"({"traceEvents": []})", "prof.step()");
  refused(R"({"traceEvents": 3})", "prof.step()");
  refused(R"({"traceEvents": [)", "trace.json");
  refused(replaced(kTrace, "\"dur\": 80000", "\"dur\": -1"), "trace.json:11 ProfilerStep#3");
  refused(replaced(kTrace, "\"dur\": 80000", "\"dur\": \"long\""), "ProfilerStep#3");
  refused(std::string("\x1f\x8b\x08 and more"), "gunzip");
  // Of a machine without a GPU: steps alone.
  const auto host = read_log(R"({"traceEvents": [{"ph": "X", "cat": "user_annotation",
      "name": "ProfilerStep#2", "ts": 0, "dur": 1000}, 7, {"name": "[memory]", "args": 3}]})", "t");
  REQUIRE(host.ok());
  CHECK_FALSE(host->device);
  CHECK_FALSE(host->allocated);
}
