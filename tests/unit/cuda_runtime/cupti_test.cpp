// What cupti_activity.cpp asks of CUPTI and reads from it, played on the host.
#include <algorithm>
#include <map>
#include <thread>

#include "tests/catch.hpp"
#include "tests/unit/cuda_runtime/fake_cupti.hpp"

using exec::cuda::ActivityLibrary;
using exec::cuda::DeviceRecord;
using exec::cuda::DeviceRecords;
using exec::cuda::OpenedActivity;
using exec::cuda::open_cupti;
using fake_cupti::answers;

namespace {

// void exec::cuda::sum<float>(float*, int)
constexpr const char* kSum = "_ZN4exec4cuda3sumIfEEvPfi";

std::unique_ptr<ActivityLibrary> opened() {
  OpenedActivity o = open_cupti(fake_cupti::calls());
  REQUIRE(o.absent == "");
  REQUIRE(o.library != nullptr);
  return std::move(o.library);
}

// By number: the names of what was given under it, by start.
std::map<std::uint64_t, std::vector<std::string>> by_giver(DeviceRecords records) {
  std::ranges::sort(records.all, {}, &DeviceRecord::start);
  std::map<std::uint64_t, std::vector<std::string>> all;
  for (const DeviceRecord& r : records.all) all[r.giver].push_back(r.name);
  return all;
}

}  // namespace

TEST_CASE("kernels, copies and fills belong to the number that their thread had pushed") {
  fake_cupti::reset();
  const auto library = opened();
  REQUIRE(library->start() == "");
  library->push(11);
  fake_cupti::launch(kSum, 100, 200);
  fake_cupti::copy(CUPTI_ACTIVITY_MEMCPY_KIND_HTOD, 210, 220);
  // Another thread's launches are not this one's, whenever they happen.
  std::thread([&] {
    fake_cupti::launch(kSum, 120, 130);
    library->push(std::uint64_t{3} << 40);
    fake_cupti::fill(130, 140);
    library->pop();
  }).join();
  library->pop();
  fake_cupti::launch(kSum, 300, 310);
  library->stop();
  const auto all = by_giver(library->take());
  REQUIRE(all.size() == 3);
  CHECK(all.at(11) == std::vector<std::string>{"exec::cuda::sum<float>", "copy, host to device"});
  CHECK(all.at(std::uint64_t{3} << 40) == std::vector<std::string>{"fill"});
  CHECK(all.at(0).size() == 2);
  CHECK(library->take().all.empty());
}

TEST_CASE("a giver's record is found in whichever buffer it comes, and in whichever order") {
  for (const bool newest_first : {false, true}) {
    for (const std::size_t in_one : {1, 2, 5}) {
      fake_cupti::reset();
      answers.newest_first = newest_first;
      answers.records_per_buffer = in_one;
      const auto library = opened();
      REQUIRE(library->start() == "");
      for (std::uint64_t n = 1; n <= 40; ++n) {
        library->push(n);
        fake_cupti::launch(n % 2 == 0 ? kSum : "plain", 10 * n, 10 * n + 5);
        library->pop();
      }
      library->stop();
      const auto all = by_giver(library->take());
      REQUIRE(all.size() == 40);
      for (std::uint64_t n = 1; n <= 40; ++n)
        CHECK(all.at(n).front() == (n % 2 == 0 ? "exec::cuda::sum<float>" : "plain"));
    }
  }
}

TEST_CASE("moments are of the steady clock, whatever CUPTI counts from") {
  fake_cupti::reset();
  const auto library = opened();
  REQUIRE(library->start() == "");
  fake_cupti::launch(kSum, 1'000'000, 3'500'000);
  library->stop();
  const DeviceRecords records = library->take();
  REQUIRE(records.all.size() == 1);
  const DeviceRecord& r = records.all.front();
  // 1 ms after the fake's zero; two readings of the clock lie within a pre-emption of each other.
  CHECK(std::abs(r.start - (fake_cupti::zero() + 1e-3)) < 0.05);
  CHECK(std::abs(r.finish - r.start - 2.5e-3) < 1e-6);
}

TEST_CASE("what a graph launches is the graph's, also where an action launched the graph") {
  fake_cupti::reset();
  const auto library = opened();
  REQUIRE(library->start() == "");
  library->push(5);
  fake_cupti::launch(kSum, 10, 20, true);
  fake_cupti::launch(kSum, 20, 30);
  library->pop();
  library->stop();
  const DeviceRecords records = library->take();
  REQUIRE(records.all.size() == 2);
  CHECK(std::ranges::count_if(records.all, &DeviceRecord::of_graph) == 1);
  for (const DeviceRecord& r : records.all) CHECK(r.giver == (r.of_graph ? 0u : 5u));
}

TEST_CASE("dropped records, and those without their moments, are counted and not read") {
  fake_cupti::reset();
  const auto library = opened();
  REQUIRE(library->start() == "");
  fake_cupti::launch(kSum, 0, 0);
  fake_cupti::launch(kSum, 50, 40);
  fake_cupti::launch(kSum, 50, 60);
  library->stop();
  answers.dropped = 4;
  const DeviceRecords records = library->take();
  CHECK(records.all.size() == 1);
  CHECK(records.lost == 6);
  CHECK(records.failed == "");
}

TEST_CASE("a buffer that ends within a record, and a flush that fails, are said") {
  fake_cupti::reset();
  answers.cuts_last = true;
  answers.records_per_buffer = 4;      // of two launches, each with its call's
  const auto library = opened();
  REQUIRE(library->start() == "");
  for (const std::uint64_t n : {1, 2, 3, 4}) fake_cupti::launch(kSum, 10 * n, 10 * n + 5);
  library->stop();
  answers.flush = CUPTI_ERROR_UNKNOWN;
  const DeviceRecords records = library->take();
  CHECK(records.all.size() == 2);
  CHECK(records.lost == 2);
  CHECK(records.failed == "cuptiActivityFlushAll: another result");
}

TEST_CASE("nothing is recorded before start and after stop") {
  fake_cupti::reset();
  auto library = opened();
  fake_cupti::launch(kSum, 1, 2);
  REQUIRE(library->start() == "");
  fake_cupti::launch(kSum, 3, 4);
  library->stop();
  CHECK(fake_cupti::enabled_kinds() == 0);
  fake_cupti::launch(kSum, 5, 6);
  REQUIRE(library->start() == "");
  fake_cupti::launch(kSum, 7, 8);
  library->stop();
  CHECK(library->take().all.size() == 2);
  REQUIRE(library->start() == "");
  fake_cupti::launch(kSum, 9, 10);
  library.reset();                     // a run that failed
  CHECK(fake_cupti::enabled_kinds() == 0);
  CHECK(fake_cupti::subscribers() == 0);
}

TEST_CASE("another profiler, missing rights and another CUDA's CUPTI are said, with what to do") {
  fake_cupti::reset();
  answers.subscribe = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  const OpenedActivity busy = open_cupti(fake_cupti::calls());
  CHECK(busy.library == nullptr);
  CHECK(busy.absent == "cuptiSubscribe: CUPTI_ERROR_MULTIPLE_SUBSCRIBERS; another profiler is "
                       "attached: run without it");

  for (const auto kind : {CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION, CUPTI_ACTIVITY_KIND_MEMCPY,
                          CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL}) {
    fake_cupti::reset();
    answers.refused_kind = kind;
    answers.refused_with = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
    const auto library = opened();
    const std::string why = library->start();
    CHECK(why.starts_with("cuptiActivityEnable: CUPTI_ERROR_INSUFFICIENT_PRIVILEGES; let users"));
    CHECK(fake_cupti::enabled_kinds() == 0);  // nothing is left on
  }

  constexpr bool kBuiltFor13 = CUPTI_API_VERSION >= 130000;
  for (const std::uint32_t other : {17u, kBuiltFor13 ? 28u : 130001u, 140000u}) {
    fake_cupti::reset();
    answers.version = other;
    const OpenedActivity o = open_cupti(fake_cupti::calls());
    CHECK(o.library == nullptr);
    CHECK(o.absent.find("this binary was built for that of CUDA") != std::string::npos);
    CHECK(fake_cupti::subscribers() == 0);
  }
  fake_cupti::reset();
  answers.version = kBuiltFor13 ? 130205 : 18;  // a later one of the same, or the first
  CHECK(opened()->name() == (kBuiltFor13 ? "CUPTI 13.2" : "CUPTI 12.x"));
}

TEST_CASE("a kernel is named without its arguments") {
  using exec::cuda::readable_kernel;
  CHECK(readable_kernel(kSum) == "exec::cuda::sum<float>");
  CHECK(readable_kernel("ampere_sgemm_32x32_sliced1x4_tn") == "ampere_sgemm_32x32_sliced1x4_tn");
  CHECK(readable_kernel("_ZN12_GLOBAL__N_13addEPfS0_") == "(anonymous namespace)::add");
  CHECK(readable_kernel("_Z5applyPFivE") == "apply");  // apply(int (*)())
  CHECK(readable_kernel(nullptr) == "a kernel without a name");
}
