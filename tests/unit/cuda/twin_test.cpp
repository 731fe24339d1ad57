// The emulated grid and the twin device themselves: what they must catch.
#include "exec/cuda/emulate/grid.hpp"
#include "exec/cuda/twin/twin.hpp"
#include "tests/unit/cuda/support.hpp"

using namespace cuda_tests;
using cuda::FailureKind;

std::unique_ptr<cuda::Api> cuda_tests::open_device() { return std::make_unique<cuda::Twin>(); }

namespace {

// Runs on one thread of a grid.
void emulated(cuda::Twin& twin, cuda::StreamHandle stream, std::function<void()> body,
              unsigned threads = 64, unsigned blocks = 2) {
  cuda::Launch l;
  l.name = "test";
  l.grid = {blocks};
  l.block = {threads};
  l.shared = 256;
  l.body = std::move(body);
  twin.launch(l, stream);
}

}  // namespace

TEST_CASE("threads of a block meet at barriers, lanes of a warp exchange values") {
  cuda::Twin twin;
  const cuda::StreamHandle stream = twin.create_stream(false);
  std::vector<int> seen(128, -1);
  emulated(twin, stream, [&] {
    auto* shared = reinterpret_cast<int*>(emulate::shared());
    const unsigned t = threadIdx.x;
    const int from_left = __shfl_sync(~0U, static_cast<int>(t), static_cast<int>((t + 31) % 32));
    if (t % 32 == 0) shared[t / 32] = from_left;
    __syncthreads();
    seen[blockIdx.x * 64 + t] = shared[1 - t / 32] + __shfl_xor_sync(~0U, 0, 1);
  });
  twin.synchronise(stream);
  // Lane 0 of warp w sees thread t + 31 of its own warp; the other warp reads it.
  for (int i = 0; i < 128; ++i) CHECK(seen[static_cast<std::size_t>(i)] == (i % 64 < 32 ? 63 : 31));
}

TEST_CASE("work runs when somebody waits, and a wait between streams is obeyed in every order") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    cuda::Twin twin({.seed = seed});
    cuda::StreamHandle a = twin.create_stream(false), b = twin.create_stream(false);
    cuda::EventHandle event = twin.create_event(false);
    std::vector<int> order;
    const auto note = [&](cuda::StreamHandle s, int n) {
      emulated(twin, s, [&order, n] { if (threadIdx.x == 0) order.push_back(n); }, 32, 1);
    };
    note(a, 1);
    twin.record(event, a);
    twin.wait(b, event);
    note(b, 2);
    CHECK(order.empty());
    twin.synchronise(b);
    CHECK(order == std::vector<int>{1, 2});
  }
}

TEST_CASE("without a wait some order is wrong: that is how a missing one is found") {
  bool first = false, second = false;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    cuda::Twin twin({.seed = seed});
    cuda::StreamHandle a = twin.create_stream(false), b = twin.create_stream(false);
    int last = 0;
    for (const int n : {1, 2})
      emulated(twin, n == 1 ? a : b, [&last, n] { last = n; }, 32, 1);
    twin.synchronise(a);
    twin.synchronise(b);
    (last == 1 ? first : second) = true;
  }
  CHECK(first);
  CHECK(second);
}

TEST_CASE("a device that runs out of memory says how much was asked for and what helps") {
  cuda::Twin twin({.memory = core::Bytes(1 << 20)});
  cuda::PoolHandle pool = twin.create_pool();
  void* some = twin.allocate(pool, 700 << 10);
  try {
    twin.allocate(pool, 600 << 10);
    FAIL("it had no more");
  } catch (const cuda::DeviceFailure& e) {
    CHECK(e.kind() == FailureKind::out_of_memory);
    CHECK(std::string(e.what()).find("600 KiB") != std::string::npos);
    CHECK(std::string(e.what()).find("smaller micro-batch") != std::string::npos);
  }
  CHECK(twin.marks(pool).used == core::Bytes(700 << 10));
  twin.release(pool, some);
  twin.destroy(pool);
  CHECK(twin.leaked() == 0);
}

TEST_CASE("a failure of the device stays: every later call fails as well") {
  cuda::Twin twin;
  const cuda::StreamHandle stream = twin.create_stream(false);
  twin.fail("launch", 2, FailureKind::device);
  emulated(twin, stream, [] {});
  CHECK_THROWS_AS(emulated(twin, stream, [] {}), cuda::DeviceFailure);
  CHECK_THROWS_AS(twin.synchronise(stream), cuda::DeviceFailure);
}

TEST_CASE("work that is kept is done when it is launched, each time, in the order of its streams") {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    cuda::Twin twin({.seed = seed});
    const cuda::StreamHandle a = twin.create_stream(false), b = twin.create_stream(false);
    const cuda::EventHandle fork = twin.create_event(false), join = twin.create_event(false);
    std::vector<int> order;
    const auto note = [&](cuda::StreamHandle s, int n) {
      emulated(twin, s, [&order, n] { if (threadIdx.x == 0) order.push_back(n); }, 32, 1);
    };
    twin.begin_capture(a);
    note(a, 1);
    twin.record(fork, a);
    twin.wait(b, fork);
    note(b, 2);
    twin.record(join, b);
    twin.wait(a, join);
    note(a, 3);
    const cuda::GraphHandle graph = twin.end_capture(a);
    twin.synchronise(a);
    CHECK(order.empty());
    twin.launch(graph, a);
    note(a, 4);
    twin.launch(graph, a);
    twin.synchronise(a);
    CHECK(order == std::vector<int>{1, 2, 3, 4, 1, 2, 3});
    twin.destroy(graph);
  }
}

TEST_CASE("what a capture does not allow is refused, and the stream works on") {
  cuda::Twin twin;
  const cuda::StreamHandle a = twin.create_stream(false), b = twin.create_stream(false);
  const cuda::EventHandle before = twin.create_event(false), fork = twin.create_event(false);
  twin.record(before, b);
  twin.begin_capture(a);
  CHECK_THROWS_AS(twin.wait(a, before), cuda::DeviceFailure);
  CHECK_THROWS_AS(twin.synchronise(a), cuda::DeviceFailure);
  CHECK_THROWS_AS(twin.begin_capture(a), cuda::DeviceFailure);
  twin.record(fork, a);
  twin.wait(b, fork);
  CHECK_THROWS_AS(twin.end_capture(a), cuda::DeviceFailure);  // b did not return
  int done = 0;
  for (const cuda::StreamHandle s : {a, b})
    emulated(twin, s, [&done] { done += threadIdx.x == 0; }, 32, 1);
  twin.synchronise(a);
  twin.synchronise(b);
  CHECK(done == 2);
  twin.begin_capture(b);
  twin.abandon_capture(b);
  twin.synchronise(b);
}
