// One target for libFuzzer: PLANNER_FUZZ_TARGET is its name.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/check.hpp"
#include "tests/fuzz/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Target* target = fuzz::find_target(PLANNER_FUZZ_TARGET);
  PLANNER_CHECK(target != nullptr);
  target->run({reinterpret_cast<const char*>(data), size});
  return 0;
}
