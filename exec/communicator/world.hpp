#pragma once
// World: all ranks of a run, whatever carries what they say to each other (threads of one process,
// processes). Thread-safe; a world must outlive its communicators.

#include <memory>
#include <span>
#include <string>

#include "exec/communicator/communicator.hpp"
#include "exec/communicator/message_memory.hpp"

namespace exec {

class World {
 public:
  virtual ~World() = default;

  virtual int ranks() const = 0;
  // Whether times over its links are those of this machine (false) or of paced ones.
  virtual bool emulated_links() const = 0;

  // This rank's end of a group. group_ranks lists the group in the same order on every member; a
  // rank's index is its position. Channels keep groups of the same ranks apart. Never blocks.
  // memory: of this end's buffers and messages; it outlives the communicator. All ends of a group
  // have the same kind.
  // REQUIRES: rank is in group_ranks, lives in this process and has no open communicator of this
  // group and channel. Between processes, memory is the host's.
  std::unique_ptr<Communicator> communicator(int rank, std::span<const int> group_ranks,
                                             int channel,
                                             MessageMemory& memory = host_message_memory()) {
    return open(rank, group_ranks, channel, memory);
  }

  // Ends the world: every rank in a communicator call, now or later, throws Aborted with this
  // cause. The first cause stays.
  virtual void abort(int rank, const std::string& message) = 0;

 private:
  virtual std::unique_ptr<Communicator> open(int rank, std::span<const int> group_ranks,
                                             int channel, MessageMemory& memory) = 0;
};

}  // namespace exec
