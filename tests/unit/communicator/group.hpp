#pragma once
// Runs a body on every rank of a fresh world, with a communicator over all ranks.

#include <functional>
#include <numeric>
#include <vector>

#include "exec/communicator/local.hpp"

inline std::vector<int> everyone(int ranks) {
  std::vector<int> group(static_cast<std::size_t>(ranks));
  std::iota(group.begin(), group.end(), 0);
  return group;
}

inline void run_group(int ranks, const std::function<void(exec::Communicator&)>& body,
                      exec::LocalOptions options = {}) {
  exec::LocalWorld world(ranks, std::move(options));
  world.run([&](int rank) { body(*world.communicator(rank, everyone(ranks), 0)); });
}
