#pragma once
// A figure that is measured several times: the round of median time is reported. Pure.

#include <algorithm>
#include <vector>

namespace cli {

inline constexpr int kRounds = 5;

// REQUIRES: figures with `seconds`, at least one.
template <class Figure>
Figure median_of(std::vector<Figure> rounds) {
  std::ranges::sort(rounds, {}, &Figure::seconds);
  return rounds[rounds.size() / 2];
}

}  // namespace cli
