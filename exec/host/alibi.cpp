#include "exec/host/alibi.hpp"

#include <bit>
#include <cmath>

namespace exec::host {

double alibi_slope(std::int64_t head, std::int64_t heads) {
  const auto n = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(heads)));
  const std::int64_t even = n / 2;
  const std::int64_t i = n == heads   ? head + 1
                         : head < even ? 2 * (head + 1)
                                       : 2 * (head - even) + 1;
  return std::exp2(-8.0 * static_cast<double>(i) / static_cast<double>(n));
}

}  // namespace exec::host
