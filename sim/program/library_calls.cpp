#include "sim/program/library_calls.hpp"

#include <algorithm>
#include <tuple>

namespace program {

void add_calls(std::vector<LibraryCalls>& all, const LibraryCalls& more) {
  const auto kind = [](const LibraryCalls& c) {
    return std::tie(c.algorithm, c.protocol, c.channels);
  };
  const auto at = std::ranges::find_if(
      all, [&](const LibraryCalls& c) { return kind(c) == kind(more); });
  if (at == all.end()) return all.push_back(more);
  at->count += more.count;
  at->payload += more.payload;
  at->smallest = std::min(at->smallest, more.smallest);
  at->largest = std::max(at->largest, more.largest);
}

}  // namespace program
