#include "core/parallel.hpp"

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/catch.hpp"

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
