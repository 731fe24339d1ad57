#pragma once
// require(): a bug of this program ends it with its place. A copy of core's check in ten lines,
// because planner-probe runs on machines that have CUDA and nothing else and links no other part
// of the tree. Thread-safe.

#include <cstdio>
#include <cstdlib>

namespace probe {

inline void require(bool condition, const char* broken,
                    const char* file = __builtin_FILE(), unsigned line = __builtin_LINE()) {
  if (condition) return;
  std::fprintf(stderr, "planner-probe: bug at %s:%u: %s\n", file, line, broken);
  std::abort();
}

}  // namespace probe
