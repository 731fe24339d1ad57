#pragma once
// The file of one rank in a checkpoint: a header that says whose state it is, the losses so far,
// the bytes of its buffers in order. Its size and digest stand in the manifest. Host byte order.
// Thread-safe for different paths.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "core/units.hpp"
#include "exec/checkpoint/digest.hpp"

namespace exec {

// Buffers are the rank's own memory: read into, or written from.
struct RankState {
  std::vector<std::span<std::byte>> buffers;
  std::vector<double> loss;            // of each step so far, where the rank computes it
};

// Whose state a file holds.
struct RankOf {
  std::int64_t rank = 0, steps_done = 0;
  Digest trained_on;                   // of the model, job, strategy, seed and data
  friend bool operator==(const RankOf&, const RankOf&) = default;
};

// A file as the manifest lists it.
struct RankFile {
  std::int64_t bytes = 0;
  Digest digest;
};

// Written and synchronised. Errors: the system's, of kind failed_running.
core::Result<RankFile> write_rank_file(const std::string& path, const RankOf& whose,
                                       const RankState& state);

// Whether the file has the size and digest that are listed, and is of this rank and step.
core::Status check_rank_file(const std::string& path, const RankOf& whose, const RankFile& listed);

// The same, of the bytes that are read. Errors: also buffers of other sizes than the file's; the
// state then holds part of it.
core::Status read_rank_file(const std::string& path, const RankOf& whose, const RankFile& listed,
                            RankState& state);

}  // namespace exec
