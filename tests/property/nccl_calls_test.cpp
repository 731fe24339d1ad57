// Calls over NCCL one by one, on twins of GPUs and a fake of the library: what is exact, and how
// calls that cannot come to an end are named.
#include <cstdlib>

#include "tests/catch.hpp"
#include "tests/property/nccl_ranks.hpp"

using namespace tests;
namespace cuda = exec::cuda;
using core::DType;
using program::Algorithm;
using program::ReduceOp;
using program::Traffic;

namespace {

// A rank with two streams, and numbers on its device that the host reads and writes.
struct Rank {
  cuda::Twin& twin;
  cuda::NcclWorld& world;
  Lane& first;
  Lane& second;

  void* numbers(const std::vector<std::int32_t>& values) const {
    void* const memory = twin.allocate_pinned(values.size() * sizeof(std::int32_t));
    std::memcpy(memory, values.data(), values.size() * sizeof(std::int32_t));
    return memory;
  }
  void drain() const {
    for (const Lane* lane : {&first, &second})
      twin.synchronise(lane->queue.stream, [this] { world.look(); });
    world.drained();
  }
};

// gone: the rank whose connections end after its body, without a word.
std::vector<tcp_ranks::Ending> run(int ranks, const std::function<void(const Rank&)>& body,
                                   const cuda::NcclOptions& options = {}, int gone = -1) {
  return tcp_ranks::run(ranks, [&](exec::TcpWorld& control) {
    cuda::Twin twin({.seed = static_cast<std::uint64_t>(control.rank()) + 1});
    {
      cuda::MessagePool pool(twin);
      Lane first(twin, pool), second(twin, pool);
      cuda::NcclWorld world(control, twin, fake_library(), options);
      body({twin, world, first, second});
    }
    if (control.rank() == gone) return;
    control.exchange("");
    control.finish();
  });
}

void all_well(const std::vector<tcp_ranks::Ending>& endings) {
  for (const tcp_ranks::Ending& e : endings) CHECK(e.why == "");
}

// All ranks ended with this part of one reason.
void all_say(const std::vector<tcp_ranks::Ending>& endings, const std::string& part) {
  for (const tcp_ranks::Ending& e : endings) {
    CHECK(e.why == endings.front().why);
    INFO(e.why);
    CHECK(e.why.find(part) != std::string::npos);
  }
}

void sum(exec::Communicator& c, void* numbers, std::int64_t n) {
  c.all_reduce(numbers, n, DType::i32, ReduceOp::sum, Algorithm::ring, Traffic::gradients);
}

}  // namespace

TEST_CASE("sums of integers over NCCL are exact, by the library and by own kernels") {
  for (const bool own : {false, true}) {
    cuda::NcclOptions options;
    options.own_collectives = own;
    all_well(run(3, [](const Rank& rank) {
      const std::vector<int> group{0, 1, 2};
      const auto c = rank.world.communicator(rank.world.rank(), group, 1, rank.first.messages);
      rank.world.opened();
      const std::int32_t own_value = 1 << rank.world.rank();
      void* const numbers = rank.numbers({own_value, 10 * own_value, -own_value, 0});
      sum(*c, numbers, 4);
      rank.drain();
      const auto* found = static_cast<std::int32_t*>(numbers);
      CHECK(std::vector<std::int32_t>(found, found + 4) ==
            std::vector<std::int32_t>{7, 70, -7, 0});
    }, options));
  }
}

TEST_CASE("an all-to-all, a ring pass and a broadcast over NCCL move what they should") {
  all_well(run(3, [](const Rank& rank) {
    const std::vector<int> group{0, 1, 2};
    const int r = rank.world.rank();
    const auto c = rank.world.communicator(r, group, 1, rank.first.messages);
    rank.world.opened();
    void* const out = rank.numbers({10 * r, 10 * r + 1, 10 * r + 2});
    void* const in = rank.numbers({0, 0, 0});
    void* const passed = rank.numbers({0});
    void* const told = rank.numbers({r});
    c->exchange(out, in, 3, DType::i32, Traffic::expert);
    c->ring_shift(out, passed, 1, DType::i32, Traffic::context);
    c->broadcast(told, 1, DType::i32, 2, Traffic::loss);
    rank.drain();
    const auto* found = static_cast<std::int32_t*>(in);
    CHECK(std::vector<std::int32_t>(found, found + 3) ==
          std::vector<std::int32_t>{r, 10 + r, 20 + r});
    CHECK(*static_cast<std::int32_t*>(passed) == 10 * ((r + 2) % 3));
    CHECK(*static_cast<std::int32_t*>(told) == 2);
    // Two thirds of 12 bytes, all of 4, and the root's 4 to two others.
    core::Bytes sent{0};
    for (const auto& [key, totals] : c->statistics().entries) sent += totals.wire;
    CHECK(sent == core::Bytes(8 + 4 + (r == 2 ? 8 : 0)));
  }));
}

TEST_CASE("ranks that make different calls end with a reason that names both") {
  all_say(run(2, [](const Rank& rank) {
    const std::vector<int> group{0, 1};
    const auto c = rank.world.communicator(rank.world.rank(), group, 1, rank.first.messages);
    rank.world.opened();
    void* const numbers = rank.numbers({1, 2});
    if (rank.world.rank() == 0)
      sum(*c, numbers, 2);
    else
      c->broadcast(numbers, 2, DType::i32, 0, Traffic::gradients);
    rank.drain();
  }), "index 0 of the communicator called AllReduce");
}

// Two communicators of the same ranks, numbered in opposite orders, and called in opposite orders.
static std::vector<tcp_ranks::Ending> cross(bool one_stream) {
  return run(2, [&](const Rank& rank) {
    const int r = rank.world.rank();
    const auto a = rank.world.communicator(r, std::vector<int>{0, 1}, 1, rank.first.messages);
    const auto b = rank.world.communicator(
        1 - r, std::vector<int>{1, 0}, 2, one_stream ? rank.first.messages : rank.second.messages);
    rank.world.opened();
    void* const numbers = rank.numbers({1, 2});
    void* const others = rank.numbers({3, 4});
    sum(r == 0 ? *a : *b, numbers, 2);
    sum(r == 0 ? *b : *a, others, 2);
    rank.drain();
  });
}

TEST_CASE("calls in opposite orders on one stream are found to wait for each other") {
  all_say(cross(true), "every rank waits for another: rank 0 waits in AllReduce");
}

TEST_CASE("calls in opposite orders on two streams are found where a GPU runs one at a time") {
  // Where both kernels fit on the GPU, they do come to an end.
  all_well(cross(false));
  const Words serial("serial=1");
  all_say(cross(false), "every rank waits for another: rank 0 waits in AllReduce");
}

TEST_CASE("a call that never ends is named when its step takes too long") {
  const Words stall("rank=1 stall=1");
  cuda::NcclOptions options;
  options.deadline = core::Seconds(1);
  all_say(run(2, [](const Rank& rank) {
    const std::vector<int> group{0, 1};
    const auto c = rank.world.communicator(rank.world.rank(), group, 7, rank.first.messages);
    rank.world.opened();
    void* const numbers = rank.numbers({1, 2});
    sum(*c, numbers, 2);
    rank.drain();
  }, options),
          "a step took longer than 1.00 s; not over: ncclAllReduce of 2 i32 for gradients "
          "(group 0,1, channel 7, call 0)");
}

TEST_CASE("an error that the library tells of later ends every rank") {
  const Words error("rank=0 error=1");
  all_say(run(2, [](const Rank& rank) {
    const std::vector<int> group{0, 1};
    const auto c = rank.world.communicator(rank.world.rank(), group, 1, rank.first.messages);
    rank.world.opened();
    void* const numbers = rank.numbers({1, 2});
    sum(*c, numbers, 2);
    rank.drain();
  }), "rank 0: collectives of ranks 0,1: remote process exited");
}

TEST_CASE("a rank whose connection is gone ends those that wait for it on their GPUs") {
  const auto endings = run(3, [](const Rank& rank) {
    const std::vector<int> group{0, 1, 2};
    const auto c = rank.world.communicator(rank.world.rank(), group, 1, rank.first.messages);
    rank.world.opened();
    if (rank.world.rank() == 1) return;
    void* const numbers = rank.numbers({1, 2});
    sum(*c, numbers, 2);
    rank.drain();
  }, {}, 1);
  CHECK(endings[1].why == "");
  for (const std::size_t r : {std::size_t{0}, std::size_t{2}}) {
    INFO(endings[r].why);
    CHECK(endings[r].why.find("rank 1: ended without a word") != std::string::npos);
  }
}
