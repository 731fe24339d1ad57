#include "sim/cost/held_time.hpp"

#include <algorithm>

#include "sim/cost/action.hpp"

namespace cost {

std::int64_t HeldTime::take(const program::RankClass& k, const program::Action& action,
                            const program::Call& call, std::int64_t held) {
  const auto instance = [&](const program::EventRef& ref) {
    return Instance(ref.event, program::instance_of(k.events[ref.event], ref, call));
  };
  if (action.stream != program::Stream::compute) {
    if (held == 0) return 0;
    transfers_.push_back({action.stream, held, {}});
    if (action.signal != program::kNone)
      transfers_.back().ends = instance(k.signals[action.signal]);
    return 0;
  }
  for (std::uint32_t w = action.first_wait; w < action.first_wait + action.wait_count; ++w)
    wait(instance(k.waits[w].on));
  if (!ActionCost::is_kernel(action.kind)) return 0;
  std::int64_t longer = 0;
  for (const Transfer& t : transfers_) longer += t.held;
  transfers_.clear();
  return longer;
}

// With a transfer those before it in its stream are over.
void HeldTime::wait(const Instance& instance) {
  const auto over = std::ranges::find(transfers_, instance, &Transfer::ends);
  if (over == transfers_.end()) return;
  const program::Stream stream = over->stream;
  const auto before =
      std::remove_if(transfers_.begin(), over + 1,
                     [&](const Transfer& t) { return t.stream == stream; });
  transfers_.erase(before, over + 1);
}

}  // namespace cost
