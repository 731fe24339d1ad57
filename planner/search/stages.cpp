#include "planner/search/stages.hpp"

#include <algorithm>
#include <functional>
#include <tuple>
#include <utility>

#include "core/check.hpp"
#include "models/layer_kinds.hpp"
#include "planner/search/paced_stages.hpp"

namespace planner {
namespace {

constexpr std::int64_t kNoTime = INT64_MAX;

// Sums over layers [0, l).
class Sums {
 public:
  explicit Sums(const StageLoads& loads) : loads_(loads) {
    if (loads.repeat > 1) return;
    sums_.reserve(loads.layers.size() + 1);
    sums_.push_back({});
    for (const StageLoad& layer : loads.layers) {
      const StageLoad& last = sums_.back();
      sums_.push_back({last.time + layer.time, last.state + layer.state, last.kept + layer.kept});
    }
  }

  // Layers [first, last) as stage r of p.
  StageLoad stage(std::size_t first, std::size_t last, std::int64_t r, std::int64_t p) const {
    StageLoad s = between(first, last);
    if (r == 0) s = plus(s, loads_.embeddings);
    if (r + 1 == p) s = plus(s, loads_.head);
    return s;
  }

  // Its time alone. REQUIRES: layers that are stated one by one.
  std::int64_t time(std::size_t first, std::size_t last, std::int64_t r, std::int64_t p) const {
    return sums_[last].time - sums_[first].time + (r == 0 ? loads_.embeddings.time : 0) +
           (r + 1 == p ? loads_.head.time : 0);
  }

 private:
  StageLoad between(std::size_t first, std::size_t last) const {
    if (loads_.repeat > 1) {
      const auto n = static_cast<std::int64_t>(last - first);
      const StageLoad& one = loads_.layers.front();
      return {n * one.time, n * one.state, n * one.kept};
    }
    return {sums_[last].time - sums_[first].time, sums_[last].state - sums_[first].state,
            sums_[last].kept - sums_[first].kept};
  }
  static StageLoad plus(const StageLoad& a, const StageLoad& b) {
    return {a.time + b.time, a.state + b.state, a.kept + b.kept};
  }

  const StageLoads& loads_;
  std::vector<StageLoad> sums_;
};

std::int64_t in_flight(const StageLimits& limits, std::int64_t r) {
  return limits.in_flight.empty() ? 1 : limits.in_flight[static_cast<std::size_t>(r)];
}

// In doubles: a deep pipeline's bytes on one stage may pass 2^63.
bool holds(const StageLoad& s, std::int64_t working, const StageLimits& limits, std::int64_t r) {
  const double bytes = static_cast<double>(s.state) + static_cast<double>(working) +
                       static_cast<double>(s.kept) * static_cast<double>(in_flight(limits, r));
  const std::int64_t most = limits.paces.empty()
                                ? limits.bytes
                                : limits.paces[static_cast<std::size_t>(r)].bytes;
  return bytes <= static_cast<double>(most);
}

// The first layer of the last of r stages that hold the first l layers: of the least longest time,
// the earliest. `before` is the least longest time of r - 1 stages, by layers. It does not fall
// with more layers, and a stage's own time does not grow with a later first layer, so that the best
// lies where they meet. from: the earliest whose stage fits. low: where they met for fewer layers,
// before which they do not meet for more; is set.
std::pair<std::int64_t, std::size_t> earliest_best(const std::vector<std::int64_t>& before,
                                                   std::size_t from, std::size_t l,
                                                   std::size_t& low, const auto& time_of) {
  low = std::max(low, from);
  while (low < l && before[low] < time_of(low)) ++low;
  const std::int64_t later = low < l ? before[low] : kNoTime;
  if (low == from || later < time_of(low - 1)) return {later, low};
  const std::int64_t own = time_of(low - 1);
  std::size_t first = low - 1;         // stages of layers without time are as long
  while (first > from && time_of(first - 1) == own) --first;
  return {own, first};
}

// False where no division holds in memory. Every stage takes as many layers as it can hold: no
// division has more of them on its first stages. Where a stage can hold not even its next layer,
// those before might have left it others. O(L).
bool may_hold(const StageLoads& loads, const StageLimits& limits, const Sums& sums) {
  const std::int64_t p = limits.stages;
  std::size_t taken = 0;
  for (std::int64_t r = 0; r < p; ++r) {
    const std::size_t first = taken;
    const std::size_t most = loads.layers.size() - static_cast<std::size_t>(p - r - 1);
    while (taken < most && holds(sums.stage(first, taken + 1, r, p), loads.working, limits, r))
      ++taken;
    if (taken == first) return true;
  }
  return taken == loads.layers.size();
}

// longest[r][l]: least longest time of the first l layers on the first r stages. What it says of
// `before` holds where later stages keep no more micro-batches than earlier ones: a stage may then
// be cut in two, and those behind move on. REQUIRES: that.
std::optional<std::vector<std::int64_t>> divide_unequal(const StageLoads& loads,
                                                        const StageLimits& limits) {
  const Sums sums(loads);
  const bool limited = limits.bytes < INT64_MAX;
  if (limited && !may_hold(loads, limits, sums)) return std::nullopt;
  const auto p = static_cast<std::size_t>(limits.stages), count = loads.layers.size();
  std::vector<std::int64_t> before(count + 1, kNoTime), longest;
  std::vector<std::vector<std::size_t>> from(p + 1, std::vector<std::size_t>(count + 1, 0));
  before[0] = 0;
  for (std::size_t r = 1; r <= p; ++r) {
    const auto index = static_cast<std::int64_t>(r) - 1;
    longest.assign(count + 1, kNoTime);
    std::size_t fits = r - 1;          // the earliest first layer whose stage holds in memory
    std::size_t met = fits;
    for (std::size_t l = r == p ? count : r; l + (p - r) <= count; ++l) {
      const auto stage = [&](std::size_t first) {
        return sums.stage(first, l, index, limits.stages);
      };
      while (limited && fits < l && !holds(stage(fits), loads.working, limits, index)) ++fits;
      if (fits == l) continue;
      const auto time_of = [&](std::size_t first) {
        return sums.time(first, l, index, limits.stages);
      };
      std::tie(longest[l], from[r][l]) = earliest_best(before, fits, l, met, time_of);
    }
    std::swap(before, longest);
  }
  if (before[count] == kNoTime) return std::nullopt;
  std::vector<std::int64_t> stages(p);
  for (std::size_t r = p, l = count; r > 0; l = from[r--][l])
    stages[r - 1] = static_cast<std::int64_t>(l - from[r][l]);
  return stages;
}

// Equal layers: how many a stage holds in a time, or in its memory, is a quotient. Stages that are
// alike (most between the ends) are counted together.
class EqualLayers {
 public:
  EqualLayers(const StageLoads& loads, const StageLimits& limits)
      : loads_(loads), limits_(limits), layer_(loads.layers.front()), count_(loads.count()),
        p_(limits.stages) {
    for (std::int64_t r = 0; r < p_; ++r) {
      const bool inner = r > 1 && r + 1 < p_;
      if (inner && in_flight(limits, r) == in_flight(limits, r - 1)) ++runs_.back().stages;
      else runs_.push_back({extra(r), most_in_memory(r), 1});
    }
  }

  // Every time that a stage can take is k layers, with the embeddings, the head or both. The least
  // that suffices is found by bisection over k for each of the ends.
  std::optional<std::vector<std::int64_t>> divide() const {
    std::int64_t best = kNoTime, most = 0;
    for (const Run& run : runs_) {
      if (run.memory == 0) return std::nullopt;
      most += run.memory * run.stages;
    }
    if (most < count_) return std::nullopt;
    for (const std::int64_t end : {std::int64_t{0}, extra(0), extra(p_ - 1)}) {
      std::int64_t low = 0, high = count_;
      if (!suffices(end + high * layer_.time)) continue;
      while (low < high) {
        const std::int64_t middle = low + (high - low) / 2;
        if (suffices(end + middle * layer_.time)) high = middle;
        else low = middle + 1;
      }
      best = std::min(best, end + low * layer_.time);
    }
    if (best == kNoTime) return std::nullopt;
    return fill(best);
  }

 private:
  struct Run {
    std::int64_t extra = 0, memory = 0;  // time of an end; the most layers that memory holds
    std::int64_t stages = 0;
  };

  std::int64_t extra(std::int64_t r) const {
    return (r == 0 ? loads_.embeddings.time : 0) + (r + 1 == p_ ? loads_.head.time : 0);
  }

  std::int64_t most_in_memory(std::int64_t r) const {
    StageLoad ends;
    if (r == 0) ends.state += loads_.embeddings.state, ends.kept += loads_.embeddings.kept;
    if (r + 1 == p_) ends.state += loads_.head.state, ends.kept += loads_.head.kept;
    const double flight = static_cast<double>(in_flight(limits_, r));
    const double left = static_cast<double>(limits_.bytes) - static_cast<double>(ends.state) -
                        static_cast<double>(loads_.working) -
                        flight * static_cast<double>(ends.kept);
    const double each =
        static_cast<double>(layer_.state) + flight * static_cast<double>(layer_.kept);
    if (left < each) return 0;
    const double most = each > 0 ? left / each : static_cast<double>(count_);
    return static_cast<std::int64_t>(std::min(most, static_cast<double>(count_)));
  }

  std::int64_t most(const Run& run, std::int64_t time) const {
    const std::int64_t left = time - run.extra;
    if (left < layer_.time) return 0;
    return std::min(layer_.time > 0 ? left / layer_.time : count_, run.memory);
  }

  bool suffices(std::int64_t time) const {
    std::int64_t sum = 0;
    for (const Run& run : runs_) {
      const std::int64_t n = most(run, time);
      if (n < 1) return false;
      sum += n * run.stages;
    }
    return sum >= count_;
  }

  // As even as the stages' most allow: all at one level but those that hold less; what the level is
  // too much is taken from the last stage, the first, then from the end.
  std::vector<std::int64_t> fill(std::int64_t time) const {
    std::vector<std::int64_t> stages;
    stages.reserve(static_cast<std::size_t>(p_));
    std::int64_t level = count_ / p_ - 1, sum = 0;
    while (sum < count_) {
      ++level;
      sum = 0;
      for (const Run& run : runs_) sum += std::min(most(run, time), level) * run.stages;
    }
    for (const Run& run : runs_)
      stages.insert(stages.end(), static_cast<std::size_t>(run.stages),
                    std::min(most(run, time), level));
    const auto take = [&](std::size_t r) {
      if (sum > count_ && stages[r] == level) --stages[r], --sum;
    };
    take(stages.size() - 1);
    take(0);
    for (std::size_t r = stages.size() - 1; r-- > 1;) take(r);
    PLANNER_CHECK(sum == count_, "stages hold all layers");
    return stages;
  }

  const StageLoads& loads_;
  const StageLimits& limits_;
  const StageLoad layer_;
  const std::int64_t count_, p_;
  std::vector<Run> runs_;
};

}  // namespace

std::optional<std::vector<std::int64_t>> divide(const StageLoads& loads,
                                                const StageLimits& limits) {
  PLANNER_CHECK(limits.stages >= 1 && limits.stages <= loads.count());
  PLANNER_CHECK(loads.repeat == 1 || loads.layers.size() == 1);
  if (!limits.paces.empty()) return divide_paced(loads, limits);
  const bool equal = std::ranges::all_of(
      loads.layers, [&](const StageLoad& layer) { return layer == loads.layers.front(); });
  if (!equal) {
    PLANNER_CHECK(std::ranges::is_sorted(limits.in_flight, std::ranges::greater{}));
    return divide_unequal(loads, limits);
  }
  return EqualLayers(loads, limits).divide();
}

std::int64_t longest_time(const StageLoads& loads, const std::vector<std::int64_t>& stages) {
  const Sums sums(loads);
  std::int64_t longest = 0;
  std::size_t first = 0;
  for (std::size_t r = 0; r < stages.size(); ++r) {
    const std::size_t last = first + static_cast<std::size_t>(stages[r]);
    longest = std::max(longest, sums.stage(first, last, static_cast<std::int64_t>(r),
                                           std::ssize(stages)).time);
    first = last;
  }
  return longest;
}

bool fits(const StageLoads& loads, const StageLimits& limits,
          const std::vector<std::int64_t>& stages) {
  const Sums sums(loads);
  std::size_t first = 0;
  for (std::int64_t r = 0; r < std::ssize(stages); ++r) {
    const auto at = static_cast<std::size_t>(r);
    const std::size_t last = first + static_cast<std::size_t>(stages[at]);
    const bool again = loads.repeat > 1 && r > 1 && r + 1 < std::ssize(stages) &&
                       stages[at] == stages[at - 1] &&
                       in_flight(limits, r) == in_flight(limits, r - 1);
    if (!again && !holds(sums.stage(first, last, r, std::ssize(stages)), loads.working, limits, r))
      return false;
    first = last;
  }
  return true;
}

std::vector<std::int64_t> stages_by_cost(const models::ModelSpec& spec, std::int64_t stages) {
  PLANNER_CHECK(stages >= 1 && stages <= spec.layers && models::is_transformer(spec.family));
  const std::int64_t heads = spec.heads * models::head_dim_of(spec);
  std::vector<std::int64_t> of_kind;
  models::for_each_kind(spec, [&](const models::LayerView& kind) {
    of_kind.push_back(spec.hidden * (4 * heads + 3 * kind.ffn_hidden));
  });
  std::vector<std::int64_t> before{0};  // of the layers before each, and of all
  for (const int kind : models::kind_of_layers(spec))
    before.push_back(before.back() + of_kind[static_cast<std::size_t>(kind)]);
  const std::int64_t whole = before.back() + spec.hidden * spec.vocab;
  std::vector<std::int64_t> counts;
  std::int64_t taken = 0;
  for (std::int64_t r = 0; r < stages; ++r) {
    const std::int64_t first = taken, left = stages - r - 1;
    const std::int64_t most = spec.layers - left;  // one for each that follows
    const auto passed = [&] { return before[static_cast<std::size_t>(taken)] * stages; };
    while (taken < most && (left == 0 || passed() <= whole * (r + 1))) ++taken;
    counts.push_back(taken - first);
  }
  return counts;
}

}  // namespace planner
