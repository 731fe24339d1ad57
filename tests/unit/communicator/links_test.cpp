#include "exec/communicator/links.hpp"

#include <algorithm>
#include <vector>

#include "core/random.hpp"
#include "sim/engine/network.hpp"
#include "tests/catch.hpp"
#include "tests/unit/communicator/group.hpp"

using namespace exec;
using namespace std::chrono_literals;
using core::Bytes;
using core::BytesPerSecond;
using core::Seconds;

namespace {

constexpr PacedLinks::Time kStart{};
// 1 MB at 100 MB/s takes 10 ms, and 1 ms more to arrive.
const Link kLink{BytesPerSecond(100e6), Seconds(1e-3)};
constexpr Bytes kMessage{1'000'000};

using Flights = std::vector<PacedLinks::FlightPtr>;

// Asked as a receiver asks: again when it could be there.
PacedLinks::Time arrival(PacedLinks& links, const PacedLinks::FlightPtr& flight) {
  PacedLinks::Time now = kStart;
  for (int asked = 0; asked < 1000; ++asked) {
    const PacedLinks::Time at = links.arrival(*flight, now);
    CHECK(at >= now - 1ns);
    if (flight->arrives) return at;
    now = at;
  }
  FAIL("asked a thousand times");
  return now;
}

PacedLinks::Time sent(PacedLinks& links, int from, int to, Bytes bytes, PacedLinks::Time now) {
  return arrival(links, links.send(from, to, bytes, now));
}

double ms(PacedLinks::Time time) {
  return std::chrono::duration<double, std::milli>(time - kStart).count();
}

}  // namespace

TEST_CASE("a message takes its bytes over the bandwidth, and the latency once") {
  PacedLinks links(2, kLink, {});
  const auto first = links.send(0, 1, kMessage, kStart);
  const auto second = links.send(0, 1, kMessage, kStart);
  const auto back = links.send(1, 0, kMessage, kStart);
  CHECK(ms(arrival(links, first)) == Approx(11));
  // The next one goes after it: 20 ms, and its own latency.
  CHECK(ms(arrival(links, second)) == Approx(21));
  // The other direction is free, and so is the port once time has passed.
  CHECK(ms(arrival(links, back)) == Approx(11));
  CHECK(ms(sent(links, 0, 1, kMessage, kStart + 50ms)) == Approx(61));
  CHECK(ms(sent(links, 0, 1, Bytes(0), kStart + 70ms)) == Approx(71));
}

TEST_CASE("messages that leave one rank at once, or reach one, share its port and end together") {
  for (const bool leave : {true, false}) {
    CAPTURE(leave);
    PacedLinks links(4, kLink, {});
    Flights flights;
    for (int peer = 1; peer < 4; ++peer)
      flights.push_back(links.send(leave ? 0 : peer, leave ? peer : 0, kMessage, kStart));
    for (const auto& f : flights) CHECK(ms(arrival(links, f)) == Approx(31));
  }
}

TEST_CASE("a message takes of another's port for as long as both are on their way") {
  PacedLinks links(3, kLink, {});
  const auto early = links.send(1, 0, kMessage, kStart);
  CHECK(ms(links.arrival(*early, kStart)) == Approx(11));  // the first time at which it could
  const auto late = links.send(2, 0, kMessage, kStart + 6ms);
  // 4 ms are left, at half the port 8: 6 + 8 + 1. The other has 6 ms left then, alone.
  CHECK(ms(arrival(links, early)) == Approx(15));
  CHECK(ms(arrival(links, late)) == Approx(21));
}

TEST_CASE("who shares a full port leaves room at the other one, and that room is taken") {
  PacedLinks links(4, kLink, {});
  // 1 -> 0, 2 -> 0 and 3 -> 0 have a third of port 0 each; 3 -> 2 has the rest of port 3, 2/3.
  for (int peer = 1; peer < 4; ++peer) links.send(peer, 0, kMessage, kStart);
  CHECK(ms(sent(links, 3, 2, kMessage, kStart)) == Approx(16));
}

TEST_CASE("a ring step loads every port once, so it takes one message's time") {
  PacedLinks links(4, kLink, {});
  Flights flights;
  for (int i = 0; i < 4; ++i) flights.push_back(links.send(i, (i + 1) % 4, kMessage, kStart));
  for (const auto& f : flights) CHECK(ms(arrival(links, f)) == Approx(11));
}

// Ports taken by whole messages made of this four messages' time, not three: one given 0.1 ms late
// found a port promised to another that had not begun.
TEST_CASE("everyone to everyone takes three messages' time, in any order and if some begin late") {
  for (const bool same_first : {false, true})
    for (const std::chrono::microseconds apart : {0us, 100us}) {
      CAPTURE(same_first, apart.count());
      PacedLinks links(4, kLink, {});
      Flights flights;
      for (int i = 0; i < 4; ++i)
        for (int turn = 1; turn < 4; ++turn) {
          const int to = same_first ? turn - (turn <= i) : (i + turn) % 4;
          flights.push_back(links.send(i, to, kMessage, kStart + apart * i));
        }
      double last = 0;
      for (const auto& f : flights) last = std::max(last, ms(arrival(links, f)));
      CHECK(last > 30.9999);
      CHECK(last < 31.3001);
    }
}

TEST_CASE("messages at random between pairs arrive when the engine's network ends them") {
  for (std::uint64_t round = 0; round < 100; ++round) {
    CAPTURE(round);
    const core::Random random(17, round);
    constexpr int kRanks = 5;
    PacedLinks links(kRanks, Link{BytesPerSecond(1e6), Seconds(0)}, {});
    engine::Network network(engine::Sharing::shared);
    for (int port = 0; port < 2 * kRanks; ++port) network.add_link(1e6 * 1e-12);
    Flights flights;
    std::vector<std::int64_t> ends;
    std::vector<std::uint32_t> ended;
    const auto pass = [&](std::int64_t until) {
      for (std::int64_t next = network.next_end(); next <= until; next = network.next_end()) {
        ended.clear();
        network.settle(next, ended);
        for (const std::uint32_t m : ended) ends[m] = next;
      }
    };
    std::int64_t now = 0;  // picoseconds
    for (std::uint32_t pair = 0; pair < kRanks * kRanks; ++pair) {
      const std::uint32_t from = pair * 7 % (kRanks * kRanks) / kRanks, to = pair * 7 % kRanks;
      if (from == to) continue;
      now += static_cast<std::int64_t>(random.below(2 * pair, 1000)) * 1'000'000;
      const Bytes bytes(1 + static_cast<std::int64_t>(random.below(2 * pair + 1, 3000)));
      flights.push_back(links.send(static_cast<int>(from), static_cast<int>(to), bytes,
                                   kStart + std::chrono::nanoseconds(now / 1000)));
      pass(now);
      const auto message = static_cast<std::uint32_t>(ends.size());
      ends.push_back(0);
      network.add(message, {from, kRanks + to}, static_cast<double>(bytes.value()), now);
      ended.clear();
      network.settle(now, ended);
    }
    pass(engine::Network::kNever - 1);
    for (std::size_t m = 0; m < flights.size(); ++m)
      CHECK(ms(arrival(links, flights[m])) ==
            Approx(static_cast<double>(ends[m]) * 1e-9).margin(1e-4));
  }
}

TEST_CASE("a pair has its own link, and one without any is not paced") {
  PacedLinks own(3, std::nullopt, {{0, 1, {BytesPerSecond(50e6), Seconds(0)}}});
  CHECK(own.any());
  CHECK(ms(sent(own, 0, 1, kMessage, kStart)) == Approx(20));
  CHECK(own.send(0, 2, kMessage, kStart) == nullptr);
  CHECK_FALSE(PacedLinks(3, std::nullopt, {}).any());
}

TEST_CASE("paced worlds say that their links are emulated and reduce the same") {
  for (bool paced : {false, true}) {
    LocalOptions options;
    if (paced) options.links = Link{BytesPerSecond(1e9), Seconds(1e-4)};
    std::vector<std::int32_t> data{1, 2, 3};
    std::vector<int> flags(3);
    run_group(
        3,
        [&](Communicator& c) {
          c.all_reduce(&data[c.index()], 1, core::DType::i32, program::ReduceOp::sum,
                       program::Algorithm::naive_all_reduce, program::Traffic::loss);
          flags[c.index()] = c.statistics().emulated_links ? 1 : 0;
        },
        options);
    CHECK(data == std::vector<std::int32_t>{6, 6, 6});
    CHECK(flags == std::vector<int>(3, paced ? 1 : 0));
  }
}
