#include "core/call.hpp"

#include <atomic>

#include "core/file.hpp"
#include "core/parallel.hpp"
#include "tests/catch.hpp"

TEST_CASE("a call that was stopped ends at its next stop point, and other threads' calls go on") {
  core::Call call;
  core::stop_point();                  // the command line has no call
  const core::CallScope scope(&call);
  core::stop_point();
  call.stop();
  CHECK_THROWS_AS(core::stop_point(), core::Stopped);
  core::Call other;
  const core::CallScope inner(&other);
  core::stop_point();
}

TEST_CASE("a scope gives back the call of before") {
  const core::Call call;
  {
    const core::CallScope scope(&call);
    CHECK(core::current_call() == &call);
  }
  CHECK(core::current_call() == nullptr);
}

TEST_CASE("pieces of parallel work belong to the call of the thread that waits for them") {
  const core::Call call(core::Call::Files{{"given.txt", "text"}});
  const core::CallScope scope(&call);
  std::atomic<int> found{0};
  core::for_each_index(8, 4, [&](std::size_t) {
    if (core::file_of_call("given.txt") != nullptr) ++found;
  });
  CHECK(found == 8);
}

TEST_CASE("parallel work of a stopped call begins no further piece") {
  for (const int threads : {1, 2}) {
    core::Call call;
    const core::CallScope scope(&call);
    std::atomic<int> begun{0};
    const auto work = [&](std::size_t) {
      ++begun;
      call.stop();
    };
    CHECK_THROWS_AS(core::for_each_index(1000, threads, work), core::Stopped);
    CHECK(begun <= threads);
  }
}

TEST_CASE("a file that a call brings is read in place of the system's, within the same limit") {
  const core::Call call(
      core::Call::Files{{"/etc/hostname", "brought"}, {"nowhere/plan.json", "{}"}});
  {
    const core::CallScope scope(&call);
    CHECK(core::read_file("/etc/hostname", 100).value() == "brought");
    CHECK(core::read_file("nowhere/plan.json", 2).value() == "{}");
    CHECK_FALSE(core::read_file("nowhere/plan.json", 1).ok());
  }
  CHECK_FALSE(core::read_file("nowhere/plan.json", 2).ok());
}
