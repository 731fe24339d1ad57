#pragma once
// The file of one rank in a checkpoint: magic, losses so far, the bytes of its buffers in order, a
// checksum of all that. Host byte order. Thread-safe for different paths.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "core/units.hpp"

namespace exec {

// Buffers are the rank's own memory: read into, or written from.
struct RankState {
  std::vector<std::span<std::byte>> buffers;
  std::vector<double> loss;            // of each step so far, where the rank computes it
};

// Of the file of a rank in this state.
core::Bytes rank_file_bytes(const RankState& state);

// Written and synchronised. Errors: the system's, of kind failed_running.
core::Status write_rank_file(const std::string& path, const RankState& state);

// Whether the file has this size and its checksum holds.
core::Status check_rank_file(const std::string& path, core::Bytes bytes);

// REQUIRES: check_rank_file held. Errors: buffers of other sizes than the file's.
core::Status read_rank_file(const std::string& path, RankState& state);

}  // namespace exec
