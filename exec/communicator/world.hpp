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
  // Whether a communicator's call may keep the calling thread until a peer has made its own. Where
  // none does, one thread can give all streams of a rank their work.
  virtual bool calls_wait() const { return true; }

  // One end of a group. group_ranks lists the group in the same order on every member; `index` is
  // the end's position in it. A rank has a place there, or several (a worker's and a server's),
  // each an end of its own. Channels keep groups of the same ranks apart. Never blocks.
  // memory: of this end's buffers and messages; it outlives the communicator. All ends of a group
  // have the same kind.
  // REQUIRES: the rank at that index lives in this process and has no open communicator of this
  // group, channel and index; it is there once, or it is a worker and a server. Between processes,
  // memory is the host's.
  std::unique_ptr<Communicator> communicator_at(int index, std::span<const int> group_ranks,
                                                int channel,
                                                MessageMemory& memory = host_message_memory()) {
    return open(index, group_ranks, channel, memory);
  }
  // The first place of this rank. REQUIRES: rank is in group_ranks.
  std::unique_ptr<Communicator> communicator(int rank, std::span<const int> group_ranks,
                                             int channel,
                                             MessageMemory& memory = host_message_memory());

  // Whether every rank says yes. Every rank calls it, at the same point of its step. REQUIRES: one
  // rank, or calls do not wait.
  virtual bool everyone(bool yes) { return yes; }

  // Ends the world: every rank in a communicator call, now or later, throws Aborted with this
  // cause. The first cause stays.
  virtual void abort(int rank, const std::string& message) = 0;

 private:
  virtual std::unique_ptr<Communicator> open(int index, std::span<const int> group_ranks,
                                             int channel, MessageMemory& memory) = 0;
};

// How many of the places before `index` are its rank's too.
int earlier_places(std::span<const int> group_ranks, int index);

}  // namespace exec
