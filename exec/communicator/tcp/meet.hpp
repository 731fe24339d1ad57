#pragma once
// Meet: all ranks of a run find each other through rank 0, which listens where every rank's
// environment says. When it returns, each pair has a connection for data, and rank 0 one more with
// every other rank for control. Ranks must be of one build and have one plan. Blocks; one thread.

#include <atomic>
#include <stdexcept>
#include <string>
#include <vector>

#include "exec/communicator/tcp/greeting.hpp"
#include "exec/communicator/tcp/place.hpp"

namespace exec::tcp {

// What ranks of one run must have in common.
struct Common {
  std::string version;  // of this program
  std::string plan;     // a digest of its file; empty: this machine does not have it
};

struct Met {
  std::vector<Socket> control;       // rank 0: by rank; others: at 0, of rank 0
  std::vector<Socket> data;          // by rank; the own one is closed
  std::vector<std::string> machine;  // by rank: this_machine() there
  Socket listener;                   // rank 0: still heard, to send latecomers away
};

// They did not meet. what(): why, "rank 3: ...".
class NotMet : public std::runtime_error {
 public:
  NotMet(const std::string& why, bool speaks) : std::runtime_error(why), speaks_(speaks) {}
  bool speaks() const { return speaks_; }  // else another rank says it

 private:
  bool speaks_;
};

// Throws NotMet, Interrupted.
Met meet(const Place& place, const Common& common, const std::atomic<int>* signal);

// The two sides of it.
Met meet_as_host(const Place& place, const Common& common,
                 const std::atomic<int>* signal);
Met meet_as_guest(const Place& place, const Common& common,
                  const std::atomic<int>* signal);

// Once a rank is connected to all others it tells rank 0; once all are, rank 0 tells everybody.
// One byte each, on the control connection.
inline constexpr char kReady = 'r', kBegin = 'b';

// "MACHINE NETWORK": the first is equal where ranks share memory, both where they share a network's
// fate (containers of one machine may each have a network of their own).
std::string this_machine();
std::string_view memory_of(std::string_view machine);

// "rank 2 of 4", "ranks 1 and 3 of 4".
std::string ranks_text(const std::vector<int>& ranks, int size);

}  // namespace exec::tcp
