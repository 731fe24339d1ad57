#include "planner/search/preference.hpp"

#include <algorithm>

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

}  // namespace

// The optimizer's state crosses to the host once a step; weights and activations do so in every
// layer, over a link and a memory that differ from board to board by a factor of two. Schedules
// that split the backward pass need a framework's newest parts, and kernels for each half. Few
// frameworks keep the state of pipeline stages in host memory.
double must_gain(const Job& job, const Strategy& s) {
  double factor = 1;
  for (const std::string& what : s.offload) factor *= what == "optimizer" ? 1.05 : 1.1;
  if (splits_backward(s.schedule)) factor *= 1.05;
  if (!s.offload.empty() && s.pipeline > 1) factor *= 1.05;
  const bool cut_short = s.context > 1 && (job.seq_len < kLongSample ||
                                           job.seq_len / s.context < kTokensOfRank);
  return cut_short ? 1.05 * factor : factor;
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
