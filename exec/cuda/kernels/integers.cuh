#pragma once
// Views of i32: tokens, types of tokens, and places of rows among those of experts.

#include <cstdint>

#include "core/check.hpp"
#include "exec/host/view.hpp"

namespace exec::cuda {

inline std::int32_t* integers(const host::View& v) {
  PLANNER_CHECK(v.type == core::DType::i32, "tokens and places are i32");
  return static_cast<std::int32_t*>(v.data);
}

}  // namespace exec::cuda
