#pragma once
// Unions of stretches of time, and what one leaves of another. Pure.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace core {

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

// Of the first what the second does not cover. O(both).
inline double uncovered(const Intervals& all, const Intervals& cover) {
  double sum = length(all);
  std::size_t first = 0;
  for (const Interval& own : all) {
    while (first < cover.size() && cover[first].to <= own.from) ++first;
    for (std::size_t i = first; i < cover.size() && cover[i].from < own.to; ++i)
      sum -= std::min(own.to, cover[i].to) - std::max(own.from, cover[i].from);
  }
  return sum;
}

}  // namespace core
