#include "exec/calibrate/point_book.hpp"

#include <atomic>
#include <stdexcept>

#include "core/thread.hpp"
#include "tests/catch.hpp"
#include "tests/no_threads.hpp"

using exec::PointBook;

namespace {

PointBook book_of(int ranks) {
  exec::BookOptions options;
  options.ranks = ranks;
  options.budget = core::Seconds(0);
  return PointBook::open(std::move(options)).value();
}

}  // namespace

TEST_CASE("a measurement whose rank cannot start ends, and no rank has begun") {
  for (int allowed = 0; allowed < 3; ++allowed) {
    PointBook book = book_of(4);
    std::atomic<int> begun{0};
    const no_threads::Only only(allowed);
    CHECK_THROWS_AS(book.measure("x", [&](int) { return [&] { ++begun; }; }), core::ThreadRefused);
    CHECK(begun == 0);
  }
}

TEST_CASE("a rank that fails, at whatever repeat, ends the measurement of all") {
  for (int rank = 0; rank < 3; ++rank)
    for (int repeat = 0; repeat < 6; ++repeat) {
      CAPTURE(rank, repeat);
      PointBook book = book_of(3);
      const auto make = [&](int r) {
        return [=, n = 0]() mutable {
          if (r == rank && n++ == repeat) throw std::runtime_error("the rank failed");
        };
      };
      CHECK_THROWS_WITH(book.measure("x", make), "the rank failed");
    }
  PointBook book = book_of(3);
  CHECK(book.measure("x", [](int) { return [] {}; }).repeats >= 7);
}
