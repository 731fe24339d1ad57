#pragma once
// The manifest of one complete step (checkpoint/2): which step it is, what was trained, each rank's
// file with its size and digest, and a digest of all that. Pure but for read_manifest; thread-safe.

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/result.hpp"
#include "exec/checkpoint/rank_file.hpp"

namespace exec {

// What must be the same when a run goes on: {"what", its text}, in order. What is left out is the
// default.
using TrainedOn = std::vector<std::pair<std::string, std::string>>;
Digest digest_of(const TrainedOn& what);

struct Manifest {
  std::int64_t steps_done = 0;
  TrainedOn trained_on;
  std::vector<RankFile> files;         // by rank
};

// The file, newline at the end.
std::string manifest_text(const Manifest& manifest);

// steps_done: what the name of its folder says. Errors: a file that cannot be read, another
// version, damage, another step.
core::Result<Manifest> read_manifest(const std::string& file, std::int64_t steps_done);

// Where it is of another run or of another number of ranks, one problem each.
core::Problems differences(const Manifest& manifest, const std::string& file,
                           const TrainedOn& expected, std::size_t ranks);

}  // namespace exec
