#include "planner/evaluate/memory.hpp"

#include <algorithm>
#include <atomic>
#include <functional>
#include <numeric>
#include <set>
#include <span>

#include "core/check.hpp"
#include "core/parallel.hpp"
#include "hw_profiles/mixed.hpp"
#include "planner/evaluate/communicators.hpp"
#include "planner/stage/policy.hpp"
#include "sim/cost/action.hpp"
#include "sim/program/replay.hpp"

namespace planner {
namespace {

program::ReplayOptions options_for(const program::Program& program, const program::RankClass& k,
                                   const hw_profiles::Profile& profile) {
  return {.allocator = profile.framework.caching_allocator ? program::AllocatorKind::caching
                                                           : program::AllocatorKind::arena,
          .capacity = profile.gpu.usable - overhead_bytes(program, k, profile)};
}

// Of the kinds of GPUs that the ranks of a class have, the one that leaves its buffers least room.
const hw_profiles::Profile& tightest(const program::Program& program, const program::RankClass& k,
                                     const hw_profiles::Profile& profile) {
  if (profile.others.empty()) return profile;
  const auto index = static_cast<int>(&k - program.classes.data());
  std::set<std::size_t> kinds;
  for (const int rank : program.ranks_of(index))
    kinds.insert(hw_profiles::kind_of_rank(profile, rank));
  const hw_profiles::Profile* least = nullptr;
  core::Bytes room{};
  for (const std::size_t kind : kinds) {
    const hw_profiles::Profile& own = hw_profiles::profile_of_kind(profile, kind);
    const core::Bytes left = own.gpu.usable - overhead_bytes(program, k, own);
    if (least == nullptr || left < room) least = &own, room = left;
  }
  return least == nullptr ? profile : *least;
}

// Bytes of a micro-batch's rows where tensor ranks scatter them; zero where they do not.
core::Bytes scattered_rows(const program::RankClass& k) {
  for (const program::Action& a : k.actions) {
    if (a.kind != program::ActionKind::collective) continue;
    const program::Transfer& t = k.transfers[a.op];
    if (t.what != program::Traffic::sequence) continue;
    if (t.collective != program::Collective::reduce_scatter) continue;
    const program::Buffer& all = k.buffers[k.views[a.first_arg + a.arg_count - 1u].buffer];
    return core::bytes_of(all.elements.front(), all.type);
  }
  return {};
}

core::Bytes waiting_rows(const program::Program& program, const program::RankClass& k,
                         const hw_profiles::Profile& profile) {
  if (!profile.framework.rows_waiting || program.mesh.tensor == 1) return {};
  const stage::StagePasses passes{.layers = static_cast<std::int64_t>(k.frozen_layer_offset.size()),
                                  .micro_batches = k.schedule.micro_batches,
                                  .stage = k.stage,
                                  .stages = program.mesh.pipeline};
  return scattered_rows(k) * stage::rows_waiting(profile.framework, passes);
}

MemoryTerms terms_of(const program::Program& program, const program::RankClass& k,
                     const hw_profiles::Profile& profile, const program::Replay& replay) {
  MemoryTerms m;
  m.terms = replay.terms;
  m.peaks = replay.peaks;
  m.live = replay.live;
  m.reserved = replay.reserved;
  m.workspace = workspace_bytes(program, k, profile);
  m.context = profile.gpu.context;
  m.communicators = communicator_bytes(program, k, profile);
  m.host = program::host_bytes(k);
  m.waiting = waiting_rows(program, k, profile);
  m.device = m.reserved + m.waiting + m.workspace + m.context + m.communicators;
  return m;
}

MemoryTerms terms_of(const program::Program& program, const program::RankClass& k,
                     const hw_profiles::Profile& profile, bool want_reserved) {
  program::ReplayOptions options = options_for(program, k, profile);
  options.want_reserved = want_reserved;
  program::Replay replay = program::replay(k, options);
  if (!want_reserved) replay.reserved = replay.live;
  return terms_of(program, k, profile, replay);
}

}  // namespace

// Whether a rank that takes so much of its device is fuller than the memory's. Where devices are
// alike it takes more; else it leaves the smaller share of its device.
static bool is_fuller(core::Bytes device, core::Bytes usable, int rank, const Memory& memory) {
  const core::Bytes other = memory.worst.device;
  if (usable == memory.usable)
    return device > other || (device == other && rank < memory.rank);
  return static_cast<double>(device.value()) * static_cast<double>(memory.usable.value()) >
         static_cast<double>(other.value()) * static_cast<double>(usable.value());
}

// terms: of each class.
static Memory worst_of(const program::Program& program, const hw_profiles::Profile& profile,
                       const std::vector<MemoryTerms>& terms) {
  Memory memory;
  PLANNER_CHECK(!terms.empty(), "a program without classes");
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const program::RankClass& k = program.classes[i];
    const MemoryTerms& m = terms[i];
    const int rank = cost::first_rank(program, k);
    const core::Bytes usable = tightest(program, k, profile).gpu.usable;
    if (i == 0 || is_fuller(m.device, usable, rank, memory)) {
      memory.worst = m;
      memory.rank = rank;
      memory.usable = usable;
    }
    const auto stage = std::ranges::find(memory.stages, k.stage, &StageMemory::stage);
    if (stage == memory.stages.end())
      memory.stages.push_back({k.stage, m});
    else if (m.device > stage->memory.device)
      stage->memory = m;
  }
  return memory;
}

static std::vector<MemoryTerms> all_terms(const program::Program& program,
                                          const hw_profiles::Profile& profile,
                                          bool want_reserved) {
  std::vector<MemoryTerms> terms;
  for (const program::RankClass& k : program.classes)
    terms.push_back(terms_of(program, k, tightest(program, k, profile), want_reserved));
  return terms;
}

Memory memory_of(const program::Program& program, const hw_profiles::Profile& profile,
                 bool want_reserved) {
  return worst_of(program, profile, all_terms(program, profile, want_reserved));
}

bool host_overflows(const hw_profiles::Node& node, std::int64_t gpus, core::Bytes of_rank) {
  if (of_rank.value() == 0 || !node.host_memory) return false;
  return of_rank * std::min<std::int64_t>(node.gpus_per_node, gpus) > *node.host_memory;
}

// Where addresses may be estimates, reserved is live on ranks that would be the fullest only if
// their allocators held a tenth of their device in vain.
static constexpr double kMostHeld = 1.1;

std::optional<Memory> fitting_memory_of(const program::Program& program,
                                        const hw_profiles::Profile& profile, bool estimates,
                                        int threads) {
  std::vector<MemoryTerms> terms = all_terms(program, profile, false);
  const core::Bytes host = std::ranges::max_element(terms, {}, &MemoryTerms::host)->host;
  if (host_overflows(profile.node, program.mesh.ranks(), host)) return std::nullopt;
  std::vector<std::size_t> fullest_first(terms.size());
  std::iota(fullest_first.begin(), fullest_first.end(), 0);
  std::ranges::stable_sort(fullest_first, std::greater{},
                           [&](std::size_t i) { return terms[i].device; });
  std::atomic<bool> fits = true, estimated = false;
  const auto share = [&](std::size_t i) {
    const hw_profiles::Profile& own = tightest(program, program.classes[i], profile);
    return static_cast<double>(terms[i].device.value()) /
           static_cast<double>(own.gpu.usable.value());
  };
  double fullest = 0;                  // of its device, by addresses
  const auto compute = [&](std::size_t i) {
    if (!fits) return;
    const program::RankClass& k = program.classes[i];
    const hw_profiles::Profile& own = tightest(program, k, profile);
    if (share(i) * kMostHeld < fullest) {
      estimated = true;
      return;
    }
    if (terms[i].device <= own.gpu.usable) {
      program::ReplayOptions options = options_for(program, k, own);
      options.enough = options.capacity;
      options.estimates = estimates;
      const program::Replay replay = program::replay(k, options);
      if (replay.estimated) estimated = true;
      terms[i] = terms_of(program, k, own, replay);
    }
    if (terms[i].device > own.gpu.usable) fits = false;
  };
  std::span<const std::size_t> open = fullest_first;
  if (estimates) {                     // the fullest decides of which others it is computed
    compute(open.front());
    fullest = share(open.front());
    open = open.subspan(1);
  }
  core::for_each_index(open.size(), threads, [&](std::size_t at) { compute(open[at]); });
  if (!fits) return std::nullopt;
  Memory memory = worst_of(program, profile, terms);
  memory.estimated = estimated;
  return memory;
}

Memory verdict_memory_of(const program::Program& program, const hw_profiles::Profile& profile,
                         std::optional<int> wanted) {
  constexpr double kMostFragmentation = 0.5;  // "over 30 %" in extreme cases [zero]
  std::vector<MemoryTerms> terms = all_terms(program, profile, false);
  const Memory live = worst_of(program, profile, terms);
  const bool is_over = live.worst.device > live.usable;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const program::RankClass& k = program.classes[i];
    const hw_profiles::Profile& own = tightest(program, k, profile);
    const double left = static_cast<double>((own.gpu.usable - terms[i].device).value());
    const bool open =
        !is_over && left < kMostFragmentation * static_cast<double>(terms[i].live.value());
    if (open || k.stage == wanted) terms[i] = terms_of(program, k, own, true);
  }
  return worst_of(program, profile, terms);
}

}  // namespace planner
