#pragma once
// Internal: the rule by which gradients are put into buckets. Pure.

#include <algorithm>
#include <cstdint>

#include "core/dtype.hpp"

namespace planner::stage {

// Whether a bucket of whole tensors, filled in gradient-ready order, closes: it holds its cap. The
// first one's cap is 1 MiB at most, so that communication begins early [ddp].
inline bool bucket_is_full(std::int64_t elements, core::DType gradient, std::int64_t bucket_bytes,
                           bool is_first) {
  const auto cap = is_first ? std::min<std::int64_t>(bucket_bytes, 1 << 20) : bucket_bytes;
  return core::bytes_of(elements, gradient).value() >= cap;
}

}  // namespace planner::stage
