#include "sim/program/replay.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "sim/program/footprint.hpp"

namespace program {
namespace {

// Drives an address model with the calls of a class.
template <class Allocator>
class AddressReplay {
 public:
  explicit AddressReplay(const RankClass& k) : class_(k), changes_(block_changes(k)) {
    std::size_t size = 0;
    for (const Buffer& b : k.buffers) {
      base_.push_back(size);
      size += static_cast<std::size_t>(b.extent) * static_cast<std::size_t>(b.slots);
    }
    offsets_.assign(size, kAbsent);
    for (const Buffer& b : k.buffers) place_persistent(b);
  }

  void run(const Routine& routine, std::int64_t micro_batch) {
    for (Call call : routine) {
      call.micro_batch = static_cast<std::uint32_t>(micro_batch);
      for (const Change& c : changes_.blocks[call.block].changes) {
        if (!(micro_batch == 0 && c.skips_first)) apply(c, call);
      }
    }
  }

  // All that the rest of the step depends on, seen from micro-batch `now`: equal states of two
  // micro-batches are followed by equal sequences of addresses.
  std::vector<std::int64_t> state(std::int64_t now) const {
    std::vector<std::int64_t> all{allocator_.reserved().value()};
    allocator_.append_state(all);
    for (std::size_t b = 0; b < base_.size(); ++b) {
      const Buffer& buffer = class_.buffers[b];
      if (buffer.persistent) continue;
      for (int layer = 0; layer < buffer.extent; ++layer) {
        for (std::int64_t i = 0; i < buffer.slots; ++i) {
          const std::int64_t slot = layer * buffer.slots + (now + i) % buffer.slots;
          all.push_back(offsets_[base_[b] + static_cast<std::size_t>(slot)]);
        }
      }
    }
    return all;
  }

  core::Bytes reserved() const { return allocator_.reserved(); }

 private:
  static constexpr std::int64_t kAbsent = -1;

  void place_persistent(const Buffer& b) {
    if (!b.persistent) return;
    for (int layer = 0; layer < b.extent; ++layer) {
      for (int slot = 0; slot < b.slots; ++slot) allocator_.allocate(b.instance_bytes(layer));
    }
  }

  void apply(const Change& c, const Call& call) {
    const Buffer& buffer = class_.buffers[c.view.buffer];
    const int layer = layer_index(c.view, call);
    PLANNER_CHECK(layer >= 0 && layer < buffer.extent, "layer index outside the buffer");
    const auto instance = static_cast<std::size_t>(instance_of(buffer, c.view, call));
    std::int64_t& offset = offsets_[base_[c.view.buffer] + instance];
    PLANNER_CHECK((offset == kAbsent) == c.is_alloc,
                  "alloc of what is there or free of what is not");
    if (c.is_alloc) {
      offset = allocator_.allocate(buffer.instance_bytes(layer));
    } else {
      allocator_.free(offset);
      offset = kAbsent;
    }
  }

  const RankClass& class_;
  BlockChanges changes_;
  std::vector<std::size_t> base_;      // of each buffer in offsets_
  std::vector<std::int64_t> offsets_;  // of each instance, kAbsent: not allocated
  Allocator allocator_;
};

// The steady phase: `pairs` times one backward and one forward, `ahead` micro-batches later.
// Returns how many pairs may be left out: a period found by Brent's algorithm, one stored state.
// Leaving out whole periods renumbers the micro-batches that follow, which changes nothing:
// sequences depend on differences of micro-batches alone, but for micro-batch 0, which came before.
template <class Addresses>
std::int64_t run_steady(Addresses& addresses, const RankClass& k, std::int64_t pairs,
                        std::int64_t ahead, const ReplayOptions& options, std::int64_t& walked) {
  std::vector<std::int64_t> kept;
  std::int64_t kept_at = 0, next_kept = 1, left_out = 0;
  for (std::int64_t i = 0; i < pairs - left_out; ++i) {
    addresses.run(k.backward, i);
    addresses.run(k.forward, ahead + i);
    ++walked;
    const std::int64_t rest = pairs - left_out - 1 - i;
    if (!options.skip_periods || left_out > 0 || rest == 0) continue;
    std::vector<std::int64_t> now = addresses.state(i);
    if (!kept.empty() && now == kept) left_out = rest / (i - kept_at) * (i - kept_at);
    if (i + 1 != next_kept) continue;
    kept = std::move(now);
    kept_at = i;
    next_kept *= 2;
  }
  return left_out;
}

template <class Allocator>
core::Bytes reserved_bytes(const RankClass& k, const ReplayOptions& options, std::int64_t& walked) {
  AddressReplay<Allocator> addresses(k);
  std::int64_t m = k.schedule.micro_batches;
  const std::int64_t n = k.schedule.in_flight();
  addresses.run(k.begin, 0);
  for (std::int64_t i = 0; i < n; ++i) addresses.run(k.forward, i);
  m -= run_steady(addresses, k, m - n, n, options, walked);
  for (std::int64_t i = m - n; i < m - 1; ++i) addresses.run(k.backward, i);
  addresses.run(k.last_backward, m - 1);
  addresses.run(k.end, m - 1);
  return addresses.reserved();
}

}  // namespace

TermBytes persistent_terms(const RankClass& k) {
  TermBytes terms{};
  for (const Buffer& b : k.buffers) {
    if (!b.persistent) continue;
    core::Bytes all{};
    for (int layer = 0; layer < b.extent; ++layer) all += b.instance_bytes(layer);
    terms[static_cast<std::size_t>(b.term)] += all * b.slots;
  }
  return terms;
}

core::Bytes sum(const TermBytes& terms) {
  core::Bytes all{};
  for (const core::Bytes b : terms) all += b;
  return all;
}

Replay replay(const RankClass& k, const ReplayOptions& options) {
  const TermFootprint step = over_schedule(routine_footprints<TermFootprint>(k), k.schedule);
  Replay r;
  r.terms = r.peaks = persistent_terms(k);
  for (std::size_t t = 0; t < kTerms; ++t) {
    r.terms[t] += core::Bytes(step.at_peak[t]);
    r.peaks[t] += core::Bytes(step.peaks[t]);
  }
  r.live = sum(r.terms);
  r.where = step.where;
  if (!options.want_reserved) return r;
  r.reserved = options.allocator == AllocatorKind::arena
                   ? reserved_bytes<Arena>(k, options, r.rounds_walked)
                   : reserved_bytes<CachingAllocator>(k, options, r.rounds_walked);
  return r;
}

std::vector<Replay> replay_classes(const Program& program, const ReplayOptions& options) {
  std::vector<Replay> all;
  for (const RankClass& k : program.classes) all.push_back(replay(k, options));
  return all;
}

}  // namespace program
