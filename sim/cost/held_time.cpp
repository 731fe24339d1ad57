#include "sim/cost/held_time.hpp"

#include <algorithm>

#include "sim/cost/action.hpp"

namespace cost {

HeldTime::Instance HeldTime::instance_of(const program::EventRef& event,
                                         const program::Call& call) {
  return {event.event, program::layer_index(event, call), event.micro_batch_shift};
}

std::int64_t HeldTime::next(const program::RankClass& k, const program::Action& action,
                            const program::Call& call, std::int64_t held) {
  if (action.stream != program::Stream::compute) {
    if (held == 0) return 0;
    Transfer t{.stream = action.stream, .held = held};
    t.signals = action.signal != program::kNone;
    if (t.signals) t.ends = instance_of(k.signals[action.signal], call);
    transfers_.push_back(t);
    return 0;
  }
  if (transfers_.empty()) return 0;
  for (std::uint32_t w = action.first_wait; w < action.first_wait + action.wait_count; ++w)
    wait(instance_of(k.waits[w].on, call));
  if (!ActionCost::is_kernel(action.kind)) return 0;
  std::int64_t longer = 0;
  for (const Transfer& t : transfers_) longer += t.held;
  transfers_.clear();
  return longer;
}

// With a transfer those before it in its stream are over.
void HeldTime::wait(const Instance& instance) {
  const auto over = std::ranges::find_if(
      transfers_, [&](const Transfer& t) { return t.signals && t.ends == instance; });
  if (over == transfers_.end()) return;
  const program::Stream stream = over->stream;
  const auto before =
      std::remove_if(transfers_.begin(), over + 1,
                     [&](const Transfer& t) { return t.stream == stream; });
  transfers_.erase(before, over + 1);
}

}  // namespace cost
