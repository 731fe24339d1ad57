#pragma once
// Ranks as they are over NCCL, for tests: each a thread with a twin of a GPU, a TCP world and a
// NcclWorld of its own, over the fake library.

#include <cstdlib>
#include <functional>
#include <mutex>
#include <string>

#include "exec/cuda/backend/platform.hpp"
#include "exec/cuda/nccl/world.hpp"
#include "exec/cuda/twin/twin.hpp"
#include "tests/property/run_program.hpp"
#include "tests/unit/communicator_tcp/ranks.hpp"

namespace tests {

// PLANNER_FAKE_NCCL while it lives.
class Words {
 public:
  explicit Words(const char* words) { ::setenv("PLANNER_FAKE_NCCL", words, 1); }
  ~Words() { ::unsetenv("PLANNER_FAKE_NCCL"); }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
};

// A stream of a rank, and the memory of its messages there.
struct Lane {
  Lane(exec::cuda::Twin& twin, exec::cuda::MessagePool& pool)
      : queue{twin, twin.create_stream(false), 4, nullptr, 0},
        messages(pool, [this]() -> const exec::cuda::Queue& { return queue; }) {}
  ~Lane() { queue.api.destroy(queue.stream); }
  exec::cuda::Queue queue;
  exec::cuda::StreamMessages messages;
};

inline const exec::cuda::CollectiveLibrary& fake_library() {
  static const exec::cuda::OpenedCollectives opened = exec::cuda::open_collectives(FAKE_NCCL_PATH);
  if (!opened.library) throw std::runtime_error(opened.found);
  return *opened.library;
}

using SeesTwin = std::function<void(exec::cuda::Twin& twin, int rank)>;

// Runs every rank; throws the reason that the ranks agreed on, if one of them failed. seed: of the
// orders of the twins' streams. before, after: of every rank's steps, on its own thread.
inline Ranks nccl_ranks(const exec::cuda::NcclOptions& options, std::uint64_t seed,
                        const SeesTwin& before = {}, const SeesTwin& after = {}) {
  return [=](int ranks, const RankBody& body) {
    std::mutex mutex;
    std::string left;                  // what a twin was not given back
    const auto ended = tcp_ranks::run(ranks, [&](exec::TcpWorld& control) {
      exec::cuda::Twin twin(
          {.seed = seed * 64 + static_cast<std::uint64_t>(control.rank())});
      if (before) before(twin, control.rank());
      {
        exec::cuda::NcclWorld world(control, twin, fake_library(), options);
        exec::cuda::CudaPlatform platform(twin, {},
                                          exec::cuda::OwnRank{control.rank(), &world, &world});
        body(world, control.rank(), [&](const auto& p, const auto& k, int rank) {
          return platform.backend(p, k, rank);
        });
      }
      if (after) after(twin, control.rank());
      if (twin.pending() + twin.leaked() > 0) {
        const std::scoped_lock lock(mutex);
        left = std::to_string(twin.pending()) + " works, " + std::to_string(twin.leaked()) +
               " things of rank " + std::to_string(control.rank());
      }
      control.exchange("");
      control.finish();
    });
    for (const tcp_ranks::Ending& e : ended)
      if (!e.why.empty()) throw std::runtime_error(e.why);
    if (!left.empty()) throw std::runtime_error("left behind: " + left);
  };
}

}  // namespace tests
