#include "sim/cost/energy.hpp"

#include "core/check.hpp"

namespace cost {
namespace {

constexpr double kSecondsPerHour = 3600;

}  // namespace

std::optional<Joules> energy(const hw_profiles::Gpu& gpu, core::Seconds time, core::Seconds busy) {
  PLANNER_CHECK(busy.value() >= 0 && busy <= time, "busy for longer than the time itself");
  if (!gpu.tdp) return std::nullopt;
  const double active = busy.value() + kIdleShare * (time.value() - busy.value());
  return Joules(gpu.tdp->value() * active);
}

std::optional<Dollars> rent(const hw_profiles::Gpu& gpu, core::Seconds time) {
  if (!gpu.price) return std::nullopt;
  return Dollars(gpu.price->value() * time.value() / kSecondsPerHour);
}

Training training(const hw_profiles::Gpu& gpu, std::int64_t gpus, std::int64_t tokens,
                  std::int64_t step_tokens, core::Seconds step, core::Seconds busy) {
  PLANNER_CHECK(step_tokens >= 1 && step.value() > 0, "a step of nothing");
  const double steps = static_cast<double>(tokens) / static_cast<double>(step_tokens);
  const double many = static_cast<double>(gpus);
  Training t;
  t.tokens = tokens;
  t.seconds = step * steps;
  t.gpu_hours = t.seconds.value() * many / kSecondsPerHour;
  if (const auto one = rent(gpu, t.seconds)) t.cost = *one * many;
  if (const auto one = energy(gpu, step, busy)) t.energy = *one * (steps * many);
  return t;
}

}  // namespace cost
