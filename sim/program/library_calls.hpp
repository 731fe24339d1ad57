#pragma once
// LibraryCalls: collectives that a library runs in one way. In a plan: the calls that NCCL is
// assumed to make, whose time is predicted. In a run: those that NCCL reported. Value type.

#include <cstdint>
#include <string>
#include <vector>

#include "core/units.hpp"

namespace program {

struct LibraryCalls {
  std::string algorithm;               // "ring", "tree", "nvls", "nvls_tree", "pat", ...
  std::string protocol;                // "ll", "ll128", "simple"
  int channels = 1;
  std::int64_t count = 0;
  core::Bytes payload{};               // of all of them
  core::Bytes smallest{}, largest{};   // payload of one of them
  friend bool operator==(const LibraryCalls&, const LibraryCalls&) = default;
};

// Calls of the same algorithm, protocol and channels are summed. O(kinds in `all`).
void add_calls(std::vector<LibraryCalls>& all, const LibraryCalls& more);

}  // namespace program
