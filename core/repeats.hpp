#pragma once
// Patterns that repeat in a row of entries, and values that stand there twice. Pure.

#include <algorithm>
#include <cstddef>
#include <vector>

namespace core {

struct Repeats {
  std::size_t length = 1, times = 1;   // entries of the pattern; how often it stands in a row
};

// The pattern from entry `at` that covers the most of `size` entries, the shortest of those, of at
// most `longest` entries; where nothing repeats, the one entry. follows(i, length) says whether
// entry i is as the one `length` before it. O(longest x entries).
template <class Follows>
Repeats most_repeated(std::size_t at, std::size_t size, std::size_t longest, Follows follows) {
  Repeats best;
  for (std::size_t length = 1; length <= longest && at + 2 * length <= size; ++length) {
    std::size_t end = at + length;
    while (end < size && follows(end, length)) ++end;
    const std::size_t times = (end - at) / length;
    if (times >= 2 && times * length > best.times * best.length) best = {length, times};
  }
  return best;
}

// Sorts, and leaves each value once. By iterators: the range that std::ranges::unique returns does
// not compile under clang 14 with GCC's library.
template <class T>
void sort_unique(std::vector<T>& values) {
  std::ranges::sort(values);
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

}  // namespace core
