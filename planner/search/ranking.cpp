#include "planner/search/ranking.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "core/check.hpp"
#include "models/layer_kinds.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/finalists.hpp"
#include "planner/search/robust.hpp"
#include "planner/search/variants.hpp"

namespace planner {
namespace {

constexpr std::size_t kParetoLimit = 8;
// However few are shown: the choice is then the same.
constexpr std::size_t kFewestFinalists = 6;
constexpr std::size_t kRejectionLimit = 8;

// Entries that could be on the frontier of time and memory: none that needs clearly less memory is
// as fast. O(entries); the rest of the work is on the few that are left.
std::vector<Entry> undominated(const std::vector<Entry>& entries) {
  constexpr std::size_t kBins = 1024;
  if (entries.size() < kBins) return entries;
  core::Bytes most{1};
  for (const Entry& e : entries) most = std::max(most, e.device);
  const auto bin = [&](const Entry& e) {
    return static_cast<std::size_t>(static_cast<double>(e.device.value()) /
                                    static_cast<double>(most.value()) * (kBins - 1));
  };
  std::vector<double> fastest(kBins, std::numeric_limits<double>::infinity());
  for (const Entry& e : entries) fastest[bin(e)] = std::min(fastest[bin(e)], e.step.value());
  for (std::size_t i = 1; i < kBins; ++i) fastest[i] = std::min(fastest[i], fastest[i - 1]);
  std::vector<Entry> left;
  for (const Entry& e : entries)
    if (bin(e) == 0 || e.step.value() < fastest[bin(e) - 1]) left.push_back(e);
  return left;
}

// No entry before it (by time) needs less memory.
std::vector<Entry> frontier(const Explorer& explorer) {
  std::vector<Entry> entries = undominated(explorer.entries(0)), found;
  std::ranges::sort(entries, {}, [&](const Entry& e) {
    return std::make_tuple(e.step.value(), e.device.value(), e.structure, e.micro_batch);
  });
  for (const Entry& e : entries)
    if (found.empty() || e.device < found.back().device) found.push_back(e);
  // Evenly thinned, both ends kept.
  if (found.size() <= kParetoLimit) return found;
  std::vector<Entry> kept;
  for (std::size_t i = 0; i < kParetoLimit; ++i)
    kept.push_back(found[i * (found.size() - 1) / (kParetoLimit - 1)]);
  return kept;
}

bool keeps_some(const Strategy& s, const Question& q) {
  return stage::keeps_some_layers(policy_of(q), s);
}

std::vector<std::pair<std::string, Strategy>> changes(const Strategy& s, const Question& q) {
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
  const bool some = keeps_some(s, q);
  if (s.checkpoint == Checkpoint::none || s.checkpoint == Checkpoint::first_k || some) {
    Strategy changed = s;
    changed.checkpoint = Checkpoint::every_k;
    changed.checkpoint_every = 1;
    add(some ? "checkpoint_every=1" : "checkpoint=every_k", changed);
  }
  for (std::int64_t size : {s.micro_batch / 2, std::int64_t{1}})
    if (size >= 1 && size < s.micro_batch && s.micro_batch % size == 0)
      add(fmt::format("micro_batch={}", size), with_micro_batch(s, size, q.job.global_batch));
  const bool logits = models::has_language_head(q.model) && q.job.mode != Mode::inference;
  if (logits && s.loss_chunks == 1) {
    Strategy changed = s;
    changed.loss_chunks = kLossChunks;
    std::string text = fmt::format("loss_chunks={}", kLossChunks);
    if (!may_chunk_loss(q))
      text += fmt::format(" (by a loss that {} does not bring)", q.job.framework);
    add(std::move(text), changed);
  }
  const std::int64_t expert = std::gcd(models::expert_divisor(q.model), s.data_ranks());
  if (models::has_experts(q.model) && expert > s.expert) {
    Strategy changed = s;
    changed.expert = expert;
    add(fmt::format("expert={}", expert), changed);
  }
  return all;
}

// The last resort: all that saves memory, and what the host can hold in its memory.
std::pair<std::string, Strategy> offloaded(Strategy s, const Question& q, bool activations) {
  std::string text;
  if (s.data > 1) {
    s.sharding = Sharding::zero3;
    s.shard_group = s.data_ranks();
    text = "sharding=zero3 ";
  }
  const bool some = keeps_some(s, q);
  if (s.checkpoint != Checkpoint::every_k || some) {
    s.checkpoint = Checkpoint::every_k;
    s.checkpoint_every = 1;
    text += some ? "checkpoint_every=1 " : "checkpoint=every_k ";
  }
  if (s.micro_batch > 1) {
    s = with_micro_batch(s, 1, q.job.global_batch);
    text += "micro_batch=1 ";
  }
  s.offload = {s.data > 1 ? "params" : "optimizer"};
  text += "offload=" + s.offload[0];
  if (!activations) return {text, s};
  s.offload.push_back("activations");
  return {text + ",activations", s};
}

// The fastest of the single changes that fit, then of pairs of them; "" where none does.
std::string cheapest_fix(Explorer& explorer, const Rejection& r) {
  std::string best;
  core::Seconds fastest{};
  const auto consider = [&](const std::string& text, const Strategy& s) {
    if (s == r.strategy || !explorer.is_within_limits(s)) return;
    const std::optional<Measure> entry = explorer.measure(s);
    if (!entry || entry->device.value() > r.available) return;
    if (!best.empty() && entry->step >= fastest) return;
    best = text;
    fastest = entry->step;
  };
  const auto single = changes(r.strategy, explorer.question());
  for (const auto& [text, s] : single) consider(text, s);
  if (!best.empty()) return best;
  for (const auto& [text, s] : single)
    for (const auto& [more, both] : changes(s, explorer.question()))
      consider(fmt::format("{} {}", text, more), both);
  for (const bool activations : {false, true}) {
    if (!best.empty()) break;
    const auto [text, s] = offloaded(r.strategy, explorer.question(), activations);
    consider(text, s);
  }
  return best;
}

// Where no change of the strategy fits: the GPUs that would hold it between them, if all of it were
// divided. Some of it never is, so this is where to start.
std::string more_gpus(std::int64_t gpus, const Rejection& r) {
  const double shares = static_cast<double>(r.needed) / static_cast<double>(r.available);
  const auto count = static_cast<std::int64_t>(std::ceil(shares * static_cast<double>(gpus)));
  return fmt::format("at least about {} such GPUs, or GPUs of more memory", count);
}

}  // namespace

Ranking::Ranking(const Explorer& explorer, std::size_t machine, Objective objective)
    : explorer_(explorer),
      entries_(explorer.entries(machine)),
      machine_(machine),
      objective_(objective) {
  order_.resize(entries_.size());
  std::iota(order_.begin(), order_.end(), std::uint32_t{0});
  std::ranges::make_heap(order_, [this](auto a, auto b) { return before(b, a); });
}

bool Ranking::before(std::uint32_t i, std::uint32_t j) const {
  const Entry &a = entries_[i], &b = entries_[j];
  const auto by_memory = a.device <=> b.device;
  if (objective_ == Objective::memory) {
    if (by_memory != 0) return by_memory < 0;
    if (a.expected != b.expected) return a.expected < b.expected;
  } else {
    const int risk = explorer_.risks(machine_, a.regime).of_bound(a.device);
    const int other = explorer_.risks(machine_, b.regime).of_bound(b.device);
    if (risk != other) return risk < other;
    if (a.expected != b.expected) return a.expected < b.expected;
    if (by_memory != 0) return by_memory < 0;
  }
  const auto how = [&](const Entry& e) {
    return std::make_tuple(
        complexity(explorer_.structure(e.structure), explorer_.question().job.seq_len),
        e.structure, e.micro_batch);
  };
  return how(a) < how(b);
}

const Entry* Ranking::next() {
  if (order_.empty()) return nullptr;
  std::ranges::pop_heap(order_, [this](auto a, auto b) { return before(b, a); });
  const Entry* entry = &entries_[order_.back()];
  order_.pop_back();
  return entry;
}

std::optional<Candidate> best_on(Explorer& explorer, std::size_t machine,
                                 const Request& request) {
  constexpr int kDoubtful = 8;
  int replayed = 0;
  std::optional<Candidate> risky;
  const Job& job = explorer.question().job;
  Ranking ranking(explorer, machine, request.objective);
  while (const Entry* entry = ranking.next()) {
    const int risk = explorer.risks(machine, entry->regime).of_bound(entry->device);
    if (risky && rank_of(job, *risky, request).risk <= risk) return risky;
    if (!explorer.is_safe(*entry, machine) && ++replayed > kDoubtful) continue;
    std::optional<Candidate> c = explorer.fitting(explorer.strategy(*entry), machine);
    if (!c) continue;
    if (request.objective == Objective::memory || rank_of(job, *c, request).risk <= risk) return c;
    if (!risky || rank_of(job, *c, request) < rank_of(job, *risky, request)) risky = std::move(c);
  }
  return risky;
}

// Those that no other is as fast and as small as, by their own figures; the fastest first.
static std::vector<Candidate> undominated(std::vector<Candidate> all) {
  std::ranges::stable_sort(all, {}, [](const Candidate& c) {
    return std::make_pair(c.time.step.value(), c.memory.worst.device);
  });
  std::vector<Candidate> front;
  for (Candidate& c : all)
    if (front.empty() || c.memory.worst.device < front.back().memory.worst.device)
      front.push_back(std::move(c));
  return front;
}

static void fill_front(Explorer& explorer, const Request& request,
                       const std::vector<Candidate>& ranked, Plan& plan) {
  std::vector<Candidate> shown = ranked;
  std::vector<Strategy> others;
  for (const Entry& entry : frontier(explorer)) {
    Strategy strategy = explorer.strategy(entry);
    if (std::ranges::find(ranked, strategy, &Candidate::strategy) == ranked.end())
      others.push_back(std::move(strategy));
  }
  for (std::optional<Candidate>& candidate : explorer.fitting(others, request.threads, true))
    if (candidate) shown.push_back(*std::move(candidate));
  plan.pareto = undominated(std::move(shown));
}

namespace {

// The finalists in the order of the choice, and the robust steps of each, where those are asked
// for.
struct Ranked {
  std::vector<Candidate> candidates;
  std::vector<RobustStep> robust;
  Because because{};
};

void order(Ranked& ranked, const Job& job, const Request& request) {
  ranked.because = request.robust ? order_by_robust_step(ranked.candidates, ranked.robust, job,
                                                         request)
                                  : order_by_preference(ranked.candidates, job, request);
}

// Gives the nth candidate, if there is one, its exact memory. False: it then does not fit.
bool settle(Explorer& explorer, const Request& request, std::size_t nth, Ranked& ranked) {
  while (nth < ranked.candidates.size() && ranked.candidates[nth].memory.estimated) {
    std::optional<Candidate> exact = explorer.settled(ranked.candidates[nth],
                                                        request.threads);
    if (!exact) return false;
    ranked.candidates[nth] = *std::move(exact);
    order(ranked, explorer.question().job, request);
  }
  return true;
}

// Exact addresses of a thousand micro-batches are most of the work, so only the chosen candidate
// has them; the others have estimates. If the chosen one does not fit by its exact addresses, all
// are found again with exact ones.
Ranked ranked_finalists(Explorer& explorer, const Request& request, std::size_t wanted,
                        std::size_t nth) {
  for (const bool estimates : {true, false}) {
    Ranked ranked;
    ranked.candidates = finalists(explorer, request, wanted, estimates);
    // The closed form brought them here; their own figures decide among them.
    if (request.robust) ranked.robust = robust_steps(explorer, request, ranked.candidates);
    order(ranked, explorer.question().job, request);
    if (!request.exact || settle(explorer, request, nth, ranked)) return ranked;
  }
  PLANNER_CHECK(false, "an exact candidate fits");
}

}  // namespace

void choose(Explorer& explorer, const Request& request, ShortOfMemory& memory, Plan& plan) {
  const std::size_t wanted = static_cast<std::size_t>(std::max(0, request.top)) + 1;
  const std::size_t nth = static_cast<std::size_t>(std::max(1, request.candidate)) - 1;
  const std::size_t count = std::max({wanted, nth + 1, kFewestFinalists});
  Ranked found = ranked_finalists(explorer, request, count, nth);
  if (memory.explore_after(found.candidates))
    found = ranked_finalists(explorer, request, count, nth);
  std::vector<Candidate>& ranked = found.candidates;
  if (!request.brief) fill_front(explorer, request, ranked, plan);
  plan.because = nth > 0 ? Because::asked : found.because;
  for (std::size_t i = 0; i < ranked.size(); ++i) {
    if (i == nth)
      plan.chosen = std::move(ranked[i]);
    else if (plan.alternatives.size() + 1 < wanted)
      plan.alternatives.push_back(std::move(ranked[i]));
  }
  if (!request.robust || !plan.chosen) return;
  std::vector<RobustStep>& robust = found.robust;
  std::rotate(robust.begin(), robust.begin() + static_cast<std::ptrdiff_t>(nth),
              robust.begin() + static_cast<std::ptrdiff_t>(nth) + 1);
  robust.resize(1 + plan.alternatives.size());
  plan.robust = Robust{*request.robust, std::move(robust)};
}

// A bound is that of what lives, and 2 % above it are let through; what the allocator holds beside
// that is replayed. Where nothing was chosen, entries did not fit by that: the smallest is the
// nearest miss of all.
static void explain_entries(Explorer& explorer, Plan& plan) {
  const std::vector<Entry>& entries = explorer.entries(0);
  if (plan.chosen || entries.empty()) return;
  const Entry& least = *std::ranges::min_element(entries, {}, &Entry::device);
  const Candidate c = explorer.candidate(explorer.strategy(least));
  if (fits(c)) return;                 // what was asked for is another
  Rejection r{c.strategy, "memory", c.memory.worst.device.value(), c.memory.usable.value(), ""};
  r.fix = cheapest_fix(explorer, r);
  if (r.fix.empty()) r.fix = more_gpus(explorer.question().gpus, r);
  plan.rejected.push_back(std::move(r));
  plan.rejected_per_limit["memory"] += static_cast<std::int64_t>(entries.size());
}

// What a strategy could do that needs more memory of the host than there is.
static std::string less_host_memory(const Question& q, const Strategy& s) {
  if (!s.offloads("params")) return "spread the job over more nodes";
  const auto& runs = q.profile.framework.runs;
  const auto own = std::ranges::find(runs, "offload", &hw_profiles::Framework::Runs::key);
  const bool may = own == runs.end() || own->values.find("optimizer") != std::string::npos;
  return may ? "offload=optimizer needs less of it, and more nodes share it"
             : fmt::format("{} keeps whole weights there; the optimizer's state alone, as in "
                           "--framework deepspeed, needs less of it, and more nodes share it",
                           q.job.framework);
}

void explain_rejections(Explorer& explorer, Plan& plan) {
  plan.rejected_per_limit = explorer.per_limit();
  explain_entries(explorer, plan);
  const bool nothing_fits = !plan.chosen;
  const Question& q = explorer.question();
  // Where nothing fits the nearest miss comes first: what breaks a rule is not near.
  const auto order_of = [&](const Miss& m) {
    const double excess = static_cast<double>(m.device.value());
    const bool rule = !m.limit.empty() && m.limit != "host_memory";
    return std::make_tuple(nothing_fits && rule, nothing_fits ? excess : 0.0, !m.limit.empty(),
                           complexity(explorer.structure(m.structure), q.job.seq_len), excess);
  };
  // Few of many are told, so a heap: equal ones in the order of the search.
  const std::vector<Miss>& misses = explorer.misses();
  std::vector<std::pair<decltype(order_of(misses.front())), std::size_t>> all;
  all.reserve(misses.size());
  for (std::size_t i = 0; i < misses.size(); ++i) all.emplace_back(order_of(misses[i]), i);
  std::ranges::make_heap(all, std::greater{});
  std::vector<std::tuple<std::string, int, std::int64_t, std::int64_t>> seen;
  while (!all.empty() && plan.rejected.size() < kRejectionLimit) {
    std::ranges::pop_heap(all, std::greater{});
    const Miss* const m = &misses[all.back().second];
    all.pop_back();
    const Strategy& s = explorer.structure(m->structure);
    const auto kind =
        std::make_tuple(m->limit, static_cast<int>(s.sharding), s.tensor, s.pipeline);
    if (std::ranges::find(seen, kind) != seen.end()) continue;
    seen.push_back(kind);
    if (m->limit.empty()) {
      Rejection r{explorer.strategy(m->structure, m->micro_batch), "memory", m->device.value(),
                  q.profile.gpu.usable.value(), ""};
      r.fix = cheapest_fix(explorer, r);
      if (r.fix.empty()) r.fix = more_gpus(q.gpus, r);
      plan.rejected.push_back(std::move(r));
    } else if (m->limit == "host_memory") {
      plan.rejected.push_back(
          {explorer.strategy(m->structure, m->micro_batch), m->limit, m->host.value(),
           q.profile.node.host_memory->value(),
           less_host_memory(q, s)});
    } else {
      plan.rejected.push_back({with_micro_batch(s, m->micro_batch, q.job.global_batch), m->limit,
                               s.workers() + s.separate_servers(), q.gpus, m->fix});
    }
  }
}

}  // namespace planner
