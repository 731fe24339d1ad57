#pragma once
// NVFP4, the format of --precision nvfp4 [nvfp4] section 2.

namespace planner {

// Bytes of an element: 4 bits, and its share of the 8-bit scale that 16 elements have.
inline constexpr double kNvfp4Bytes = 0.5 + 1.0 / 16;

}  // namespace planner
