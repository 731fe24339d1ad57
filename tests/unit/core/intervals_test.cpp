#include "core/intervals.hpp"

#include "core/random.hpp"
#include "tests/catch.hpp"

using core::Interval;
using core::Intervals;

TEST_CASE("stretches are joined where they meet, and what one leaves of another is counted") {
  const Intervals all = core::joined({{5, 6}, {1, 2}, {2, 3}, {1.5, 2.5}});
  REQUIRE(all.size() == 2);
  CHECK(all[0].from == 1);
  CHECK(all[0].to == 3);
  CHECK(core::length(all) == 3);
  CHECK(core::uncovered(all, {}) == 3);
  CHECK(core::uncovered({}, all) == 0);
  CHECK(core::uncovered(all, {{2.5, 5.5}}) == 2);
  CHECK(core::uncovered(all, {{0, 1.25}, {1.75, 2}, {5.25, 5.5}, {7, 9}}) == 2.25);
}

// Stretches of whole seconds, compared with a count of the seconds.
TEST_CASE("unions and differences are those of the seconds that they hold") {
  const core::Random random(7, 0);
  std::uint64_t draws = 0;
  for (int round = 0; round < 200; ++round) {
    std::vector<bool> held[2] = {std::vector<bool>(50), std::vector<bool>(50)};
    std::vector<Interval> drawn[2];
    for (int s = 0; s < 2; ++s)
      for (std::uint64_t i = random.below(draws++, 8); i > 0; --i) {
        const auto from = static_cast<std::size_t>(random.below(draws++, 40));
        const auto to = from + 1 + static_cast<std::size_t>(random.below(draws++, 9));
        drawn[s].push_back({static_cast<double>(from), static_cast<double>(to)});
        for (std::size_t second = from; second < to; ++second) held[s][second] = true;
      }
    double length = 0, uncovered = 0;
    for (std::size_t second = 0; second < 50; ++second) {
      length += held[0][second] ? 1 : 0;
      uncovered += held[0][second] && !held[1][second] ? 1 : 0;
    }
    const Intervals a = core::joined(drawn[0]), b = core::joined(drawn[1]);
    CHECK(core::length(a) == length);
    CHECK(core::uncovered(a, b) == uncovered);
  }
}
