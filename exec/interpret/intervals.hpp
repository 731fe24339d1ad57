#pragma once
// Unions of stretches of time. Pure.

#include <algorithm>
#include <vector>

namespace exec {

struct Interval { double from, to; };
using Intervals = std::vector<Interval>;  // ascending, apart from each other

// O(n log n).
inline Intervals joined(std::vector<Interval> all) {
  std::ranges::sort(all, {}, &Interval::from);
  Intervals apart;
  for (const Interval& i : all) {
    if (!apart.empty() && i.from <= apart.back().to)
      apart.back().to = std::max(apart.back().to, i.to);
    else
      apart.push_back(i);
  }
  return apart;
}

inline double length(const Intervals& all) {
  double sum = 0;
  for (const Interval& i : all) sum += i.to - i.from;
  return sum;
}

}  // namespace exec
