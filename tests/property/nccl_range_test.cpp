// The range of a rank's buffers in memory of NCCL: registered with every communicator, let go of
// before it is given back, and the driver's where the library has none.
#include "tests/catch.hpp"
#include "tests/property/nccl_ranks.hpp"

using namespace tests;
namespace cuda = exec::cuda;

namespace {

using Body = std::function<void(cuda::Twin&, cuda::NcclWorld&)>;

std::vector<tcp_ranks::Ending> run(const Body& body, const cuda::CollectiveLibrary& library,
                                   const cuda::NcclOptions& options = {}) {
  return tcp_ranks::run(2, [&](exec::TcpWorld& control) {
    cuda::Twin twin;
    {
      cuda::NcclWorld world(control, twin, library, options);
      body(twin, world);
    }
    CHECK(twin.leaked() == 0);
    control.exchange("");
    control.finish();
  });
}

// A communicator of both ranks, which the world makes when it opens.
std::unique_ptr<exec::Communicator> of_both(cuda::NcclWorld& world, cuda::StreamMessages& memory) {
  return world.communicator(world.rank(), std::vector<int>{0, 1}, 1, memory);
}

}  // namespace

TEST_CASE("a range lies in memory of NCCL, counts as the device's, and is registered") {
  const auto ended = run([](cuda::Twin& twin, cuda::NcclWorld& world) {
    const core::Bytes before = twin.memory().free;
    void* const range = world.allocate_range(1 << 20, 0);
    REQUIRE(range != nullptr);
    CHECK(before - twin.memory().free == core::mib(1));
    {
      cuda::MessagePool pool(twin);
      Lane lane(twin, pool);
      const auto c = of_both(world, lane.messages);
      world.opened();
      CHECK(world.environment().at("nccl_buffers") ==
            "1.00 MiB of ncclMemAlloc, registered with 1 communicators");
    }
    // The fake ends the test where a communicator still reaches it.
    world.release_range(range);
  }, fake_library());
  for (const auto& e : ended) CHECK(e.why == "");
}

TEST_CASE("a library without memory of its own leaves the range to the driver") {
  cuda::CollectiveLibrary old = fake_library();
  old.mem_alloc = nullptr;
  const auto ended = run([](cuda::Twin&, cuda::NcclWorld& world) {
    CHECK(world.allocate_range(1 << 20, 0) == nullptr);
    world.opened();
    CHECK(world.environment().at("nccl_buffers") ==
          "not registered: NCCL 2.28.9 has no memory of its own");
  }, old);
  for (const auto& e : ended) CHECK(e.why == "");
}

TEST_CASE("where NCCL has no memory left, a rank says how much it wanted") {
  const Words none("memory=0");
  const auto ended = run([](cuda::Twin&, cuda::NcclWorld& world) {
    world.allocate_range(1 << 20, 0);
  }, fake_library());
  for (const auto& e : ended)
    CHECK(e.why.find("ncclMemAlloc of 1.00 MiB: ") != std::string::npos);
}

namespace {

cuda::NcclOptions with_windows() {
  cuda::NcclOptions options;
  options.windows = true;
  return options;
}

// Both ranks sum 16 numbers that lie at their `place` of a range of their `layout`; what they said.
std::vector<tcp_ranks::Ending> summed(const std::function<int(int rank)>& layout,
                                      const std::function<std::size_t(int rank)>& place,
                                      const std::string& buffers) {
  return run(
      [&](cuda::Twin& twin, cuda::NcclWorld& world) {
        auto* const range =
            static_cast<std::byte*>(world.allocate_range(1 << 20, layout(world.rank())));
        std::string why;
        try {
          cuda::MessagePool pool(twin);
          Lane lane(twin, pool);
          const auto c = of_both(world, lane.messages);
          world.opened();
          CHECK(world.environment().at("nccl_buffers") == buffers);
          auto* const numbers = reinterpret_cast<float*>(range + place(world.rank()));
          std::fill_n(numbers, 16, 1.0f);
          c->all_reduce(numbers, 16, core::DType::f32, program::ReduceOp::sum,
                        program::Algorithm::ring, program::Traffic::gradients);
          twin.synchronise(lane.queue.stream, [&] { world.look(); });
          world.look();                // a communicator that was ended lets go of its streams
          CHECK(numbers[15] == 2.0f);
          world.drained();
        } catch (const std::exception& e) {
          why = world.fail(e.what());
        }
        world.release_range(range);
        if (!why.empty()) throw std::runtime_error(why);
      },
      fake_library(), with_windows());
}

}  // namespace

TEST_CASE("ranges of one layout are symmetric windows; sums lie at the same places of them") {
  const std::string one =
      "1.00 MiB of ncclMemAlloc, a symmetric window of 1 communicators, registered with 0 "
      "communicators";
  for (const auto& e : summed([](int) { return 3; }, [](int) { return 512; }, one))
    CHECK(e.why == "");
  for (const auto& e : summed([](int) { return 3; }, [](int r) { return r * 256; }, one))
    CHECK(e.why.find("index 1 has a buffer at another place of its window") != std::string::npos);
}

TEST_CASE("ranges of other layouts, and GPUs that do not reach each other, have no windows") {
  const std::string none =
      "1.00 MiB of ncclMemAlloc, a symmetric window of 0 communicators, registered with 1 "
      "communicators";
  for (const auto& e : summed([](int r) { return r; }, [](int r) { return r * 256; }, none))
    CHECK(e.why == "");
  const Words unreachable("windows=0");
  for (const auto& e : summed([](int) { return 3; }, [](int r) { return r * 256; }, none))
    CHECK(e.why == "");
}

TEST_CASE("a library without windows registers ranges, and says so") {
  cuda::CollectiveLibrary old = fake_library();
  old.comm_window_register = nullptr;
  const auto ended = run(
      [](cuda::Twin&, cuda::NcclWorld& world) {
        void* const range = world.allocate_range(1 << 20, 0);
        world.opened();
        CHECK(world.environment().at("nccl_buffers") ==
              "1.00 MiB of ncclMemAlloc, no window (NCCL 2.28.9 has none), registered with 0 "
              "communicators");
        world.release_range(range);
      },
      old, with_windows());
  for (const auto& e : ended) CHECK(e.why == "");
}
