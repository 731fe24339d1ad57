// The programming interface as it is taught, with its values.
#include <array>
#include <atomic>
#include <vector>

#include "tests/catch.hpp"
#include "tests/unit/communicator/group.hpp"

using namespace exec;
using core::DType;
using program::Algorithm;
using program::ReduceOp;
using program::Traffic;
using Floats = std::vector<float>;

TEST_CASE("all-reduce of [1,2,3] and [1,0,1] is [2,2,4] on both workers, by every algorithm") {
  for (Algorithm a : {Algorithm::ring, Algorithm::tree, Algorithm::naive_all_reduce,
                      Algorithm::parameter_server}) {
    std::array<Floats, 2> data{Floats{1, 2, 3}, Floats{1, 0, 1}};
    run_group(2, [&](Communicator& c) {
      c.all_reduce(data[c.index()].data(), 3, DType::f32, ReduceOp::sum, a, Traffic::gradients);
    });
    INFO(program::name(a));
    CHECK(data[0] == Floats{2, 2, 4});
    CHECK(data[1] == Floats{2, 2, 4});
  }
}

TEST_CASE("all-gather of [1,2] and [3,4] is [1,2,3,4] on both workers") {
  const std::array<Floats, 2> part{Floats{1, 2}, Floats{3, 4}};
  std::array<Floats, 2> full{Floats(4), Floats(4)};
  run_group(2, [&](Communicator& c) {
    c.all_gather(part[c.index()].data(), full[c.index()].data(), 4, DType::f32,
                 Traffic::parameters);
  });
  CHECK(full[0] == Floats{1, 2, 3, 4});
  CHECK(full[1] == Floats{1, 2, 3, 4});
}

TEST_CASE("two workers push a gradient to a server and pull what it replies") {
  constexpr std::int64_t kIndex = 7;
  const std::array<Floats, 2> gradient{Floats{1, 2, 3}, Floats{1, 0, 1}};
  std::array<Floats, 2> weights{Floats(3), Floats(3)};
  Floats sum(3);
  run_group(3, [&](Communicator& c) {
    c.use_servers({.workers = 2, .servers = 1, .colocated = false});
    if (c.index() == 2) {
      c.collect(kIndex, sum.data(), 3, DType::f32, ReduceOp::sum, Traffic::gradients);
      const Floats updated{10, 20, 30};
      return c.reply(kIndex, updated.data(), 3, DType::f32, Traffic::gradients);
    }
    c.push(kIndex, gradient[c.index()].data(), 3, DType::f32, Traffic::gradients);
    c.pull(kIndex, weights[c.index()].data(), 3, DType::f32, Traffic::gradients);
  });
  CHECK(sum == Floats{2, 2, 4});
  CHECK(weights[0] == Floats{10, 20, 30});
  CHECK(weights[1] == Floats{10, 20, 30});
}

TEST_CASE("broadcast reaches every rank from any root") {
  for (int root = 0; root < 3; ++root) {
    std::array<int, 3> value{100, 101, 102};
    run_group(3, [&](Communicator& c) {
      c.broadcast(&value[c.index()], 1, DType::i32, root, Traffic::loss);
    });
    CHECK(value == std::array<int, 3>{100 + root, 100 + root, 100 + root});
  }
}

TEST_CASE("receives match by tag, whatever the order of the sends") {
  std::array<int, 3> got{};
  run_group(2, [&](Communicator& c) {
    const std::array<int, 3> values{1, 2, 3};
    if (c.index() == 0) {
      c.send(&values[0], 1, DType::i32, 1, 5, Traffic::pipeline);
      c.send(&values[1], 1, DType::i32, 1, 6, Traffic::pipeline);
      return c.send(&values[2], 1, DType::i32, 1, 5, Traffic::pipeline);
    }
    c.recv(&got[0], 1, DType::i32, 0, 6, Traffic::pipeline);
    c.recv(&got[1], 1, DType::i32, 0, 5, Traffic::pipeline);
    c.recv(&got[2], 1, DType::i32, 0, 5, Traffic::pipeline);
  });
  CHECK(got == std::array<int, 3>{2, 1, 3});
}

TEST_CASE("a group may be any ranks in any order, and its index is the position") {
  LocalWorld world(4);
  const std::vector<int> group{3, 1};
  std::array<Floats, 4> full{};
  std::array<int, 4> places{-1, -1, -1, -1};
  world.run([&](int rank) {
    if (rank != 3 && rank != 1) return;
    const auto c = world.communicator(rank, group, 0);
    places[rank] = c->rank_of(c->index());
    full[rank].resize(2);
    const float mine = static_cast<float>(rank);
    c->all_gather(&mine, full[rank].data(), 2, DType::f32, Traffic::tensor);
  });
  CHECK(places == std::array<int, 4>{-1, 1, -1, 3});
  CHECK(full[1] == Floats{3, 1});
  CHECK(full[3] == Floats{3, 1});
}

TEST_CASE("two threads of a rank use two channels of one group at once") {
  constexpr int kRounds = 50;
  LocalWorld world(4);
  std::array<std::array<std::int32_t, 2>, 4> sums{};
  const auto add = [&](int rank, int channel) {
    const auto c = world.communicator(rank, everyone(2), channel);
    for (int i = 0; i < kRounds; ++i) {
      std::int32_t value = channel == 0 ? 1 : 1000;
      c->all_reduce(&value, 1, DType::i32, ReduceOp::sum, Algorithm::ring, Traffic::gradients);
      sums[rank][channel] += value;
    }
  };
  // Threads 0, 1 are the main threads of ranks 0, 1; threads 2, 3 are their second streams.
  world.run([&](int thread) { add(thread % 2, thread / 2); });
  for (int rank = 0; rank < 2; ++rank) {
    CHECK(sums[rank] == std::array<std::int32_t, 2>{2 * kRounds, 2000 * kRounds});
  }
}

TEST_CASE("nobody leaves a barrier before everyone has entered") {
  std::atomic<int> entered{0};
  std::array<int, 4> seen{};
  run_group(4, [&](Communicator& c) {
    ++entered;
    c.barrier();
    seen[c.index()] = entered.load();
  });
  CHECK(seen == std::array<int, 4>{4, 4, 4, 4});
}
