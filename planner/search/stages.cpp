#include "planner/search/stages.hpp"

#include <algorithm>
#include <functional>

#include "core/check.hpp"
#include "models/layer_kinds.hpp"
#include "planner/search/paced_stages.hpp"
#include "planner/search/stage_sums.hpp"
#include "planner/search/unequal_stages.hpp"

namespace planner {
namespace {

constexpr std::int64_t kNoTime = INT64_MAX;

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

// Whether each stage of a division holds in memory.
static bool hold(const StageSums& sums, const StageLoads& loads, const StageLimits& limits,
                 const std::vector<std::int64_t>& stages) {
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

std::optional<std::vector<std::int64_t>> divide(const StageLoads& loads,
                                                const StageLimits& limits,
                                                const std::vector<std::int64_t>* preferred) {
  PLANNER_CHECK(limits.stages >= 1 && limits.stages <= loads.count());
  PLANNER_CHECK(loads.repeat == 1 || loads.layers.size() == 1);
  const StageSums sums(loads);
  if (preferred != nullptr && hold(sums, loads, limits, *preferred)) return *preferred;
  if (!limits.paces.empty()) return divide_paced(loads, limits);
  const bool equal = std::ranges::all_of(
      loads.layers, [&](const StageLoad& layer) { return layer == loads.layers.front(); });
  if (!equal) {
    PLANNER_CHECK(std::ranges::is_sorted(limits.in_flight, std::ranges::greater{}));
    return divide_unequal(loads, sums, limits);
  }
  return EqualLayers(loads, limits).divide();
}

std::int64_t longest_time(const StageLoads& loads, const std::vector<std::int64_t>& stages) {
  const StageSums sums(loads);
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
  return hold(StageSums(loads), loads, limits, stages);
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
