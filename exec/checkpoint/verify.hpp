#pragma once
// verify: what a folder of checkpoints holds, step by step, and what of it a run would refuse. It
// only reads.

#include <cstdint>
#include <string>
#include <vector>

#include "exec/checkpoint/manifest.hpp"

namespace exec {

struct HeldStep {
  std::string folder;
  std::int64_t steps_done = 0;         // by its name
  std::size_t ranks = 0;
  core::Bytes bytes{};                 // of all ranks' files, as the manifest lists them
  TrainedOn trained_on;
  core::Problems problems;             // empty: all of it is as it was written
};

// Every complete step, ascending; none is no problem. Errors: a folder that cannot be read, or that
// a run is using.
core::Result<std::vector<HeldStep>> verify(const std::string& path);

}  // namespace exec
