#include "exec/cuda/emulate/meter.hpp"

#include <algorithm>
#include <utility>

#include "core/check.hpp"

namespace emulate {

Meter::Meter(std::vector<Memory> memory) : memory_(std::move(memory)) {
  PLANNER_CHECK(meter == nullptr, "one meter at a time counts a thread's accesses");
  meter = this;
}

Meter::~Meter() { meter = nullptr; }

void Meter::count(const void* at, std::size_t bytes, std::uint8_t how) {
  const auto* first = static_cast<const std::byte*>(at);
  const bool inside = std::ranges::any_of(memory_, [&](const Memory& m) {
    return first >= m.first && first + bytes <= m.first + m.bytes;
  });
  if (!inside) return;
  const auto address = reinterpret_cast<std::uintptr_t>(at);
  for (std::uintptr_t a = address; a < address + bytes; ++a) {
    if (last_page_ == nullptr || a / kPage != last_) {
      last_ = a / kPage;
      last_page_ = &pages_[last_];
    }
    std::uint8_t& done = (*last_page_)[a % kPage];
    if (how == kWritten && (done & kWritten) == 0) ++traffic_.written;
    if (how == kRead && done == 0) ++traffic_.read;
    done |= how;
  }
}

}  // namespace emulate
