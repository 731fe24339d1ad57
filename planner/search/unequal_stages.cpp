#include "planner/search/unequal_stages.hpp"

#include <algorithm>
#include <tuple>
#include <utility>

#include "planner/search/stage_sums.hpp"

namespace planner {
namespace {

constexpr std::int64_t kNoDivision = INT64_MAX;

// A dynamic program over the first l layers on the first r stages. It looks at those boundaries
// alone that some division in a stated time has: a few, where that time is near the least one.
class UnequalLayers {
 public:
  UnequalLayers(const StageLoads& loads, const StageSums& sums, const StageLimits& limits)
      : loads_(loads), limits_(limits), sums_(sums), p_(static_cast<std::size_t>(limits.stages)),
        count_(static_cast<std::size_t>(loads.count())), limited_(limits.bytes < INT64_MAX),
        low_(p_ + 1), high_(p_ + 1) {}

  std::optional<std::vector<std::int64_t>> divide() {
    if (limited_ && (!may_hold() || !find_upper(kNoDivision))) return std::nullopt;
    std::int64_t longest = 1;
    for (const StageLoad& layer : loads_.layers) longest = std::max(longest, layer.time);
    const std::int64_t all = loads_.embeddings.time + loads_.head.time + sums_.whole().time;
    // Without limits on memory, the mean and one layer are enough, but for the model's ends.
    std::int64_t time = all / limits_.stages + longest, more = longest;
    if (limits_.known != nullptr) time = std::min(time, longest_of(*limits_.known));
    for (; time < all; time += more, more *= 2)
      if (find_upper(time) && find_lower(time))
        if (auto found = within_bounds()) return found;
    find_upper(kNoDivision);
    return find_lower(kNoDivision) ? within_bounds() : std::nullopt;
  }

 private:
  // Whether all stages together have what the loads take, each layer's of one micro-batch.
  bool may_hold() const {
    const StageLoad& all = sums_.whole();
    const auto least = static_cast<double>(all.state + loads_.embeddings.state +
                                           loads_.head.state) +
                       static_cast<double>(all.kept) +
                       static_cast<double>(loads_.working) * static_cast<double>(p_);
    return least <= static_cast<double>(limits_.bytes) * static_cast<double>(p_);
  }
  std::int64_t longest_of(const std::vector<std::int64_t>& stages) const {
    std::int64_t longest = 0;
    std::size_t first = 0;
    for (std::size_t r = 0; r < p_; ++r) {
      const std::size_t last = first + static_cast<std::size_t>(stages[r]);
      longest = std::max(longest, time_of(first, last, r + 1));
      first = last;
    }
    return longest;
  }
  bool may_be(std::size_t first, std::size_t last, std::size_t r) const {
    const auto index = static_cast<std::int64_t>(r) - 1;
    return !limited_ ||
           holds(sums_.stage(first, last, index, limits_.stages), loads_.working, limits_, index);
  }
  std::int64_t time_of(std::size_t first, std::size_t last, std::size_t r) const {
    return sums_.time(first, last, static_cast<std::int64_t>(r) - 1, limits_.stages);
  }

  // low_[r] to high_[r]: how many layers the first r stages can have, where each takes `most` at
  // the longest and holds in memory, and each has one. A part of a stage needs no more time and
  // memory than the stage. So stages that take as many layers as they can, counted from either end,
  // bound the boundaries of all divisions. False: no division is so fast.
  bool find_upper(std::int64_t most) {
    high_[0] = 0;
    for (std::size_t r = 1; r <= p_; ++r) {
      const std::size_t first = high_[r - 1], end = count_ - (p_ - r);
      std::size_t last = first;
      while (last < end && time_of(first, last + 1, r) <= most && may_be(first, last + 1, r))
        ++last;
      high_[r] = last;
    }
    return high_[p_] == count_;
  }
  bool find_lower(std::int64_t most) {
    low_[p_] = count_;
    for (std::size_t r = p_; r > 0; --r) {
      const std::size_t last = low_[r];
      std::size_t first = last;
      while (first >= r && time_of(first - 1, last, r) <= most && may_be(first - 1, last, r))
        --first;
      low_[r - 1] = first;
    }
    return low_[0] == 0;
  }

  // before[l]: the least longest time of the first l layers on the first r - 1 stages. It does not
  // fall with more layers: as later stages keep no more micro-batches than earlier ones, a stage
  // may be cut in two, and those behind move on. Nothing: no division has these bounds.
  std::optional<std::vector<std::int64_t>> within_bounds() const {
    std::vector<std::int64_t> before(count_ + 1, kNoDivision), longest(count_ + 1, kNoDivision);
    std::vector<std::size_t> row(p_ + 1, 0);  // of each r, where its bounds start in `from`
    for (std::size_t r = 1; r <= p_; ++r)
      row[r] = row[r - 1] + (high_[r - 1] >= low_[r - 1] ? high_[r - 1] - low_[r - 1] + 1 : 0);
    std::vector<std::size_t> from(row[p_] + 1);
    before[0] = 0;
    for (std::size_t r = 1; r <= p_; ++r) {
      std::size_t fits = std::max(low_[r - 1], r - 1);  // the earliest whose stage holds in memory
      std::size_t met = fits;
      for (std::size_t l = std::max(low_[r], r); l <= high_[r]; ++l) {
        longest[l] = kNoDivision;
        while (fits < l && !may_be(fits, l, r)) ++fits;
        if (fits == l) continue;
        std::tie(longest[l], from[row[r] + l - low_[r]]) =
            earliest_best(before, fits, l, r, met);
      }
      std::swap(before, longest);
    }
    if (before[count_] == kNoDivision) return std::nullopt;
    std::vector<std::int64_t> stages(p_);
    for (std::size_t r = p_, l = count_; r > 0; --r) {
      const std::size_t first = from[row[r] + l - low_[r]];
      stages[r - 1] = static_cast<std::int64_t>(l - first);
      l = first;
    }
    return stages;
  }

  // The first layer of the last of r stages that hold the first l layers: of the least longest
  // time, the earliest. A stage's own time does not grow with a later first layer, so that the best
  // lies where it meets `before`. fits: the earliest whose stage holds. met: where they met for
  // fewer layers, before which they do not meet for more; is set.
  std::pair<std::int64_t, std::size_t> earliest_best(const std::vector<std::int64_t>& before,
                                                     std::size_t fits, std::size_t l,
                                                     std::size_t r, std::size_t& met) const {
    met = std::max(met, fits);
    const std::size_t end = std::min(l, high_[r - 1] + 1);
    while (met < end && before[met] < time_of(met, l, r)) ++met;
    const std::int64_t later = met < end ? before[met] : kNoDivision;
    if (met <= fits || later < time_of(met - 1, l, r)) return {later, met};
    const std::int64_t own = time_of(met - 1, l, r);
    std::size_t first = met - 1;       // stages of layers without time are as long
    while (first > fits && time_of(first - 1, l, r) == own) --first;
    return {own, first};
  }

  const StageLoads& loads_;
  const StageLimits& limits_;
  const StageSums& sums_;
  const std::size_t p_, count_;
  const bool limited_;
  std::vector<std::size_t> low_, high_;  // by stages before
};

}  // namespace

std::optional<std::vector<std::int64_t>> divide_unequal(const StageLoads& loads,
                                                        const StageSums& sums,
                                                        const StageLimits& limits) {
  return UnequalLayers(loads, sums, limits).divide();
}

}  // namespace planner
