#pragma once
// Communicators between ranks that are threads of one process: messages are copied once, into a
// mailbox. Counts bytes as they enter a mailbox and can pace links, which makes every time that is
// measured through them emulated. Thread-safe; the world must outlive its communicators.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/units.hpp"
#include "exec/communicator/communicator.hpp"
#include "exec/communicator/links.hpp"

namespace exec {

struct LocalOptions {
  std::optional<Link> links;         // paces every pair of ranks
  std::vector<LinkBetween> pairs;    // paces these pairs, in place of `links`
  int polls_before_sleep = 0;        // worth it only with a core per rank
  core::Seconds stall_limit{0};      // a wait longer than this ends the world; 0: wait for ever
};

class LocalWorld {
 public:
  explicit LocalWorld(int ranks, LocalOptions options = {});
  ~LocalWorld();
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  int ranks() const;
  bool emulated_links() const;

  // This rank's end of a group. group_ranks lists the group in the same order on every member; a
  // rank's index is its position. Channels keep groups of the same ranks apart. Never blocks.
  // REQUIRES: rank is in group_ranks and has no open communicator of this group and channel.
  std::unique_ptr<Communicator> communicator(int rank, std::span<const int> group_ranks,
                                             int channel);

  // Ends the world: every rank in a communicator call, now or later, throws Aborted with this
  // cause. The first cause stays.
  void abort(int rank, const std::string& message);

  // Runs body(rank) on one thread per rank and joins them. When one throws, the others are woken,
  // and the first exception is thrown here, once.
  void run(const std::function<void(int)>& body);

  struct State;

 private:
  std::unique_ptr<State> state_;
};

}  // namespace exec
