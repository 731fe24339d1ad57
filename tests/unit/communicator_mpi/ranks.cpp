// One rank of three, under mpirun. Every collective, algorithm and type over MPI against the same
// call between three threads of this process, bit by bit; then MPI's own collectives on whole
// numbers, whose sums are exact in any order. Says what differs and exits 1.

#include <fmt/core.h>

#include "core/check.hpp"
#include "exec/communicator/mpi/mpi_world.hpp"
#include "tests/unit/communicator/calls.hpp"

namespace {

using namespace calls;

// Longer messages are of a derived type: kSizes has some.
constexpr std::size_t kLongestPlain = 4096;

class Check {
 public:
  explicit Check(exec::MpiWorld& world) : world_(world) {}

  void same(const std::string& what, const Body& body) {
    ++checks_;
    const Raw expected = by_threads(world_.ranks(), world_.rank(), body);
    const auto c = world_.communicator(world_.rank(), everyone(world_.ranks()), channel_);
    world_.opened();
    const Raw found = body(*c);
    if (found == expected) return;
    ++failures_;
    fmt::print(stderr, "rank {}: {} differs from threads\n", world_.rank(), what);
  }
  void next_channel() { ++channel_; }
  int checks() const { return checks_; }
  int failures() const { return failures_; }

 private:
  exec::MpiWorld& world_;
  int channel_ = 0, checks_ = 0, failures_ = 0;
};

void check_reductions(Check& check, bool whole) {
  each_reduction(whole, [&](const std::string& what, const Body& body) { check.same(what, body); });
}

}  // namespace

int main() {
  exec::MpiOptions options;
  options.longest_plain = kLongestPlain;
  exec::MpiWorld world(options);
  PLANNER_CHECK(world.ranks() == 3, "started for three ranks");
  Check check(world);
  check_reductions(check, false);
  check.same("servers", servers);
  check.same("messages", messages);
  check.next_channel();
  world.use_library_collectives();
  check_reductions(check, true);
  PLANNER_CHECK(world.exchange(std::to_string(world.rank())) ==
                std::vector<std::string>({"0", "1", "2"}));
  world.finish();
  if (world.rank() == 0) fmt::print("{} calls compared on each rank\n", check.checks());
  return check.failures() == 0 ? 0 : 1;
}
