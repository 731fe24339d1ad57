#pragma once
// Replay: the memory of one step of a rank class, from its sequence of allocations alone (they take
// effect in issue order, so timing has no part in it). Live bytes are exact, by term, in O(allocs
// and frees of the routines) whatever the number of micro-batches. Reserved bytes come from driving
// an address model (allocator.hpp) with the real sequence; steady micro-batches are left out once
// the model is in the same state as after an earlier one, which is exact, or of the caching
// allocator after most_rounds, which is not. Pure; thread-safe.

#include <array>
#include <cstdint>
#include <vector>

#include "core/units.hpp"
#include "sim/program/allocator.hpp"
#include "sim/program/program.hpp"

namespace program {

using TermBytes = std::array<core::Bytes, kTerms>;  // by Term

struct ReplayOptions {
  AllocatorKind allocator = AllocatorKind::arena;
  bool want_reserved = true;
  // What the caching allocator may reserve: where it would need more it first returns the segments
  // that are wholly free, as PyTorch does, and only then exceeds it.
  core::Bytes capacity = CachingAllocator::kUnlimited;
  // Nothing more is asked once more than this is reserved: `reserved` is then what was by then.
  core::Bytes enough = CachingAllocator::kUnlimited;
  bool skip_periods = true;            // false: walk every micro-batch (tests)
  // Without flush: steps of the run; 0: as many as fill, are steady and drain.
  std::int64_t steps = 0;
  // Steady micro-batches that stand for any number: the caching allocator may place its blocks
  // anew for hundreds before it comes back to a state. Of 826 published runs 64 of them change the
  // reserved bytes of 21 against 32, by 2.9 % at most.
  std::int64_t most_rounds = 32;
  // Of the arena too: an estimate, and Replay::estimated says so.
  bool estimates = false;
};

struct Replay {
  TermBytes terms{};                   // at the first instant of the live peak; they sum to live
  TermBytes peaks{};                   // each tag's own peak
  core::Bytes live{};
  core::Bytes reserved{};              // 0 unless wanted
  Call where{kNone, 0, 0};             // where the peak is first reached; block kNone: at the start
  std::int64_t rounds_walked = 0;      // steady micro-batches that the address model saw
  bool estimated = false;              // reserved: some of the arena's rounds stood for others
};

Replay replay(const RankClass& rank_class, const ReplayOptions& options = {});

// One per class of the program, in its order.
std::vector<Replay> replay_classes(const Program& program, const ReplayOptions& options = {});

// Bytes of the persistent buffers, all instances.
TermBytes persistent_terms(const RankClass& rank_class);
// Bytes of offloaded buffers, in the memory of the rank's host.
core::Bytes host_bytes(const RankClass& rank_class);

core::Bytes sum(const TermBytes& terms);

}  // namespace program
