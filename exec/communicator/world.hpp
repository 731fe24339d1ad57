#pragma once
// World: all ranks of a run, whatever carries what they say to each other (threads of one process,
// processes). Thread-safe; a world must outlive its communicators.

#include <memory>
#include <span>
#include <string>

#include "exec/communicator/communicator.hpp"

namespace exec {

class World {
 public:
  virtual ~World() = default;

  virtual int ranks() const = 0;
  // Whether times over its links are those of this machine (false) or of paced ones.
  virtual bool emulated_links() const = 0;

  // This rank's end of a group. group_ranks lists the group in the same order on every member; a
  // rank's index is its position. Channels keep groups of the same ranks apart. Never blocks.
  // REQUIRES: rank is in group_ranks, lives in this process and has no open communicator of this
  // group and channel.
  virtual std::unique_ptr<Communicator> communicator(int rank, std::span<const int> group_ranks,
                                                     int channel) = 0;

  // Ends the world: every rank in a communicator call, now or later, throws Aborted with this
  // cause. The first cause stays.
  virtual void abort(int rank, const std::string& message) = 0;
};

}  // namespace exec
