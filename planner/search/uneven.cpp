#include "planner/search/uneven.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"
#include "hw_profiles/mixed.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner {
namespace {

// Rules of add_share_problems that the degrees decide.
bool may_share(const Strategy& s) {
  return s.data > 1 && s.sharding <= Sharding::zero1 && s.expert == 1 && s.split == 1 &&
         s.grad_sync != GradSync::parameter_server && flushes(s.schedule);
}

class ShareFinder {
 public:
  ShareFinder(std::span<const Pace> paces, std::int64_t all) : paces_(paces), all_(all) {}

  std::vector<std::int64_t> run() {
    chosen_.assign(paces_.size(), 0);
    around_ = real_optimum();
    try_kind(1, all_);
    return best_;
  }

 private:
  core::Seconds step(std::size_t kind, std::int64_t m) const {
    return paces_[kind].fixed + paces_[kind].each * static_cast<double>(m);
  }

  // Micro-batches of a rank where all kinds' steps last equally long.
  std::vector<double> real_optimum() const {
    double rate = 0, ahead = 0;        // micro-batches a second, and those that fixed times cost
    for (const Pace& p : paces_) {
      rate += static_cast<double>(p.ranks) / p.each.value();
      ahead += static_cast<double>(p.ranks) * p.fixed.value() / p.each.value();
    }
    const double time = (static_cast<double>(all_) + ahead) / rate;
    std::vector<double> optimum;
    for (const Pace& p : paces_)
      optimum.push_back(std::max(1.0, (time - p.fixed.value()) / p.each.value()));
    return optimum;
  }

  // The first kind takes what the others leave, which its ranks must divide.
  void try_kind(std::size_t kind, std::int64_t left) {
    if (kind == paces_.size()) {
      if (left < paces_[0].ranks || left % paces_[0].ranks != 0) return;
      chosen_[0] = left / paces_[0].ranks;
      return consider();
    }
    const std::int64_t reach = std::max<std::int64_t>(4, paces_[0].ranks);
    const auto middle = static_cast<std::int64_t>(around_[kind]);
    for (std::int64_t m = std::max<std::int64_t>(1, middle - reach); m <= middle + reach; ++m) {
      if (m * paces_[kind].ranks > left) return;
      chosen_[kind] = m;
      try_kind(kind + 1, left - m * paces_[kind].ranks);
    }
  }

  void consider() {
    core::Seconds longest{};
    for (std::size_t k = 0; k < paces_.size(); ++k)
      longest = std::max(longest, step(k, chosen_[k]));
    const auto [low, high] = std::ranges::minmax(chosen_);
    if (!best_.empty() && (longest > least_ || (longest == least_ && high - low >= spread_)))
      return;
    least_ = longest;
    spread_ = high - low;
    best_ = chosen_;
  }

  const std::span<const Pace> paces_;
  const std::int64_t all_;
  std::vector<double> around_;
  std::vector<std::int64_t> chosen_, best_;
  core::Seconds least_{};
  std::int64_t spread_ = 0;
};

}  // namespace

std::vector<Structure> uneven_structures(std::span<const Structure> structures,
                                         const Question& q, const Constraints& constraints) {
  std::vector<Structure> all;
  const bool able = q.profile.framework.uneven_shares.value_or(false);
  if (!q.machine.mixed || !able || q.job.mode == Mode::inference ||
      constraints.is_pinned("shares"))
    return all;
  for (const Structure& structure : structures) {
    Structure uneven = structure;
    Strategy& s = uneven.strategy;
    if (!may_share(s)) continue;
    if (s.pipeline > 1) {
      if (constraints.is_pinned("mesh_order")) continue;
      s.mesh_order = {Degree::tensor, Degree::context, Degree::pipeline, Degree::data};
    }
    if (data_ranks_of_kinds(q, s).empty()) continue;
    uneven.shares = true;
    all.push_back(std::move(uneven));
  }
  return all;
}

std::vector<std::int64_t> data_ranks_of_kinds(const Question& q, const Strategy& s) {
  std::vector<std::int64_t> ranks;
  const std::int64_t apart = stride_of(s, Degree::data) * s.context;
  if (apart * s.data != q.gpus) return ranks;
  for (std::size_t k = 0; k < hw_profiles::kinds(q.profile); ++k) {
    const std::int64_t gpus = hw_profiles::gpus_of_kind(q.profile, k, q.gpus);
    if (gpus % apart != 0) return {};
    ranks.push_back(gpus / apart);
  }
  return ranks;
}

std::vector<std::int64_t> best_shares(std::span<const Pace> paces, std::int64_t all) {
  PLANNER_CHECK(!paces.empty());
  for (const Pace& p : paces) PLANNER_CHECK(p.ranks >= 1 && p.each.value() > 0);
  return ShareFinder(paces, all).run();
}

}  // namespace planner
