#include "planner/ranking.hpp"

#include <algorithm>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

namespace planner {
namespace {

constexpr std::size_t kParetoLimit = 8;
constexpr std::size_t kRejectionLimit = 8;

// Mechanisms beyond plain data parallelism.
int complexity(const Strategy& s) {
  return (s.tensor > 1) + (s.pipeline > 1) + static_cast<int>(s.sharding) +
         (s.checkpoint != Checkpoint::none) + (s.shard_group > 1 && s.shard_group < s.data);
}

auto family(const Strategy& s) {
  return std::make_tuple(s.data, s.tensor, s.pipeline, s.sharding, s.checkpoint);
}

bool fits(const Candidate& c) { return c.memory.worst.device <= c.memory.usable; }

// No entry before it (by time) needs less memory.
std::vector<std::size_t> frontier(const std::vector<Entry>& entries) {
  std::vector<std::size_t> found;
  for (std::size_t i : ranking(entries, Objective::time))
    if (found.empty() || entries[i].device < entries[found.back()].device) found.push_back(i);
  // Evenly thinned, both ends kept.
  if (found.size() <= kParetoLimit) return found;
  std::vector<std::size_t> kept;
  for (std::size_t i = 0; i < kParetoLimit; ++i)
    kept.push_back(found[i * (found.size() - 1) / (kParetoLimit - 1)]);
  return kept;
}

std::vector<std::pair<std::string, Strategy>> changes(const Strategy& s,
                                                      std::int64_t global_batch) {
  std::vector<std::pair<std::string, Strategy>> all;
  const auto add = [&](std::string text, Strategy changed) {
    all.emplace_back(std::move(text), std::move(changed));
  };
  if (s.data > 1)
    for (Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
      if (z <= s.sharding) continue;
      Strategy changed = s;
      changed.sharding = z;
      changed.shard_group = s.data;
      add(fmt::format("sharding={}", name(z)), changed);
    }
  if (s.checkpoint == Checkpoint::none) {
    Strategy changed = s;
    changed.checkpoint = Checkpoint::every_k;
    changed.checkpoint_every = 1;
    add("checkpoint=every_k", changed);
  }
  for (std::int64_t size : {s.micro_batch / 2, std::int64_t{1}})
    if (size >= 1 && size < s.micro_batch && s.micro_batch % size == 0)
      add(fmt::format("micro_batch={}", size), with_micro_batch(s, size, global_batch));
  return all;
}

// The fastest of the single changes that fit, then of pairs of them; "" where none does.
std::string cheapest_fix(Explorer& explorer, const Rejection& r, std::int64_t global_batch) {
  std::string best;
  core::Seconds fastest{};
  const auto consider = [&](const std::string& text, const Strategy& s) {
    const std::optional<Entry> entry = explorer.measure(s);
    if (!entry || entry->device.value() > r.available) return;
    if (!best.empty() && entry->step >= fastest) return;
    best = text;
    fastest = entry->step;
  };
  const auto single = changes(r.strategy, global_batch);
  for (const auto& [text, s] : single) consider(text, s);
  if (!best.empty()) return best;
  for (const auto& [text, s] : single)
    for (const auto& [more, both] : changes(s, global_batch))
      consider(fmt::format("{} {}", text, more), both);
  return best;
}

}  // namespace

std::vector<std::size_t> ranking(const std::vector<Entry>& entries, Objective objective) {
  std::vector<std::size_t> order(entries.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto key = [&](std::size_t i) {
    const Entry& e = entries[i];
    const double step = e.step.value(), device = static_cast<double>(e.device.value());
    return objective == Objective::memory
               ? std::make_tuple(device, step, complexity(e.strategy), i)
               : std::make_tuple(step, device, complexity(e.strategy), i);
  };
  std::ranges::sort(order, {}, key);
  return order;
}

void choose(Explorer& explorer, const Request& request, Plan& plan) {
  const std::vector<Entry>& entries = explorer.entries(0);
  const std::size_t wanted = static_cast<std::size_t>(std::max(0, request.top)) + 1;
  const std::size_t nth = static_cast<std::size_t>(std::max(1, request.candidate)) - 1;
  std::vector<Candidate> ranked;
  for (std::size_t i : ranking(entries, request.objective)) {
    if (ranked.size() >= std::max(wanted, nth + 1)) break;
    const bool seen = std::ranges::any_of(ranked, [&](const Candidate& c) {
      return family(c.strategy) == family(entries[i].strategy);
    });
    if (seen) continue;
    Candidate candidate = explorer.candidate(entries[i].strategy);
    if (fits(candidate)) ranked.push_back(std::move(candidate));
  }
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    if (i == nth)
      plan.chosen = std::move(ranked[i]);
    else if (plan.alternatives.size() + 1 < wanted)
      plan.alternatives.push_back(std::move(ranked[i]));
  }
  for (std::size_t i : frontier(entries)) {
    Candidate candidate = explorer.candidate(entries[i].strategy);
    if (fits(candidate)) plan.pareto.push_back(std::move(candidate));
  }
}

void explain_rejections(Explorer& explorer, Plan& plan) {
  std::vector<Rejection> all = explorer.rejections();
  const bool nothing_fits = !plan.chosen;
  std::ranges::stable_sort(all, {}, [&](const Rejection& r) {
    // Where nothing fits the nearest miss comes first.
    const double excess = static_cast<double>(r.needed) / static_cast<double>(r.available);
    return std::make_tuple(nothing_fits ? excess : 0.0, r.limit != "memory",
                           complexity(r.strategy), excess);
  });
  std::vector<std::tuple<std::string, int, std::int64_t, std::int64_t>> seen;
  for (Rejection& r : all) {
    if (plan.rejected.size() >= kRejectionLimit) break;
    const auto kind = std::make_tuple(r.limit, static_cast<int>(r.strategy.sharding),
                                      r.strategy.tensor, r.strategy.pipeline);
    if (std::ranges::find(seen, kind) != seen.end()) continue;
    seen.push_back(kind);
    if (r.limit == "memory") r.fix = cheapest_fix(explorer, r, plan.job.global_batch);
    plan.rejected.push_back(std::move(r));
  }
  plan.rejected_per_limit = explorer.per_limit();
}

}  // namespace planner
