#include "reports/validate/timing.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/cost/nccl.hpp"

namespace reports::validation {

using program::Collective;

static constexpr std::array kPatterns{
    Pattern{"all_reduce", Pattern::Kind::collective, Collective::all_reduce},
    Pattern{"all_gather", Pattern::Kind::collective, Collective::all_gather},
    Pattern{"reduce_scatter", Pattern::Kind::collective, Collective::reduce_scatter},
    Pattern{"broadcast", Pattern::Kind::collective, Collective::broadcast},
    Pattern{"sendrecv", Pattern::Kind::message}, Pattern{"alltoall", Pattern::Kind::exchange}};

std::optional<Pattern> pattern_called(std::string_view name) {
  const auto found =
      std::ranges::find_if(kPatterns, [&](const Pattern& p) { return name.starts_with(p.name); });
  return found == kPatterns.end() ? std::nullopt : std::optional(*found);
}

std::string pattern_names() {
  std::string text;
  for (const Pattern& p : kPatterns)
    text += (text.empty() ? "" : ", ") + std::string(p.name);
  return text;
}

double bus_factor(const Pattern& pattern, int gpus) {
  const double n = gpus;
  if (pattern.kind == Pattern::Kind::exchange) return (n - 1) / n;
  if (pattern.kind == Pattern::Kind::message || pattern.collective == Collective::broadcast)
    return 1;
  return (pattern.collective == Collective::all_reduce ? 2 : 1) * (n - 1) / n;
}

PredictedTiming predicted_timing(const Timing& timing, const cost::Fabric& fabric, bool paired) {
  const cost::Place place{timing.gpus, timing.nodes, timing.gpus / timing.nodes, paired};
  if (timing.pattern.kind == Pattern::Kind::message) {
    // Neighbours round a ring at once: those on two nodes are the last to end.
    const bool far = timing.nodes > 1;
    const cost::Place two{2, far ? 2 : 1, far ? 1 : 2, paired};
    return {core::to_seconds(cost::message_time(timing.bytes, two, fabric, paired)), "message"};
  }
  if (timing.pattern.kind == Pattern::Kind::exchange)
    return {core::to_seconds(cost::exchange_time(timing.bytes, place, fabric)), "exchange"};
  const cost::CollectiveCost c = cost::nccl_collective(timing.pattern.collective, timing.bytes,
                                                       place, fabric, std::nullopt, paired);
  return {core::to_seconds(c.time), fmt::format("{} {}", name(c.method), name(c.protocol))};
}

}  // namespace reports::validation
