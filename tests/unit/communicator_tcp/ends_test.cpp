#include "tests/catch.hpp"
#include "tests/unit/communicator/calls.hpp"
#include "tests/unit/communicator_tcp/ranks.hpp"

using exec::TcpWorld;

namespace {

void wait_for_what_never_comes(TcpWorld& world) {
  const auto c = world.communicator(world.rank(), calls::everyone(world.ranks()), 0);
  double x = 0;
  c->recv(&x, 1, core::DType::f64, (world.rank() + 1) % world.ranks(), 0,
          program::Traffic::pipeline);
}

int speakers(const std::vector<tcp_ranks::Ending>& endings) {
  int n = 0;
  for (const auto& ending : endings) n += ending.speaks ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("a rank that fails ends all with its reason, and rank 0 says it") {
  for (const int failing : {0, 2}) {
    const auto endings = tcp_ranks::run(4, [&](TcpWorld& world) {
      if (world.rank() == failing) throw std::runtime_error("no space left");
      wait_for_what_never_comes(world);
    });
    for (const auto& ending : endings)
      CHECK(ending.why == "rank " + std::to_string(failing) + ": no space left");
    CHECK(endings[0].speaks);
    CHECK(speakers(endings) == 1);
  }
}

TEST_CASE("a rank that is gone without a word ends all others, and one of them says so") {
  for (const int gone : {0, 1, 3}) {
    const auto endings = tcp_ranks::run(4, [&](TcpWorld& world) {
      if (world.rank() == gone) return;  // its connections end with its world
      wait_for_what_never_comes(world);
    });
    for (int r = 0; r < 4; ++r) {
      const auto& ending = endings[static_cast<std::size_t>(r)];
      CHECK(ending.why == (r == gone ? ""
                                     : "rank " + std::to_string(gone) +
                                           ": ended without a word; it was killed, or its machine "
                                           "failed"));
    }
    CHECK(endings[gone == 0 ? 1 : 0].speaks);
    CHECK(speakers(endings) == 1);
  }
}

TEST_CASE("a rank that was told to stop ends all others, in words that say so") {
  std::atomic<int> signal = 0;
  const auto endings = tcp_ranks::run(
      3,
      [&](TcpWorld& world) {
        if (world.rank() == 1) signal = 15;
        wait_for_what_never_comes(world);
      },
      [&](exec::TcpOptions& o) {
        if (o.place.rank == 1) o.stop_signal = &signal;
      });
  CHECK(endings[0].why == "rank 1: was told to stop by signal 15 (Terminated)");
  CHECK(endings[1].why == "rank 1: interrupted");
  CHECK(endings[2].why == endings[0].why);
  CHECK(speakers(endings) == 1);
}

TEST_CASE("a rank that says nothing for too long is lost, and all others end") {
  const auto endings = tcp_ranks::run(3, wait_for_what_never_comes, [](exec::TcpOptions& o) {
    o.silence_s = 4;
    o.beat_s = o.place.rank == 2 ? 1e6 : 0.1;
  });
  for (const auto& ending : endings)
    CHECK(ending.why ==
          "rank 2: was not heard from for 4 s: it is stopped, or its machine or the network is "
          "gone");
  CHECK(speakers(endings) == 1);
}
