// Calibrating the twin: what is measured is the host's, but the book, its resumption and the
// profile are those of a GPU.
#include <unistd.h>

#include <filesystem>

#include "exec/cuda/calibrate/calibrate.hpp"
#include "hw_profiles/load.hpp"
#include "exec/cuda/twin/twin.hpp"
#include "tests/unit/cuda/support.hpp"

using namespace cuda_tests;

TEST_CASE("a calibration goes on from its book, and its profile is one that plans take") {
  const std::filesystem::path file = std::filesystem::temp_directory_path() /
                                     ("planner-calibrate-" + std::to_string(getpid()));
  std::int64_t measured = 0, kept = 0;
  const auto options = [&] {
    exec::BookOptions o;
    o.budget = core::Seconds(1e-4);
    o.file = file.string();
    o.progress = [&](const std::string&, const exec::Point&, bool from_before) {
      (from_before ? kept : measured) += 1;
    };
    return o;
  };
  cuda::Twin twin;
  const auto first = cuda::calibrate_gpu(twin, options(), true);
  REQUIRE(first.ok());
  CHECK(measured > 10);
  CHECK(kept == 0);
  const std::int64_t points = measured;
  const auto again = cuda::calibrate_gpu(twin, options(), true);
  REQUIRE(again.ok());
  CHECK(measured == points);
  CHECK(kept == points);
  CHECK(twin.leaked() == 0);
  const std::string text = hw_profiles::to_json_text(first->profile);
  CHECK(hw_profiles::profile_from_json_text(text, "profile").ok());
  CHECK(text == hw_profiles::to_json_text(again->profile));
  CHECK(text.find("planner calibrate on twin") != std::string::npos);
  // All that says what this executor's products and attention reach is this device's.
  for (const char* field : {"gpu.gemm_sustained", "native.gemm_sustained", "gpu.attention_flash2",
                            "native.memory_efficiency",
                            "native.attention_forward", "native.attention_backward",
                            "native.narrow_forward", "native.narrow_backward"}) {
    INFO(field);
    const hw_profiles::Sourced* found = first->profile.lookup(field);
    REQUIRE(found != nullptr);
    CHECK(found->source.starts_with("planner calibrate on twin"));
    CHECK(found->source.find("for comparison") == std::string::npos);
  }
  CHECK(first->profile.native.gemm_sustained == first->profile.gpu.gemm_sustained);
  // The best product is the shipped one where products at the power limit are slower.
  const auto shipped = cuda::shipped_profile("NVIDIA H200");
  REQUIRE(shipped.ok());
  CHECK(first->profile.gpu.gemm_efficiency >= shipped->gpu.gemm_efficiency);
  std::filesystem::remove(file);
}

TEST_CASE("a GPU without a shipped profile is a problem that names it") {
  const auto none = cuda::shipped_profile("NVIDIA Unheard Of");
  REQUIRE(!none.ok());
  CHECK(core::to_text(none.problems()).find("Unheard Of") != std::string::npos);
  for (const auto& [device, id] : {std::pair{"NVIDIA H200", "h200-sxm-141g"},
                                   {"NVIDIA H20", "h20-sxm-96g"},
                                   {"NVIDIA GB200", "gb200-186g"},
                                   {"NVIDIA A10G", "a10g"},
                                   {"NVIDIA A10", "a10"},
                                   {"NVIDIA L40S", "l40s"},
                                   {"NVIDIA L4", "l4"},
                                   {"NVIDIA GeForce RTX 3090", "rtx3090"},
                                   {"NVIDIA GeForce RTX 3090 Ti", "rtx3090ti"}}) {
    const auto found = cuda::shipped_profile(device);
    REQUIRE(found.ok());
    CHECK(found->gpu.id == id);
  }
  for (const char* other : {"NVIDIA L40", "NVIDIA GeForce RTX 3060 Ti", "NVIDIA H20-3e"})
    CHECK_FALSE(cuda::shipped_profile(other).ok());
}
