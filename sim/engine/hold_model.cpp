#include "sim/engine/hold_model.hpp"

#include "core/random.hpp"

namespace engine {

HoldModel::HoldModel(std::size_t pending, std::uint64_t seed, double mean) {
  const core::Random random(seed, 0);
  delays_.reserve(kDelays);
  for (std::size_t i = 0; i < kDelays; ++i) {
    const double x = -core::portable_log(1 - random.uniform(i));
    delays_.push_back(static_cast<std::int64_t>(mean * x));
  }
  // Stationary from the start: what is left of an exponential delay is one, too.
  for (std::size_t i = 0; i < pending; ++i) {
    const double x = -core::portable_log(1 - random.uniform(kDelays + i));
    queue_.push({static_cast<std::int64_t>(mean * x), static_cast<std::uint32_t>(i), 0});
  }
}

std::uint64_t HoldModel::run(std::int64_t operations) {
  std::uint64_t digest = 0;
  for (std::int64_t i = 0; i < operations; ++i) {
    Event event = queue_.pop();
    digest = digest * 31 + static_cast<std::uint64_t>(event.time);
    event.time += delays_[next_];
    next_ = (next_ + 1) % kDelays;
    queue_.push(event);
  }
  return digest;
}

}  // namespace engine
