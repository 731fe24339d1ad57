#include "sim/engine/network.hpp"

#include <algorithm>
#include <cmath>

#include "core/random.hpp"
#include "sim/cost/link.hpp"
#include "sim/engine/message_plan.hpp"
#include "sim/engine/wires.hpp"
#include "tests/catch.hpp"
#include "tests/unit/engine/pipelines.hpp"

using engine::Network;
using engine::Sharing;
using program::Algorithm;
using program::Collective;

namespace {

// When each message ends, by its number.
std::vector<std::int64_t> ends(Network& network, std::size_t messages) {
  std::vector<std::int64_t> at(messages, -1);
  std::vector<std::uint32_t> ended;
  network.settle(0, ended);
  while (network.in_flight() > 0) {
    const std::int64_t now = network.next_end();
    ended.clear();
    network.settle(now, ended);
    for (const std::uint32_t m : ended) at[m] = now;
  }
  return at;
}

// Time and bytes sent by each of `group` ranks of one node whose ports carry a byte a picosecond.
struct Played {
  std::int64_t time = 0;
  std::vector<double> sent, received;
};
Played play(const engine::MessagePlan& plan, int group, const cost::Machine& machine,
            Sharing sharing = Sharing::shared) {
  const engine::Topology topology(group, machine, {});
  engine::Wires wires(topology, sharing);
  std::vector<int> members;
  for (int r = 0; r < group; ++r) members.push_back(r);
  const engine::Cast cast = wires.cast(plan, members);
  wires.start(0, plan, cast, 0);
  std::vector<engine::Wires::Done> done;
  Played p;
  while (wires.next() != Network::kNever) {
    p.time = wires.next();
    wires.advance(p.time, done);
  }
  CHECK(done.size() == static_cast<std::size_t>(group));
  for (int r = 0; r < group; ++r) {
    p.sent.push_back(wires.bytes_sent(r));
    p.received.push_back(wires.bytes_received(r));
  }
  return p;
}

double total(const std::vector<double>& all) {
  double sum = 0;
  for (const double x : all) sum += x;
  return sum;
}

}  // namespace

TEST_CASE("messages that share a link share it evenly, and take what others leave") {
  // Link a carries 2 B/ps, b 1. Messages 0 and 1 cross a, message 1 also b, message 2 b alone:
  // b gives 1/2 each to 1 and 2; message 0 has the remaining 3/2 of a.
  Network n(Sharing::shared);
  const auto a = n.add_link(2), b = n.add_link(1);
  n.add(0, {a}, 300, 0);
  n.add(1, {a, b}, 100, 0);
  n.add(2, {b}, 100, 0);
  const auto at = ends(n, 3);
  CHECK(at[0] == 200);
  CHECK(at[1] == 200);
  CHECK(at[2] == 200);
  CHECK(n.carried(a) == 400);
}

TEST_CASE("a message speeds up when another ends") {
  Network n(Sharing::shared);
  const auto a = n.add_link(1);
  n.add(0, {a}, 100, 0);
  n.add(1, {a}, 300, 0);
  const auto at = ends(n, 2);
  CHECK(at[0] == 200);                 // half of the link
  CHECK(at[1] == 400);                 // 100 by then, the other 200 alone
}

TEST_CASE("an exclusive link carries one message at a time, in the order of arrival") {
  Network n(Sharing::exclusive);
  const auto a = n.add_link(1), b = n.add_link(1);
  n.add(0, {a}, 100, 0);
  n.add(1, {a, b}, 50, 0);
  n.add(2, {b}, 70, 0);                // b is free until message 1 gets both
  const auto at = ends(n, 3);
  CHECK(at[0] == 100);
  CHECK(at[2] == 70);
  CHECK(at[1] == 150);
}

TEST_CASE("no link carries more than its capacity, and none that is wanted stands idle") {
  const std::uint64_t seed = GENERATE(1u, 2u, 3u, 4u);
  INFO("seed " << seed);
  const core::Random random(seed, 0);
  std::uint64_t i = 0;
  Network n(Sharing::shared);
  std::vector<double> capacity;
  for (int l = 0; l < 6; ++l) {
    capacity.push_back(1.0 + static_cast<double>(random.below(i++, 9)));
    n.add_link(capacity.back());
  }
  std::vector<double> load(6, 0);
  for (std::uint32_t m = 0; m < 40; ++m) {
    const auto first = static_cast<std::uint32_t>(random.below(i++, 6));
    const auto second = (first + 1 + static_cast<std::uint32_t>(random.below(i++, 5))) % 6;
    const double bytes = 1000 + static_cast<double>(random.below(i++, 5000));
    n.add(m, {first, second}, bytes, 0);
    load[first] += bytes;
    load[second] += bytes;
  }
  const auto at = ends(n, 40);
  const std::int64_t last = *std::ranges::max_element(at);
  double busiest = 0, all = 0;
  for (std::size_t l = 0; l < 6; ++l) {
    CHECK(n.carried(static_cast<std::uint32_t>(l)) == load[l]);
    busiest = std::max(busiest, load[l] / capacity[l]);
    all += load[l] / capacity[l];
  }
  CHECK(static_cast<double>(last) >= busiest);
  CHECK(static_cast<double>(last) <= all + 40);  // some link is always full; a picosecond each
}

namespace {

// A message of a random load: its links, and the bytes that it has left.
struct Load {
  Network::Path path;
  double left = 0;
};

// The rates of max-min fairness by their definition, one link after another; no shared code.
std::vector<double> fair_rates(const std::vector<Load>& load, std::vector<double> room) {
  std::vector<double> rates(load.size(), -1);
  while (std::ranges::find(rates, -1.0) != rates.end()) {
    double least = 1e300;
    std::uint32_t tightest = 0;
    for (std::uint32_t l = 0; l < room.size(); ++l) {
      int users = 0;
      for (std::size_t m = 0; m < load.size(); ++m)
        users += rates[m] < 0 && std::ranges::count(load[m].path, l) > 0;
      if (users > 0 && room[l] / users < least) least = room[l] / users, tightest = l;
    }
    for (std::size_t m = 0; m < load.size(); ++m) {
      if (rates[m] >= 0 || std::ranges::count(load[m].path, tightest) == 0) continue;
      rates[m] = least;
      for (const std::uint32_t l : load[m].path) room[l] -= least;
    }
  }
  return rates;
}

}  // namespace

TEST_CASE("messages that come and go at random get the rates of everybody's fair shares") {
  struct Size {
    std::uint32_t links;
    std::size_t messages;
    std::uint64_t seeds, hops;
  };
  // In the larger network one change moves the rates of many messages, and leaves others alone.
  for (const Size& size : {Size{9, 30, 40, 2}, Size{25, 160, 4, 3}})
    for (std::uint64_t seed = 1; seed <= size.seeds; ++seed) {
      INFO("seed " << seed << " of " << size.links << " links");
      const core::Random random(seed, 9);
      std::uint64_t i = 0;
      Network n(Sharing::shared);
      std::vector<double> capacity;
      for (std::uint32_t l = 0; l < size.links; ++l) {
        capacity.push_back(1.0 + static_cast<double>(random.below(i++, 50)) / 10);
        n.add_link(capacity.back());
      }
      std::vector<Load> load(size.messages);
      std::vector<std::size_t> flying;
      std::vector<std::uint32_t> ended;
      std::int64_t now = 0;
      std::size_t next = 0;
      while (next < load.size() || !flying.empty()) {
        if (next < load.size() && (flying.empty() || random.below(i++, 4) > 0)) {
          load[next].left = 5000 + static_cast<double>(random.below(i++, 90'000));
          for (std::uint64_t hop = 1 + random.below(i++, size.hops); hop > 0; --hop) {
            const auto link = static_cast<std::uint32_t>(random.below(i++, size.links));
            if (std::ranges::count(load[next].path, link) == 0) load[next].path.push_back(link);
          }
          n.add(static_cast<std::uint32_t>(next), load[next].path, load[next].left, now);
          flying.push_back(next++);
        } else {
          now = n.next_end();
        }
        ended.clear();
        n.settle(now, ended);
        for (const std::uint32_t m : ended) std::erase(flying, m);
        std::vector<Load> rest;
        for (const std::size_t m : flying) rest.push_back(load[m]);
        const std::vector<double> rates = fair_rates(rest, capacity);
        for (std::uint32_t l = 0; l < size.links; ++l) {
          double all = 0;
          for (std::size_t m = 0; m < rest.size(); ++m)
            if (std::ranges::count(rest[m].path, l) > 0) all += rates[m];
          CHECK(std::abs(n.load(l) - all) <= 1e-9 * capacity[l]);
          CHECK(n.load(l) <= capacity[l] * (1 + 1e-12));
        }
      }
    }
}

TEST_CASE("a change that goes along a chain of links is not followed link by link") {
  // Pairs share a link each, i of capacity 2i + 2. The first of a pair and the second of the next
  // nearly fill another. As pair 0 loses its second, its first is faster, the second of pair 1
  // slower, so the first of pair 1 is faster, and so on.
  constexpr int kPairs = 40;
  Network n(Sharing::shared);
  std::vector<std::uint32_t> own, next;
  for (int i = 0; i < kPairs; ++i) {
    own.push_back(n.add_link(2 * i + 2));
    next.push_back(n.add_link(2 * i + 3 + 0.01));
  }
  for (std::uint32_t i = 0; i < kPairs; ++i) {
    n.add(2 * i, {own[i], next[i]}, 1e6, 0);
    if (i == 0)
      n.add(1, {own[0]}, 100, 0);
    else
      n.add(2 * i + 1, {own[i], next[i - 1]}, 1e6, 0);
  }
  std::vector<std::uint32_t> ended;
  n.settle(0, ended);
  CHECK(n.load(next[20]) == Approx(21 + 22));
  const std::uint64_t before = n.fillings();
  n.settle(n.next_end(), ended);
  REQUIRE(ended == std::vector<std::uint32_t>{1});
  CHECK(n.load(next[0]) == Approx(3.01));
  CHECK(n.load(next[20]) == Approx(43.01));
  CHECK(n.fillings() - before <= 6);
}

TEST_CASE("one message for many alike takes as much of a link as they do, to the bit") {
  // Three messages over link a, of which two also cross b, beside one over b and c.
  Network apart(Sharing::shared), folded(Sharing::shared);
  for (Network* n : {&apart, &folded})
    for (const double capacity : {0.7, 0.3, 0.11}) n->add_link(capacity);
  apart.add(0, {0}, 9000, 0);
  apart.add(1, {0, 1}, 7000, 0);
  apart.add(2, {0, 1}, 7000, 0);
  apart.add(3, {1, 2}, 5000, 0);
  const Network::Hop twice[] = {{0, 2}, {1, 2}};
  folded.add(0, {0}, 9000, 0);
  folded.send(1, folded.add_path(twice), 7000, 0);
  folded.add(3, {1, 2}, 5000, 0);
  const auto one = ends(apart, 4), other = ends(folded, 4);
  CHECK(one[0] == other[0]);
  CHECK(one[1] == other[1]);
  CHECK(one[2] == other[1]);
  CHECK(one[3] == other[3]);
  for (std::uint32_t l = 0; l < 3; ++l) CHECK(apart.carried(l) == folded.carried(l));
}

TEST_CASE("a ring moves 2d(K-1)/K from each rank, in as long as one port takes for it") {
  const cost::Machine machine = engine_test::unit_machine();
  for (const int k : {2, 3, 4, 8}) {
    const std::int64_t d = 8400;
    const auto type = core::DType::f16;
    const Played p = play(
        engine::message_plan(Collective::all_reduce, Algorithm::ring, k, d, type), k, machine);
    const double wire = 2.0 * 2 * d * (k - 1) / k;
    for (const double bytes : p.sent) CHECK(bytes == wire);
    CHECK(static_cast<double>(p.time) == wire);
    CHECK(total(p.sent) == total(p.received));
  }
}

TEST_CASE("what is played over wires is what the laws count and the cost model sums up") {
  cost::Machine machine = engine_test::unit_machine();
  machine.link_latency = core::Seconds{700e-12};
  const std::int64_t d = 5040;
  const auto type = core::DType::f32;
  for (const int k : {2, 3, 4, 7, 8}) {
    const cost::Place place{.size = k, .nodes = 1, .per_node = k};
    for (const auto& [collective, algorithm] :
         {std::pair{Collective::all_reduce, Algorithm::ring},
          std::pair{Collective::reduce_scatter, Algorithm::ring},
          std::pair{Collective::all_gather, Algorithm::ring},
          std::pair{Collective::send, Algorithm::ring},
          std::pair{Collective::all_reduce, Algorithm::tree},
          std::pair{Collective::all_reduce, Algorithm::naive_all_reduce},
          std::pair{Collective::broadcast, Algorithm::direct}}) {
      INFO(program::name(collective) << ' ' << program::name(algorithm) << " of " << k);
      const Played p = play(engine::message_plan(collective, algorithm, k, d, type), k, machine);
      for (int r = 0; r < k; ++r)
        CHECK(p.sent[static_cast<std::size_t>(r)] ==
              static_cast<double>(
                  program::wire_bytes(collective, algorithm, k, r, d, type).value()));
      CHECK(total(p.sent) == total(p.received));
      const auto timed = core::to_picoseconds(
          cost::collective_time(collective, algorithm, place, d, type, machine));
      if (algorithm == Algorithm::ring)
        CHECK(p.time == timed.value());
      else                             // a tree's levels are not full; all at once pay one latency
        CHECK(p.time <= timed.value());
    }
  }
}

TEST_CASE("incast: a server's one port takes as long as all workers' parts together") {
  const cost::Machine machine = engine_test::unit_machine();
  for (const int workers : {2, 4, 7}) {
    const engine::Topology topology(workers + 1, machine, {});
    engine::Wires wires(topology, Sharing::shared);
    engine::MessagePlan one;
    one.messages.push_back({0, 1, 1000});
    std::vector<engine::Cast> casts;
    for (int w = 0; w < workers; ++w) casts.push_back(wires.cast(one, {w, workers}));
    for (int w = 0; w < workers; ++w)
      wires.start(static_cast<std::uint32_t>(w), one, casts[static_cast<std::size_t>(w)], 0);
    std::vector<engine::Wires::Done> done;
    std::int64_t last = 0;
    while (wires.next() != Network::kNever) wires.advance(last = wires.next(), done);
    CHECK(last == 1000 * workers);
    CHECK(wires.bytes_received(workers) == 1000.0 * workers);
  }
}

TEST_CASE("a weak port holds up the whole ring; a broken one sends it around by the network") {
  cost::Machine machine = engine_test::unit_machine();
  machine.internode = core::BytesPerSecond{0.25e12};
  const engine::MessagePlan plan =
      engine::message_plan(Collective::all_reduce, Algorithm::ring, 4, 4000, core::DType::u8);
  const auto time = [&](double share) {
    const engine::WeakLink weak[] = {{2, share}};
    const engine::Topology topology(4, machine, weak);
    engine::Wires wires(topology, Sharing::shared);
    CHECK(wires.reaches(0, 2));
    const engine::Cast cast = wires.cast(plan, {0, 1, 2, 3});
    wires.start(0, plan, cast, 0);
    std::vector<engine::Wires::Done> done;
    std::int64_t last = 0;
    while (wires.next() != Network::kNever) wires.advance(last = wires.next(), done);
    return last;
  };
  CHECK(time(1) == 6000);              // 6 steps of 1000 bytes
  CHECK(time(0.5) == 12000);
  CHECK(time(0) == 48000);             // in and out share the node's network: an eighth each
  machine.internode = core::BytesPerSecond{0};
  const engine::WeakLink broken[] = {{2, 0}};
  CHECK(!engine::Topology(4, machine, broken).reaches(0, 2));
}
