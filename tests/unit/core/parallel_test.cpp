#include "core/parallel.hpp"

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "core/thread.hpp"
#include "tests/catch.hpp"
#include "tests/no_threads.hpp"

TEST_CASE("every piece of work is done once, on any number of threads") {
  for (const int threads : {0, 1, 2, 7})
    for (const std::size_t count : {0, 1, 2, 100}) {
      std::vector<std::atomic<int>> done(count);
      core::for_each_index(count, threads, [&](std::size_t i) { ++done[i]; });
      for (const std::atomic<int>& n : done) CHECK(n == 1);
    }
}

TEST_CASE("of several pieces that throw, the first by index is heard, and all others were done") {
  for (const int threads : {2, 8}) {
    std::atomic<int> done{0};
    std::string heard;
    try {
      core::for_each_index(20, threads, [&](std::size_t i) {
        ++done;
        if (i == 3 || i == 17) throw std::runtime_error(std::to_string(i));
      });
    } catch (const std::runtime_error& e) {
      heard = e.what();
    }
    CHECK(heard == "3");
    CHECK(done == 20);
  }
}

TEST_CASE("where threads are refused, those that could be made do all the work") {
  for (int allowed = 0; allowed <= 3; ++allowed)
    for (const std::size_t count : {2, 50}) {
      const no_threads::Only only(allowed);
      std::vector<std::atomic<int>> done(count);
      core::for_each_index(count, 8, [&](std::size_t i) { ++done[i]; });
      for (const std::atomic<int>& n : done) CHECK(n == 1);
    }
}

TEST_CASE("a thread that is refused says for whom it was, and what to do") {
  const no_threads::Only only(0);
  try {
    core::start_thread("rank 3", [] {}).join();
    FAIL("it started");
  } catch (const core::ThreadRefused& refused) {
    const core::Problem p = core::thread_problem(refused, "8 threads");
    CHECK(core::to_text(p).starts_with(
        "threads: expected 8 threads, found no thread for rank 3: Resource temporarily "
        "unavailable; raise the limits"));
    CHECK(core::exit_code({p}) == 3);
  }
}

TEST_CASE("the caller's thread does the first piece") {
  for (int round = 0; round < 50; ++round) {
    std::thread::id first;
    core::for_each_index(8, 4, [&](std::size_t i) {
      if (i == 0) first = std::this_thread::get_id();
    });
    REQUIRE(first == std::this_thread::get_id());
  }
}
