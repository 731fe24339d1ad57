#pragma once
// Processes: a world whose ranks are processes, one rank each, on one machine or several. What is
// called collective here is called by every process, in the same order. Thread-safe but for the
// collective calls, which one thread makes.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "exec/communicator/world.hpp"

namespace exec {

// What this rank has sent to another so far, without framing.
struct SentTo {
  int to = 0;
  std::int64_t messages = 0;
  core::Bytes wire{0};
};

class Processes : public World {
 public:
  virtual std::string name() const = 0;  // of the communicator: "mpi", "tcp"
  virtual int rank() const = 0;          // of this process
  // Ranks on this machine, ascending, this one among them.
  virtual const std::vector<int>& neighbours() const = 0;

  // Collective: this rank has opened every communicator that it will use.
  virtual void opened() = 0;
  // Collective: every rank's text, by rank.
  virtual std::vector<std::string> exchange(const std::string& mine) = 0;
  // Ends the world for this reason, as abort() does, and says why the world ended: "rank 1: ...",
  // the same on every rank that is still there to say it.
  virtual std::string fail(const std::string& message) = 0;

  virtual std::vector<SentTo> sent() const = 0;
  // What to note about the carrier: versions, what framing costs.
  virtual std::map<std::string, std::string> environment() const = 0;

  // Collective: ends the carrier in good order. Nothing else of the world is called afterwards.
  virtual void finish() = 0;
  // Whether the world has ended before its time.
  virtual bool ended() const = 0;
  // The world has ended, and this thread ends the process without finish(): false where the
  // progress thread is doing so already.
  virtual bool left() = 0;
  // Whether this rank tells why the world ended: one of them does.
  virtual bool speaks() const = 0;
  // That ended the world; 0: none did.
  virtual int signal() const = 0;
};

}  // namespace exec
