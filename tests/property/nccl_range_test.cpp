// The range of a rank's buffers in memory of NCCL: registered with every communicator, let go of
// before it is given back, and the driver's where the library has none.
#include "tests/catch.hpp"
#include "tests/property/nccl_ranks.hpp"

using namespace tests;
namespace cuda = exec::cuda;

namespace {

using Body = std::function<void(cuda::Twin&, cuda::NcclWorld&)>;

std::vector<tcp_ranks::Ending> run(const Body& body, const cuda::CollectiveLibrary& library) {
  return tcp_ranks::run(2, [&](exec::TcpWorld& control) {
    cuda::Twin twin;
    {
      cuda::NcclWorld world(control, twin, library, {});
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
    void* const range = world.allocate_range(1 << 20);
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
    CHECK(world.allocate_range(1 << 20) == nullptr);
    world.opened();
    CHECK(world.environment().at("nccl_buffers") ==
          "not registered: NCCL 2.28.9 has no memory of its own");
  }, old);
  for (const auto& e : ended) CHECK(e.why == "");
}

TEST_CASE("where NCCL has no memory left, a rank says how much it wanted") {
  const Words none("memory=0");
  const auto ended = run([](cuda::Twin&, cuda::NcclWorld& world) {
    world.allocate_range(1 << 20);
  }, fake_library());
  for (const auto& e : ended)
    CHECK(e.why.find("ncclMemAlloc of 1.00 MiB: ") != std::string::npos);
}
