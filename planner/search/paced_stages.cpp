#include "planner/search/paced_stages.hpp"

#include <algorithm>

namespace planner {
namespace {

class Paced {
 public:
  Paced(const StageLoads& loads, const StageLimits& limits)
      : loads_(loads), limits_(limits), count_(loads.count()), p_(limits.stages) {}

  std::optional<std::vector<std::int64_t>> divide() const {
    double low = 0, high = 0;          // no time suffices; this one does
    for (const StagePace& pace : limits_.paces)
      high = std::max(high, static_cast<double>(all_time()) * pace.slowness);
    if (taken(high).empty()) return std::nullopt;
    for (int round = 0; round < 64 && high - low > 1e-9 * high; ++round) {
      const double middle = (low + high) / 2;
      (taken(middle).empty() ? low : high) = middle;
    }
    std::vector<std::int64_t> stages = taken(high);
    const std::vector<std::int64_t> level = evened(stages);
    return fits(loads_, limits_, level) ? level : stages;
  }

 private:
  const StageLoad& layer(std::int64_t l) const {
    return loads_.layer(static_cast<std::size_t>(l));
  }
  std::int64_t all_time() const {
    std::int64_t sum = loads_.embeddings.time + loads_.head.time;
    for (std::int64_t l = 0; l < count_; ++l) sum += layer(l).time;
    return sum;
  }

  // Each stage in turn takes as many layers as its time and memory hold, and leaves one to each
  // that follows: no division in that time has more on its first stages. Empty: some are left.
  std::vector<std::int64_t> taken(double time) const {
    std::vector<std::int64_t> stages;
    std::int64_t next = 0;
    for (std::int64_t r = 0; r < p_; ++r) {
      const auto at = static_cast<std::size_t>(r);
      const StagePace& pace = limits_.paces[at];
      const double flight = limits_.in_flight.empty()
                                ? 1
                                : static_cast<double>(limits_.in_flight[at]);
      double spent = 0, held = static_cast<double>(loads_.working);
      const auto add = [&](const StageLoad& load) {
        spent += static_cast<double>(load.time) * pace.slowness;
        held += static_cast<double>(load.state) + static_cast<double>(load.kept) * flight;
      };
      if (r == 0) add(loads_.embeddings);
      if (r + 1 == p_) add(loads_.head);
      const std::int64_t first = next;
      while (next < count_ - (p_ - r - 1)) {
        add(layer(next));
        if (spent > time || held > static_cast<double>(pace.bytes)) break;
        ++next;
      }
      if (next == first) return {};
      stages.push_back(next - first);
    }
    return next == count_ ? stages : std::vector<std::int64_t>{};
  }

  // Layers that are alike: stages of one pace between the ends share theirs evenly.
  std::vector<std::int64_t> evened(std::vector<std::int64_t> stages) const {
    if (loads_.repeat == 1) return stages;
    const auto pace = [&](std::size_t r) { return limits_.paces[r].slowness; };
    for (std::size_t from = 1; from + 1 < stages.size();) {
      std::size_t to = from;
      std::int64_t sum = 0;
      while (to + 1 < stages.size() && pace(to) == pace(from)) sum += stages[to++];
      const auto many = static_cast<std::int64_t>(to - from);
      for (std::size_t r = from; r < to; ++r)
        stages[r] = sum / many + (static_cast<std::int64_t>(to - r) <= sum % many ? 1 : 0);
      from = to;
    }
    return stages;
  }

  const StageLoads& loads_;
  const StageLimits& limits_;
  const std::int64_t count_, p_;
};

}  // namespace

std::optional<std::vector<std::int64_t>> divide_paced(const StageLoads& loads,
                                                      const StageLimits& limits) {
  return Paced(loads, limits).divide();
}

}  // namespace planner
