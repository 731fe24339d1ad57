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
#include "exec/communicator/world.hpp"

namespace exec {

struct LocalOptions {
  std::optional<Link> links;         // paces every pair of ranks
  std::vector<LinkBetween> pairs;    // paces these pairs, in place of `links`
  int polls_before_sleep = 0;        // worth it only with a core per rank
  core::Seconds stall_limit{0};      // a wait longer than this ends the world; 0: wait for ever
};

class LocalWorld final : public World {
 public:
  explicit LocalWorld(int ranks, LocalOptions options = {});
  ~LocalWorld() override;
  LocalWorld(const LocalWorld&) = delete;
  LocalWorld& operator=(const LocalWorld&) = delete;

  int ranks() const override;
  bool emulated_links() const override;
  void abort(int rank, const std::string& message) override;

  // Runs body(rank) on one thread per rank and joins them. When one throws, or cannot start
  // (core::ThreadRefused), the others are woken, and the first exception is thrown here, once.
  void run(const std::function<void(int)>& body);

  struct State;

 private:
  std::unique_ptr<Communicator> open(int index, std::span<const int> group_ranks, int channel,
                                     MessageMemory& memory) override;

  std::unique_ptr<State> state_;
};

}  // namespace exec
