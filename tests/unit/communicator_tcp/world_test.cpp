#include <atomic>

#include <fmt/format.h>

#include "tests/catch.hpp"
#include "tests/unit/communicator/calls.hpp"
#include "tests/unit/communicator_tcp/ranks.hpp"

using exec::TcpWorld;

namespace {

void check_well(const std::vector<tcp_ranks::Ending>& endings) {
  for (const auto& ending : endings) CHECK(ending.why.empty());
}

}  // namespace

TEST_CASE("ranks joined by TCP make the bits of threads, whatever they say to each other") {
  std::atomic<int> calls{0}, different{0};
  check_well(tcp_ranks::run(3, [&](TcpWorld& world) {
    const auto same = [&](const std::string& what, const calls::Body& body) {
      const calls::Raw expected = calls::by_threads(world.ranks(), world.rank(), body);
      const auto c = world.communicator(world.rank(), calls::everyone(world.ranks()), 0);
      ++calls;
      if (body(*c) == expected) return;
      ++different;
      fmt::print(stderr, "rank {}: {} differs\n", world.rank(), what);
    };
    calls::each_reduction(false, same);
    same("servers", calls::servers);
    same("messages", calls::messages);
    world.finish();
  }));
  CHECK(calls.load() == 3 * 227);
  CHECK(different.load() == 0);
}

TEST_CASE("over TCP a message longer than what sockets hold arrives whole, both ways at once") {
  constexpr std::int64_t n = 8 << 20;  // bytes: sockets of Linux hold 6 MiB at most by default
  check_well(tcp_ranks::run(2, [&](TcpWorld& world) {
    const auto c = world.communicator(world.rank(), calls::everyone(2), 0);
    std::vector<std::uint8_t> mine(n), theirs(n);
    for (std::size_t i = 0; i < mine.size(); ++i)
      mine[i] = static_cast<std::uint8_t>(i * 31 + static_cast<std::size_t>(world.rank()));
    const int other = 1 - world.rank();
    for (int round = 0; round < 3; ++round) {
      c->send(mine.data(), n, core::DType::u8, other, round, program::Traffic::pipeline);
      c->recv(theirs.data(), n, core::DType::u8, other, round, program::Traffic::pipeline);
      for (std::size_t i = 0; i < theirs.size(); ++i)
        if (theirs[i] != static_cast<std::uint8_t>(i * 31 + static_cast<std::size_t>(other)))
          throw std::runtime_error("other bytes");
    }
    world.finish();
  }));
}

TEST_CASE("over TCP ranks exchange texts of any length, and count what they sent to whom") {
  check_well(tcp_ranks::run(4, [](TcpWorld& world) {
    for (const std::size_t length : {0, 1, 1000, 3'000'000}) {
      const auto text = [&](int rank) {
        return std::string(length * static_cast<std::size_t>(rank), static_cast<char>('a' + rank));
      };
      const std::vector<std::string> all = world.exchange(text(world.rank()));
      for (int r = 0; r < 4; ++r)
        if (all.at(static_cast<std::size_t>(r)) != text(r)) throw std::runtime_error("other text");
    }
    if (!world.sent().empty()) throw std::runtime_error("texts are no messages of the Program's");
    const auto c = world.communicator(world.rank(), calls::everyone(4), 0);
    const double x = 1;
    if (world.rank() == 1) c->send(&x, 1, core::DType::f64, 3, 0, program::Traffic::pipeline);
    double y = 0;
    if (world.rank() == 3) c->recv(&y, 1, core::DType::f64, 1, 0, program::Traffic::pipeline);
    const auto sent = world.sent();
    if (world.rank() == 1 && !(sent.size() == 1 && sent[0].to == 3 && sent[0].messages == 1 &&
                               sent[0].wire == core::Bytes(8)))
      throw std::runtime_error("not one message of 8 bytes to rank 3");
    world.finish();
  }));
}

TEST_CASE("ranks of one machine know that they share it, and one alone needs no network") {
  check_well(tcp_ranks::run(3, [](TcpWorld& world) {
    if (world.neighbours() != std::vector<int>({0, 1, 2})) throw std::runtime_error("neighbours");
    world.finish();
  }));
  check_well(tcp_ranks::run(1, [](TcpWorld& world) {
    if (world.exchange("x") != std::vector<std::string>({"x"})) throw std::runtime_error("texts");
    world.finish();
  }));
}
