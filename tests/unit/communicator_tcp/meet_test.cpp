#include <netinet/in.h>
#include <sys/socket.h>

#include <atomic>

#include "tests/catch.hpp"
#include "tests/unit/communicator_tcp/ranks.hpp"

using exec::TcpOptions;
using exec::TcpWorld;
using tcp_ranks::Ending;

namespace {

void meet_and_part(TcpWorld& world) { world.finish(); }

bool has(const std::string& text, const std::string& part) {
  if (text.find(part) != std::string::npos) return true;
  UNSCOPED_INFO(text);
  return false;
}

}  // namespace

TEST_CASE("a rank that does not come is named, and those that came are let go without a word") {
  const auto endings = tcp_ranks::run(
      2, meet_and_part, [](TcpOptions& o) {
        o.place.size = 4;
        o.place.patience = 1;
      });
  CHECK(has(endings[0].why, "rank 0: ranks 2 and 3 of 4 did not come to 127.0.0.1 port "));
  CHECK(has(endings[0].why, " within 1 s;"));
  CHECK(endings[0].speaks);
  CHECK_FALSE(endings[1].speaks);
}

TEST_CASE("ranks without a rank 0 say where they looked for it, one of each machine") {
  // Bound, so that no other run takes the port, and nobody listens at it.
  const exec::tcp::Socket held(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(held.get(), reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
  const int port = exec::tcp::own_address(held).port;
  for (const int local_rank : {0, 2}) {
    TcpOptions o = tcp_ranks::options_of(4, 8, port);
    o.place.local_rank = local_rank;
    o.place.patience = 1;
    const Ending ending = tcp_ranks::end_of(o, meet_and_part);
    CHECK(has(ending.why, "rank 4: expected rank 0 at 127.0.0.1 port " + std::to_string(port) +
                              ", found none within 1 s (127.0.0.1 port " + std::to_string(port) +
                              ": Connection refused)"));
    CHECK(ending.speaks == (local_rank == 0));
  }
}

TEST_CASE("a rank with another secret is refused, and its secret never travels") {
  const auto endings = tcp_ranks::run(2, meet_and_part, [](TcpOptions& o) {
    o.place.patience = 1;
    if (o.place.rank == 1) o.place.secret = "another";
  });
  CHECK(has(endings[1].why, "expected the PLANNER_SECRET of rank 0, found another"));
  CHECK(has(endings[0].why, "(somebody came with another PLANNER_SECRET)"));
}

TEST_CASE("ranks that differ in version, plan, number or job are told apart by name") {
  const std::pair<tcp_ranks::Adjust, std::string> cases[] = {
      {[](TcpOptions& o) { o.common.version = "0.9"; },
       "rank 1: version of planner: expected 1.0, as rank 0 has, found 0.9, on 127.0.0.1"},
      {[](TcpOptions& o) { o.common.plan = "other"; },
       "rank 1: the plan's file: expected plan, as rank 0 has, found other"},
      {[](TcpOptions& o) { o.place.size = 3; },
       "rank 1: WORLD_SIZE: expected 2, as rank 0 has, found 3"},
      {[](TcpOptions& o) { o.place.job = "7"; }, "rank 1: job: expected , as rank 0 has, found 7"}};
  for (const auto& [adjust, text] : cases) {
    const auto endings = tcp_ranks::run(2, meet_and_part, [&, adjust = adjust](TcpOptions& o) {
      if (o.place.rank == 1) adjust(o);
    });
    CHECK(has(endings[0].why, text));
    CHECK(endings[0].speaks);
    CHECK_FALSE(endings[1].speaks);
  }
}

TEST_CASE("a machine without the plan's file joins, as rank 0 tells it") {
  const auto endings = tcp_ranks::run(2, meet_and_part, [&](TcpOptions& o) {
    if (o.place.rank == 1) o.common.plan = "";
  });
  for (const Ending& ending : endings) CHECK(ending.why == "");
}

TEST_CASE("rank 0 listens although the name of its machine is nobody's yet") {
  const int port = exec::tcp::own_address(exec::tcp::listen_at("127.0.0.1", 0)).port;
  const auto endings = tcp_ranks::run(2, meet_and_part, [&](TcpOptions& o) {
    o.place.port = port;
    if (o.place.rank != 0) return;
    exec::tcp::Socket(o.place.listener).close();
    o.place.listener = -1;
    o.place.address = "no name";
  });
  for (const Ending& ending : endings) CHECK(ending.why == "");
}

TEST_CASE("two processes that say they are one rank end the run") {
  const auto endings = tcp_ranks::run(3, meet_and_part, [](TcpOptions& o) {
    if (o.place.rank == 2) o.place.rank = 1;
  });
  CHECK(has(endings[0].why, "rank 1: expected one process of each rank below 3, found another"));
}

TEST_CASE("two runs on one port: the second says what to choose") {
  exec::tcp::Socket listener = exec::tcp::listen_at("127.0.0.1", 0);
  const int port = exec::tcp::own_address(listener).port;
  const std::string other = std::to_string(port % 65535 + 1);
  // While the first waits for its ranks.
  const Ending second = tcp_ranks::end_of(tcp_ranks::options_of(0, 2, port), meet_and_part);
  CHECK(has(second.why, "rank 0: MASTER_PORT: expected a free port, found " +
                            std::to_string(port) + " in use"));
  CHECK(has(second.why, "export MASTER_PORT=" + other));
  // Once the first has begun.
  std::atomic<bool> looked{false};
  TcpOptions first = tcp_ranks::options_of(0, 2, port);
  first.place.listener = listener.release();
  std::thread host([&] {
    tcp_ranks::end_of(first, [&](TcpWorld& world) {
      const Ending late = tcp_ranks::end_of(tcp_ranks::options_of(1, 2, port), meet_and_part);
      CHECK(has(late.why, "rank 1: MASTER_PORT: expected a rank 0 that waits at 127.0.0.1 port"));
      CHECK(has(late.why, "found another run that has begun"));
      looked = true;
      world.finish();
    });
  });
  tcp_ranks::end_of(tcp_ranks::options_of(1, 2, port), meet_and_part);
  host.join();
  CHECK(looked.load());
}

TEST_CASE("strangers that say nothing, nonsense or too much do not keep ranks from meeting") {
  exec::tcp::Socket listener = exec::tcp::listen_at("127.0.0.1", 0);
  const int port = exec::tcp::own_address(listener).port;
  const exec::tcp::Wait wait{exec::tcp::Clock::now() + std::chrono::minutes(10)};
  std::vector<exec::tcp::Socket> strangers;
  const std::string hello = encode(exec::tcp::PacketKind::hello, std::string(16, 'x'));
  std::string huge = hello;
  huge[11] = '\x7f';  // a body of gigabytes
  for (const std::string& said : {std::string(), std::string("GET / HTTP/1.1\r\n\r\n"),
                                  std::string(100000, '\0'), hello, hello + hello,
                                  hello.substr(0, 5), huge,
                                  encode(exec::tcp::PacketKind::join, std::string(2000, 'x')),
                                  hello + encode(exec::tcp::PacketKind::join, ""),
                                  hello + encode(exec::tcp::PacketKind::welcome, "")}) {
    strangers.push_back(exec::tcp::connect_to("127.0.0.1", port, wait));
    ::send(strangers.back().get(), said.data(), said.size(), MSG_NOSIGNAL);
  }
  TcpOptions first = tcp_ranks::options_of(0, 2, port);
  first.place.listener = listener.release();
  Ending host;
  std::thread thread([&] { host = tcp_ranks::end_of(first, meet_and_part); });
  const Ending guest = tcp_ranks::end_of(tcp_ranks::options_of(1, 2, port), meet_and_part);
  thread.join();
  CHECK(host.why == "");
  CHECK(guest.why == "");
}

TEST_CASE("what listens there and is no rank 0 is said to be another program") {
  exec::tcp::Socket listener = exec::tcp::listen_at("127.0.0.1", 0);
  const int port = exec::tcp::own_address(listener).port;
  std::thread other([&] {
    const exec::tcp::Wait wait{exec::tcp::Clock::now() + std::chrono::minutes(10)};
    exec::tcp::wait_for(listener.get(), 1, wait);
    const exec::tcp::Socket socket = exec::tcp::accept_from(listener);
    const std::string said = "HTTP/1.1 400 Bad Request\r\n\r\n";
    exec::tcp::send_all(socket, std::as_bytes(std::span(said)), wait);
    std::vector<std::byte> hello(28);
    exec::tcp::receive_all(socket, hello, wait);
  });
  const Ending ending = tcp_ranks::end_of(tcp_ranks::options_of(1, 2, port), meet_and_part);
  other.join();
  CHECK(has(ending.why, "what answers there is not this program; choose a MASTER_PORT"));
}
