#include "exec/communicator/links.hpp"

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

}  // namespace

TEST_CASE("a message takes its bytes over the bandwidth, and the latency once") {
  PacedLinks links(2, kLink, {});
  CHECK(links.arrival(0, 1, kMessage, kStart) - kStart == 11ms);
  // The next one waits for the port: 20 ms, and its own latency.
  CHECK(links.arrival(0, 1, kMessage, kStart) - kStart == 21ms);
  // The other direction is free, and so is the port once time has passed.
  CHECK(links.arrival(1, 0, kMessage, kStart) - kStart == 11ms);
  CHECK(links.arrival(0, 1, kMessage, kStart + 50ms) - kStart == 61ms);
}

TEST_CASE("one rank's messages to several peers leave one after another") {
  PacedLinks links(4, kLink, {});
  for (int peer = 1; peer < 4; ++peer) {
    CHECK(links.arrival(0, peer, kMessage, kStart) - kStart == 10ms * peer + 1ms);
  }
}

TEST_CASE("messages of several ranks to one arrive one after another") {
  PacedLinks links(4, kLink, {});
  for (int peer = 1; peer < 4; ++peer) {
    CHECK(links.arrival(peer, 0, kMessage, kStart) - kStart == 10ms * peer + 1ms);
  }
}

TEST_CASE("a ring step loads every port once, so it takes one message's time") {
  PacedLinks links(4, kLink, {});
  for (int i = 0; i < 4; ++i) {
    CHECK(links.arrival(i, (i + 1) % 4, kMessage, kStart) - kStart == 11ms);
  }
}

TEST_CASE("everyone to everyone in turns takes a message's time a turn, whoever is asked first") {
  PacedLinks links(4, kLink, {});
  for (int i = 0; i < 4; ++i)
    for (int turn = 1; turn < 4; ++turn)
      CHECK(links.arrival(i, (i + turn) % 4, kMessage, kStart) - kStart == 10ms * turn + 1ms);
}

TEST_CASE("a pair has its own link, and one without any is not paced") {
  PacedLinks own(3, std::nullopt, {{0, 1, {BytesPerSecond(50e6), Seconds(0)}}});
  CHECK(own.any());
  CHECK(own.arrival(0, 1, kMessage, kStart) - kStart == 20ms);
  CHECK(own.arrival(0, 2, kMessage, kStart) == kStart);
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
