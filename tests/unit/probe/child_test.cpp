#include "tools/probe/child.hpp"

#include <signal.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <thread>

#include "tests/catch.hpp"

using probe::Ending;
using Kind = probe::Ending::Kind;

// Children of these tests are this test binary again, told to run one of the hidden cases.
TEST_CASE("child: sleeps", "[.child]") { std::this_thread::sleep_for(std::chrono::seconds(60)); }
TEST_CASE("child: crashes", "[.child]") {
  ::signal(SIGKILL, SIG_DFL);
  ::raise(SIGKILL);
}
TEST_CASE("child: expects its environment", "[.child]") {
  REQUIRE(std::getenv("PROBE_TEST_SET") != nullptr);
  CHECK(std::string(std::getenv("PROBE_TEST_SET")) == "value");
  CHECK(std::getenv("DROPPED_VARIABLE") == nullptr);
}

namespace {

const volatile std::sig_atomic_t kNever = 0;
const volatile std::sig_atomic_t kAtOnce = 1;

pid_t child(const std::string& name) { return probe::spawn_self({{"child: " + name}, {}, ""}); }

bool gone(pid_t pid) { return ::kill(pid, 0) != 0; }

}  // namespace

TEST_CASE("a child that outlives its limit is killed and reaped") {
  const std::array<pid_t, 1> children{child("sleeps")};
  const auto endings = probe::wait_all(children, 0.3, kNever);
  CHECK(endings[0].kind == Kind::timed_out);
  CHECK_FALSE(endings[0].good());
  CHECK(gone(children[0]));
}

TEST_CASE("when one child dies the others are killed without waiting for the limit") {
  const std::array<pid_t, 3> children{child("sleeps"), child("crashes"), child("sleeps")};
  const auto endings = probe::wait_all(children, 50.0, kNever);  // the test's limit is shorter
  CHECK(endings[0].kind == Kind::stopped);
  CHECK(endings[1].kind == Kind::signalled);
  CHECK(endings[1].code == SIGKILL);
  CHECK(endings[2].kind == Kind::stopped);
  for (const pid_t pid : children) CHECK(gone(pid));
}

TEST_CASE("a request to stop kills the children") {
  const std::array<pid_t, 1> children{child("sleeps")};
  CHECK(probe::wait_all(children, 50.0, kAtOnce)[0].kind == Kind::stopped);
  CHECK(gone(children[0]));
}

TEST_CASE("a child gets the variables it is given and none with the dropped prefix") {
  ::setenv("DROPPED_VARIABLE", "1", 1);
  const std::array<pid_t, 1> children{probe::spawn_self(
      {{"child: expects its environment"}, {{"PROBE_TEST_SET", "value"}}, "DROPPED_"})};
  CHECK(probe::wait_all(children, 50.0, kNever)[0].good());
  const std::array<pid_t, 1> bare{child("expects its environment")};
  const Ending ending = probe::wait_all(bare, 50.0, kNever)[0];
  CHECK(ending.kind == Kind::exited);
  CHECK(ending.code != 0);
}
