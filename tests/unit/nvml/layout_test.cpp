// Layouts and numbers of NVML as NVIDIA's own bindings for Python have them, which their ctypes say
// field by field (nvidia-ml-py 13.615.71, pynvml.py).
#include <cstddef>

#include "exec/cuda/nvml/abi.hpp"
#include "tests/catch.hpp"

using namespace exec::cuda::nvml;

TEST_CASE("structures of NVML are laid out as in NVIDIA's own bindings") {
  STATIC_REQUIRE(sizeof(MemoryV1) == 24);
  STATIC_REQUIRE(offsetof(MemoryV1, used) == 16);
  STATIC_REQUIRE(sizeof(MemoryV2) == 40);
  STATIC_REQUIRE(offsetof(MemoryV2, total) == 8);
  STATIC_REQUIRE(offsetof(MemoryV2, reserved) == 16);
  STATIC_REQUIRE(offsetof(MemoryV2, used) == 32);
  STATIC_REQUIRE(kMemoryV2 == 33554472);
  STATIC_REQUIRE(sizeof(ProcessInfo) == 24);
  STATIC_REQUIRE(offsetof(ProcessInfo, used_bytes) == 8);
  STATIC_REQUIRE(offsetof(ProcessInfo, compute_instance) == 20);
  STATIC_REQUIRE(sizeof(PciInfo) == 68);
  STATIC_REQUIRE(offsetof(PciInfo, domain) == 16);
  STATIC_REQUIRE(offsetof(PciInfo, bus_id) == 36);
  STATIC_REQUIRE(sizeof(FieldValue) == 40);
  STATIC_REQUIRE(offsetof(FieldValue, scope) == 4);
  STATIC_REQUIRE(offsetof(FieldValue, timestamp) == 8);
  STATIC_REQUIRE(offsetof(FieldValue, type) == 24);
  STATIC_REQUIRE(offsetof(FieldValue, status) == 28);
  STATIC_REQUIRE(offsetof(FieldValue, value) == 32);
  STATIC_REQUIRE(kLinkSpeed == 90);
  STATIC_REQUIRE(kSent == 138);
  STATIC_REQUIRE(kReceived == 139);
  STATIC_REQUIRE(kMaxLinks == 36);
  STATIC_REQUIRE(kNotSupported == 3);
  STATIC_REQUIRE(kInsufficientSize == 7);
  STATIC_REQUIRE(kNatural == 1);
  STATIC_REQUIRE(kLarge == 3);
  STATIC_REQUIRE(kToGpu == 0);
  STATIC_REQUIRE(kToSwitch == 2);
}
