// Messages over the sender's own bytes: whoever returns from a call may write to its buffers at
// once, and whoever fails may free them.
#include <algorithm>
#include <atomic>
#include <cmath>
#include <stdexcept>
#include <thread>
#include <vector>

#include "exec/communicator/loans.hpp"
#include "tests/catch.hpp"
#include "tests/unit/communicator/group.hpp"

using namespace exec;
using core::DType;
using program::Algorithm;
using program::ReduceOp;
using program::Traffic;

namespace {

// Chunks of most groups are lent; of some the last is padded, and copied.
constexpr std::int64_t kElements = 400'000;
static_assert(kElements / 5 * sizeof(float) > Loans::kLeast);

using Vector = std::vector<float>;

Vector filled(float value, std::int64_t n = kElements) {
  return Vector(static_cast<std::size_t>(n), value);
}

void require_all(const Vector& v, std::int64_t first, std::int64_t last, float value) {
  for (std::int64_t i = first; i < last; ++i)
    if (v[static_cast<std::size_t>(i)] != value) throw std::runtime_error("a wrong element");
}

// Rounds of a call: its buffer is overwritten as soon as it returns.
void each_round(int ranks, const std::function<void(Communicator&, Vector&, int round)>& call) {
  run_group(ranks, [&](Communicator& c) {
    Vector v(kElements);
    for (int round = 0; round < 20; ++round) {
      std::ranges::fill(v, static_cast<float>(c.index() + round));
      call(c, v, round);
      std::ranges::fill(v, NAN);
    }
  });
}

float sum_of(int ranks, int round) {
  return static_cast<float>(ranks * round + ranks * (ranks - 1) / 2);
}

}  // namespace

TEST_CASE("buffers of reductions are their callers' again when the call returns") {
  const int ranks = GENERATE(2, 3, 5);
  const Algorithm algorithm =
      GENERATE(Algorithm::ring, Algorithm::tree, Algorithm::parameter_server);
  each_round(ranks, [&](Communicator& c, Vector& v, int round) {
    c.all_reduce(v.data(), kElements, DType::f32, ReduceOp::sum, algorithm, Traffic::gradients);
    require_all(v, 0, kElements, sum_of(ranks, round));
  });
}

TEST_CASE("buffers of chunks, broadcasts and exchanges are their callers' again too") {
  const int ranks = GENERATE(2, 4, 5);
  const std::int64_t each = program::padded(kElements, ranks) / ranks;
  each_round(ranks, [&](Communicator& c, Vector& v, int round) {
    Vector chunk(static_cast<std::size_t>(each)), full(kElements);
    c.reduce_scatter(v.data(), kElements, chunk.data(), DType::f32, ReduceOp::sum,
                     Traffic::gradients);
    std::ranges::fill(v, NAN);
    require_all(chunk, 0, std::min(each, kElements - c.index() * each), sum_of(ranks, round));
    c.all_gather(chunk.data(), full.data(), kElements, DType::f32, Traffic::parameters);
    require_all(full, 0, kElements, sum_of(ranks, round));

    const int root = round % ranks;
    std::ranges::fill(v, static_cast<float>(c.index() + round));
    c.broadcast(v.data(), kElements, DType::f32, root, Traffic::parameters);
    require_all(v, 0, kElements, static_cast<float>(root + round));

    std::ranges::fill(v, static_cast<float>(c.index() + round));
    c.ring_shift(v.data(), full.data(), kElements, DType::f32, Traffic::context);
    std::ranges::fill(v, static_cast<float>(c.index() + round));
    const int before = (c.index() + ranks - 1) % ranks;
    require_all(full, 0, kElements, static_cast<float>(before + round));
    c.exchange(v.data(), full.data(), kElements / ranks * ranks, DType::f32, Traffic::context);
    const std::int64_t part = kElements / ranks;
    for (int from = 0; from < ranks; ++from)
      require_all(full, from * part, (from + 1) * part, static_cast<float>(from + round));
  });
}

TEST_CASE("what was lent counts as sent") {
  run_group(2, [](Communicator& c) {
    Vector v = filled(1);
    c.all_reduce(v.data(), kElements, DType::f32, ReduceOp::sum, Algorithm::ring,
                 Traffic::gradients);
    const auto& entries = c.statistics().entries;
    if (entries.size() != 1 || entries.begin()->second.wire != core::Bytes(4 * kElements))
      throw std::runtime_error("wrong wire bytes");
  });
}

TEST_CASE("buffers may be freed when a rank fails while others read them") {
  for (int round = 0; round < 20; ++round) {
    LocalWorld world(3);
    std::atomic<int> calls{0};
    const auto body = [&](int rank) {
      const auto c = world.communicator(rank, everyone(3), 0);
      for (int call = 0; call < 1000; ++call) {
        Vector v = filled(1);
        if (rank == 2 && call == 3) {
          while (calls < 11)
            std::this_thread::yield();  // the others are within the call that waits for this rank
          throw std::runtime_error("out of luck");
        }
        ++calls;
        c->all_reduce(v.data(), kElements, DType::f32, ReduceOp::sum, Algorithm::ring,
                      Traffic::gradients);
      }
    };
    CHECK_THROWS_WITH(world.run(body), "out of luck");
  }
}

TEST_CASE("a loan that nobody reads is found stalled") {
  LocalOptions options;
  options.stall_limit = core::Seconds(0.05);
  LocalWorld world(2, options);
  const auto body = [&](int rank) {
    const auto c = world.communicator(rank, everyone(2), 0);
    Vector v = filled(1);
    if (rank == 0) c->broadcast(v.data(), kElements, DType::f32, 0, Traffic::parameters);
  };
  try {
    world.run(body);
    FAIL("nobody took part");
  } catch (const Aborted& e) {
    CHECK(std::string(e.what()).find("read what it was lent") != std::string::npos);
  }
}
