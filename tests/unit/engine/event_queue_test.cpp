#include "sim/engine/event_queue.hpp"

#include <queue>

#include "core/random.hpp"
#include "sim/engine/hold_model.hpp"
#include "tests/catch.hpp"

using engine::Event;
using engine::EventQueue;

namespace {

struct After {
  bool operator()(const Event& a, const Event& b) const { return engine::before(b, a); }
};
using Heap = std::priority_queue<Event, std::vector<Event>, After>;

// Both hold `pending` events; then `operations` pops, each followed by 0 to 2 pushes. The delay is
// what `delay` makes of an index.
template <class Delay>
void compare(std::uint64_t seed, int pending, int operations, const Delay& delay) {
  INFO("seed " << seed << ", pending " << pending);
  const core::Random random(seed, 7);
  EventQueue queue;
  Heap heap;
  std::uint64_t drawn = 0;
  std::uint32_t id = 0;
  const auto push = [&](std::int64_t now) {
    const Event event{now + delay(drawn++), static_cast<std::uint32_t>(random.below(drawn++, 5)),
                      id++};
    queue.push(event);
    heap.push(event);
  };
  for (int i = 0; i < pending; ++i) push(0);
  for (int i = 0; i < operations && !heap.empty(); ++i) {
    const Event expected = heap.top();
    heap.pop();
    const Event found = queue.pop();
    REQUIRE(found == expected);
    REQUIRE(queue.now() == expected.time);
    const std::uint64_t pushes = heap.empty() ? 1 : random.below(drawn++, 3);
    for (std::uint64_t p = 0; p < pushes; ++p) push(expected.time);
  }
  while (!heap.empty()) {
    REQUIRE(queue.pop() == heap.top());
    heap.pop();
  }
  CHECK(queue.empty());
}

}  // namespace

TEST_CASE("events come out in the order of time, then order, then data, as from a heap") {
  const std::uint64_t seed = GENERATE(1u, 2u, 3u);
  const int pending = GENERATE(1, 2, 25, 300, 5000);
  const core::Random random(seed, 0);
  const auto below = [&](std::uint64_t count) {
    return [&random, count](std::uint64_t i) {
      return static_cast<std::int64_t>(random.below(i, count));
    };
  };
  compare(seed, pending, 6000, below(1'000'000'000));
  compare(seed, pending, 6000, below(3));                    // ties everywhere
  compare(seed, pending, 6000, [](std::uint64_t) { return std::int64_t{0}; });
  compare(seed, pending, 6000, below(std::uint64_t{1} << 48));
  // Spacings of many sizes at once: 2^0 to 2^40.
  compare(seed, pending, 6000, [&](std::uint64_t i) {
    return static_cast<std::int64_t>(random.bits(i) >> (24 + random.below(i + 1'000'000, 40)));
  });
}

TEST_CASE("the queue reaches the greatest time") {
  EventQueue queue;
  constexpr std::int64_t kLast = std::numeric_limits<std::int64_t>::max();
  queue.push({kLast, 1, 0});
  queue.push({0, 0, 0});
  queue.push({kLast, 0, 0});
  CHECK(queue.pop().time == 0);
  CHECK(queue.pop() == Event{kLast, 0, 0});
  CHECK(queue.pop() == Event{kLast, 1, 0});
  CHECK(queue.empty());
}

TEST_CASE("the hold model keeps its number pending, and gives the same digest for a seed") {
  engine::HoldModel a(1000, 3), b(1000, 3), c(1000, 4);
  const std::uint64_t digest = a.run(20'000);
  CHECK(a.queue().size() == 1000);
  CHECK(b.run(20'000) == digest);
  CHECK(c.run(20'000) != digest);
  CHECK(a.queue().now() > 0);
}
