#include "planner/search/preference.hpp"

#include <algorithm>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "planner/search/space.hpp"

namespace planner {
namespace {

// Samples shorter than this fit a rank's memory with recomputation: nobody cuts them unasked.
constexpr std::int64_t kLongSample = 32'768;

const Strategy& defaults() {
  static const Strategy usual;
  return usual;
}

bool offloads(const Strategy& s) { return !s.offload.empty(); }
bool divides_samples(const Strategy& s) { return s.context > 1; }
bool unusual_schedule(const Strategy& s) {
  return !schedule_def(s.schedule).usual || s.virtual_stages > 1;
}
bool chunks_loss(const Strategy& s) { return s.loss_chunks > 1; }
bool unusual_recomputation(const Strategy& s) {
  return s.checkpoint == Checkpoint::pointwise || s.checkpoint == Checkpoint::modules ||
         s.checkpoint == Checkpoint::memory_poor ||
         s.checkpoint == Checkpoint::first_k ||
         (s.checkpoint == Checkpoint::every_k && s.checkpoint_every > 1);
}
bool shares_unevenly(const Strategy& s) { return !s.shares.empty(); }
bool reorders_mesh(const Strategy& s) { return s.mesh_order != defaults().mesh_order; }

int checkpoint_level(const Strategy& s) {
  if (s.checkpoint == Checkpoint::none) return 0;
  return unusual_recomputation(s) ? 2 : 1;
}

int settings(const Strategy& s) {
  const bool many = s.data_ranks() > 1;
  return chunks_loss(s) + shares_unevenly(s) + reorders_mesh(s) +
         (many && s.bucket_bytes != defaults().bucket_bytes) + (many && !s.overlap) +
         (s.context > 1 && s.context_method != ContextMethod::gather) + s.tp_overlap +
         s.expert_overlap + (s.expert_dispatch != ExpertDispatch::all_to_all) +
         (s.shard_group > 1 && s.shard_group < s.data_ranks());
}

// visit(factor, why): what each part of a strategy must gain before it is recommended, as a factor
// of the step. The optimizer's state crosses to the host once a step; weights and activations do so
// in every layer, over a link and a memory that differ from board to board by a factor of two.
// Schedules that split the backward pass need a framework's newest parts, and kernels for each
// half.
template <class Visit>
void for_each_margin(const Job& job, const Strategy& s, Visit&& visit) {
  for (const std::string& what : s.offload)
    visit(what == "optimizer" ? 1.05 : 1.1, "it depends on the memory and the links of hosts");
  if (!s.offload.empty() && s.pipeline > 1)
    visit(1.05, "few frameworks keep the state of pipeline stages in host memory");
  if (s.context > 1 &&
      (job.seq_len < kLongSample || job.seq_len / s.context < kTokensOfRank))
    visit(1.05, "it divides samples that are short");
  if (splits_backward(s.schedule)) visit(1.05, "few frameworks run its schedule");
}

double must_gain(const Job& job, const Strategy& s) {
  double factor = 1;
  for_each_margin(job, s, [&](double part, std::string_view) { factor *= part; });
  return factor;
}

}  // namespace

std::optional<Margin> margin_over(const Job& job, const Strategy& s, const Strategy& other) {
  const double factor = must_gain(job, s) / must_gain(job, other);
  if (factor <= 1 && shards_less(other, s, job.seq_len))
    return Margin{1 + kGatheringGains, "its layers wait for weights from other GPUs"};
  if (factor <= 1) return std::nullopt;
  const auto reasons_of = [&](const Strategy& one) {
    std::vector<std::string_view> all;
    for_each_margin(job, one, [&](double, std::string_view why) { all.push_back(why); });
    return all;
  };
  const std::vector<std::string_view> own = reasons_of(s), others = reasons_of(other);
  const auto is_new = [&](std::string_view why) {
    return std::ranges::find(others, why) == others.end();
  };
  const auto found = std::ranges::find_if(own, is_new);
  return Margin{factor, found != own.end() ? *found : own.front()};
}

core::Seconds counted_step(const Job& job, const Strategy& s, core::Seconds step,
                           double out_of_memory) {
  return core::Seconds(expected_step(step.value(), out_of_memory) * must_gain(job, s));
}

bool divides_unevenly(const Strategy& s) {
  if (s.stages.empty()) return false;
  const auto [least, most] = std::ranges::minmax(s.stages);
  std::int64_t layers = 0;
  for (const std::int64_t n : s.stages) layers += n;
  return most - least > (layers % static_cast<std::int64_t>(s.stages.size()) == 0 ? 0 : 1);
}

double RiskClasses::next_cap(double cap) {
  constexpr double kLeastDoubled = 0.01;
  return 2 * std::max(cap, kLeastDoubled);
}

int RiskClasses::of_probability(double risk, double max_risk) {
  int k = 0;
  for (double cap = std::max(max_risk, kNoRisk); k < kCaps && risk > cap; cap = next_cap(cap)) ++k;
  return k;
}

RiskClasses::RiskClasses(core::Bytes usable, double max_risk, MemoryError error)
    : usable_(usable), error_(error) {
  double cap = std::max(max_risk, kNoRisk);
  for (std::size_t k = 0; k < most_.size(); ++k) {
    const double most = safe_device(static_cast<double>(usable.value()), cap, error);
    most_[k] = core::Bytes(static_cast<std::int64_t>(most));
    most_bound_[k] = core::Bytes(static_cast<std::int64_t>(kBoundSlack * most));
    cap = next_cap(cap);
  }
}

Complexity complexity(const Strategy& s, std::int64_t seq_len) {
  const int dimensions = (s.tensor > 1) + (s.pipeline > 1) + (s.context > 1) + (s.expert > 1) +
                         (s.split > 1);
  return {dimensions,
          static_cast<int>(s.offload.size()),
          s.context > 1 && seq_len < kLongSample,
          s.virtual_stages > 1,
          divides_unevenly(s),
          schedule_def(s.schedule).level,
          checkpoint_level(s),
          static_cast<int>(s.sharding),
          settings(s)};
}

bool shards_less(const Strategy& less, const Strategy& more, std::int64_t seq_len) {
  if (more.sharding != Sharding::zero3 || less.sharding == Sharding::zero3) return false;
  const auto degrees = [](const Strategy& s) {
    return std::tie(s.data, s.tensor, s.pipeline, s.context, s.expert, s.split);
  };
  const Complexity a = complexity(less, seq_len), b = complexity(more, seq_len);
  return degrees(less) == degrees(more) &&
         std::equal(a.begin(), a.begin() + kOfSharding, b.begin());
}

Rank rank_of(const Job& job, const Candidate& c, const Request& request) {
  const auto device = static_cast<double>(c.memory.worst.device.value());
  const double step =
      counted_step(job, c.strategy, c.time.step, c.uncertainty.out_of_memory).value();
  if (request.objective == Objective::memory) return {0, device, step};
  return {RiskClasses::of_probability(c.uncertainty.out_of_memory, request.max_risk), step, device};
}

// Whether runs tell more of plans like a than of those like b: its step's interval, as a factor, is
// narrower by more than regimes that hardly differ make it.
static bool better_known(const Candidate& a, const Candidate& b) {
  constexpr double kTold = 0.9;
  const auto width = [](const Candidate& c) {
    const Uncertainty& u = c.uncertainty;
    return u.step_low.value() > 0 ? u.step_high / u.step_low - 1 : 0;
  };
  return width(a) < kTold * width(b);
}

// The chosen candidate may gather weights in every layer and gain less by that than it must
// (kGatheringGains). Then this returns the candidate to choose instead: one that differs in less
// sharding alone. If several are about as fast, it is the simplest. Otherwise it returns `chosen`.
static auto least_sharded(std::vector<Candidate>& all, std::vector<Candidate>::iterator chosen,
                          const Job& job, const Request& request) {
  const Rank own = rank_of(job, *chosen, request);
  const double risk = std::max(chosen->uncertainty.out_of_memory, kHardlyRisky);
  double most = (1 + kGatheringGains) * own.first;
  auto found = chosen;
  for (auto c = all.begin(); c != all.end(); ++c) {
    const Rank rank = rank_of(job, *c, request);
    if (rank.risk != own.risk || rank.first > most || !within_risk(*c, risk) ||
        !shards_less(c->strategy, chosen->strategy, job.seq_len))
      continue;
    if (found == chosen) most = std::min(most, (1 + request.simpler_within) * rank.first);
    if (complexity(c->strategy, job.seq_len) < complexity(found->strategy, job.seq_len)) found = c;
  }
  return found;
}

Because order_by_preference(std::vector<Candidate>& all, const Job& job, const Request& request) {
  std::ranges::stable_sort(all, {}, [&](const Candidate& c) { return rank_of(job, c, request); });
  if (request.objective == Objective::memory) return Because::least_memory;
  if (all.empty()) return Because::fastest;
  const Rank best = rank_of(job, all.front(), request);
  const double risk = std::max(all.front().uncertainty.out_of_memory, kHardlyRisky);
  auto chosen = all.begin();
  bool simpler = false;                // than the fastest; else it is better known
  for (auto c = all.begin(); c != all.end(); ++c) {
    const Rank rank = rank_of(job, *c, request);
    if (rank.risk != best.risk || rank.first > (1 + request.simpler_within) * best.first) break;
    const Complexity here = complexity(c->strategy, job.seq_len);
    const Complexity there = complexity(chosen->strategy, job.seq_len);
    if (!within_risk(*c, risk) || here > there) continue;
    if (here == there && !better_known(*c, *chosen)) continue;
    simpler |= here < there;
    chosen = c;
  }
  const auto less = request.simpler_within > 0 ? least_sharded(all, chosen, job, request) : chosen;
  simpler |= less != chosen;
  chosen = less;
  const bool moved = chosen != all.begin();
  std::rotate(all.begin(), chosen, chosen + 1);
  if (best.risk > 0) return Because::least_risky;
  return !moved ? Because::fastest : simpler ? Because::simplest : Because::best_known;
}

std::vector<UnusualPart> unusual_parts(const Strategy& s, std::int64_t seq_len) {
  std::vector<UnusualPart> parts;
  const auto add = [&](bool (*has)(const Strategy&), std::string text) {
    if (has(s)) parts.push_back({std::move(text), has});
  };
  add(offloads, fmt::format("offload={}", fmt::join(s.offload, ",")));
  if (seq_len < kLongSample)
    add(divides_samples, fmt::format("context={} context_method={}", s.context,
                                     name(s.context_method)));
  add(unusual_schedule, fmt::format("schedule={}", name(s.schedule)));
  add(divides_unevenly, fmt::format("stages={}", stages_text(s.stages)));
  add(shares_unevenly, fmt::format("shares={}", stages_text(s.shares)));
  add(chunks_loss, fmt::format("loss_chunks={}", s.loss_chunks));
  add(unusual_recomputation, s.checkpoint == Checkpoint::every_k
                                 ? fmt::format("checkpoint_every={}", s.checkpoint_every)
                                 : fmt::format("checkpoint={}", name(s.checkpoint)));
  add(reorders_mesh, "mesh_order");
  return parts;
}

}  // namespace planner
