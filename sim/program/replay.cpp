#include "sim/program/replay.hpp"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/check.hpp"
#include "sim/program/footprint.hpp"

namespace program {
namespace {

// Drives an address model with the calls of a class.
template <class Allocator>
class AddressReplay {
 public:
  AddressReplay(const RankClass& k, const ReplayOptions& options)
      : class_(k), changes_(block_changes(k)), allocator_(options.capacity),
        enough_(options.enough) {
    std::size_t size = 0;
    for (const Buffer& b : k.buffers) {
      base_.push_back(size);
      size += static_cast<std::size_t>(b.extent) * static_cast<std::size_t>(b.slots);
    }
    places_.assign(size, kAbsent);
    for (const Buffer& b : k.buffers) place_persistent(b);
  }

  // REQUIRES: routine is the class's own.
  void run(const Routine& routine, std::int64_t micro_batch) {
    const auto mb = static_cast<std::uint32_t>(micro_batch);
    for (const Move& move : moves_of(routine))
      if (!(mb == 0 && move.change->skips_first)) apply(move, mb);
  }

  // All that the rest of the step depends on, seen from micro-batch `now`: equal states of two
  // micro-batches are followed by equal sequences of addresses.
  std::vector<std::int64_t> state(std::int64_t now) const {
    std::vector<std::int64_t> all;
    visit_state(now, [&](std::int64_t number) {
      all.push_back(number);
      return true;
    });
    return all;
  }
  bool is_state(std::int64_t now, const std::vector<std::int64_t>& kept) const {
    std::size_t i = 0;
    return visit_state(now, [&](std::int64_t number) {
      return i < kept.size() && kept[i++] == number;
    }) && i == kept.size();
  }

  // Of all instances, seen from there, those that are allocated.
  std::vector<bool> there(std::int64_t now) const {
    std::vector<bool> all;
    visit_places(now, [&](const Place& place) {
      all.push_back(place != kAbsent);
      return true;
    });
    return all;
  }

  // The most that was reserved at once.
  core::Bytes reserved() const { return peak_; }
  bool is_enough() const { return peak_ > enough_; }

 private:
  static constexpr Place kAbsent{-1, -1};

  // A change of one call, as far as it does not depend on the micro-batch.
  struct Move {
    const Change* change = nullptr;
    const Buffer* buffer = nullptr;
    std::size_t first = 0;             // in places_: of the layer's first slot
    core::Bytes bytes{};
  };

  // Made when first wanted: a pass runs its routine again and again.
  const std::vector<Move>& moves_of(const Routine& routine) {
    for (const auto& [known, moves] : moves_)
      if (known == &routine) return moves;
    std::vector<Move> moves;
    for (const Call& call : routine)
      for (const Change& c : changes_.blocks[call.block].changes) {
        const Buffer& buffer = class_.buffers[c.view.buffer];
        const int layer = layer_index(c.view, call);
        PLANNER_CHECK(layer >= 0 && layer < buffer.extent, "layer index outside the buffer");
        moves.push_back({&c, &buffer,
                         base_[c.view.buffer] + static_cast<std::size_t>(layer * buffer.slots),
                         buffer.instance_bytes(layer)});
      }
    return moves_.emplace_back(&routine, std::move(moves)).second;
  }

  // visit(number) -> whether to go on.
  template <class Visit>
  bool visit_state(std::int64_t now, Visit&& visit) const {
    if (!visit(allocator_.reserved().value()) || !allocator_.visit_state(visit)) return false;
    return visit_places(now, [&](const Place& place) { return visit(place.offset); });
  }
  // Those of all instances, micro-batch `now` first: visit(place) -> whether to go on.
  template <class Visit>
  bool visit_places(std::int64_t now, Visit&& visit) const {
    for (std::size_t b = 0; b < base_.size(); ++b) {
      const Buffer& buffer = class_.buffers[b];
      if (buffer.persistent) continue;
      for (int layer = 0; layer < buffer.extent; ++layer) {
        for (std::int64_t i = 0; i < buffer.slots; ++i) {
          const std::int64_t slot = layer * buffer.slots + (now + i) % buffer.slots;
          if (!visit(places_[base_[b] + static_cast<std::size_t>(slot)])) return false;
        }
      }
    }
    return true;
  }

  void place_persistent(const Buffer& b) {
    if (!b.persistent || b.host) return;
    for (int layer = 0; layer < b.extent; ++layer) {
      for (int slot = 0; slot < b.slots; ++slot) place(b.instance_bytes(layer));
    }
  }

  Place place(core::Bytes bytes) {
    Place place = allocator_.allocate(bytes);
    if constexpr (std::is_same_v<Allocator, CachingAllocator>) {
      if (place == CachingAllocator::kOutOfMemory) {
        allocator_.lift_capacity();
        place = allocator_.allocate(bytes);
      }
    }
    peak_ = std::max(peak_, allocator_.reserved());
    return place;
  }

  void apply(const Move& move, std::uint32_t micro_batch) {
    const Change& c = *move.change;
    const int slot = slot_of(*move.buffer, c.view, micro_batch);
    Place& at = places_[move.first + static_cast<std::size_t>(slot)];
    PLANNER_CHECK((at == kAbsent) == c.is_alloc,
                  "alloc of what is there or free of what is not");
    if (c.is_alloc) {
      at = place(move.bytes);
    } else {
      allocator_.free(at);
      at = kAbsent;
    }
  }

  const RankClass& class_;
  BlockChanges changes_;
  std::vector<std::pair<const Routine*, std::vector<Move>>> moves_;
  std::vector<std::size_t> base_;      // of each buffer in places_
  std::vector<Place> places_;          // of each instance, kAbsent: not allocated
  Allocator allocator_;
  core::Bytes enough_, peak_{};
};

// Takes the passes of a schedule. Of a steady phase, periods are left out once one is found by
// Brent's algorithm, with one stored state: leaving out whole periods renumbers the micro-batches
// that follow, which changes nothing, because sequences depend on differences of micro-batches
// alone, but for micro-batch 0, which came before.
template <class Addresses>
class ScheduleReplay {
 public:
  ScheduleReplay(Addresses& addresses, const RankClass& k, const ReplayOptions& options)
      : addresses_(addresses), class_(k), options_(options), passes_(k.schedule) {}

  void run() {
    while (!passes_.done() && !addresses_.is_enough()) {
      const std::int64_t periods = passes_.ordinary_periods();
      if (options_.skip_periods && left_out_ == 0 && periods > 1 && passes_.steady())
        take(periods);
      else
        take_one();
    }
  }
  // Rounds of steady phases.
  std::int64_t walked() const { return walked_; }
  // Micro-batches that were left out: those after them have numbers so much lower.
  std::int64_t left_out() const { return left_out_; }
  bool estimated() const { return estimated_; }

 private:
  void take_one() {
    const Pass pass = passes_.pass();
    if (passes_.steady() && pass.kind == PassKind::forward) ++walked_;
    addresses_.run(class_.routine(pass), pass.micro_batch - left_out_);
    passes_.advance();
  }

  // Up to `periods` ordinary ones, until one is found to repeat.
  void take(std::int64_t periods) {
    const std::int64_t count = passes_.period_passes(), step = passes_.period_micro_batches();
    std::vector<std::int64_t> kept;
    std::vector<bool> there;
    std::int64_t kept_at = 0, next_kept = 1;
    for (std::int64_t i = 0; i < periods; ++i) {
      for (std::int64_t j = 0; j < count; ++j) take_one();
      const std::int64_t rest = periods - 1 - i;
      if (rest == 0 || addresses_.is_enough()) return;
      if (!kept.empty() && addresses_.is_state(i * step, kept)) {
        const std::int64_t found = i - kept_at, left_out = rest / found * found;
        return leave_out(left_out, step);
      }
      const bool caching = options_.allocator == AllocatorKind::caching;
      // Addresses may go on to differ from round to round. What is there must not: a micro-batch
      // that waits for long, as in a V of many stages, keeps its number.
      if (i + 1 >= options_.most_rounds && (caching || options_.estimates)) {
        std::vector<bool> now = addresses_.there(i * step);
        if (now == there) {
          estimated_ = !caching;
          return leave_out(rest, step);
        }
        there = std::move(now);
      }
      if (i + 1 != next_kept) continue;
      kept = addresses_.state(i * step);
      kept_at = i;
      next_kept *= 2;
    }
  }

  void leave_out(std::int64_t periods, std::int64_t micro_batches) {
    if (periods == 0) return;
    passes_.skip(periods);
    left_out_ = periods * micro_batches;
  }

  Addresses& addresses_;
  const RankClass& class_;
  const ReplayOptions& options_;
  Passes passes_;
  std::int64_t walked_ = 0;
  std::int64_t left_out_ = 0;          // micro-batches
  bool estimated_ = false;
};

// Steps of a run, until the model is at the end of one in the state of an earlier one: the steps
// between are left out as often as they fit, the last ones, which drain, are not. How many steps a
// run has shows in addresses alone, and in them after a few no more.
template <class Addresses>
std::int64_t replay_run(Addresses& addresses, const RankClass& k, const ReplayOptions& options) {
  const RankSchedule& s = k.schedule;
  constexpr std::int64_t kShown = 16;
  const std::int64_t steps = options.steps > 0 ? options.steps : s.whole_run() + kShown;
  std::int64_t walked = 0, left_out = 0;  // rounds; steps
  std::vector<std::vector<std::int64_t>> states;
  for (std::int64_t step = 0; step < steps; ++step) {
    const std::int64_t shift = left_out * s.micro_batches, end = s.first_of(step + 1) - 1;
    addresses.run(k.begin, s.first_of(step) - shift);
    for (Passes passes(s, {step, steps}); !passes.done(); passes.advance()) {
      const Pass pass = passes.pass();
      if (passes.steady() && pass.kind == PassKind::forward) ++walked;
      addresses.run(k.routine(pass), pass.micro_batch - shift);
    }
    addresses.run(k.end, end - shift);
    const std::int64_t rest = steps - 1 - step - s.draining_steps();
    if (!options.skip_periods || left_out > 0 || rest <= 0) continue;
    states.push_back(addresses.state(end + 1));
    const auto seen = std::ranges::find(states, states.back());
    const auto period = static_cast<std::int64_t>(states.end() - 1 - seen);
    if (period > 0) step += left_out = rest / period * period;
  }
  addresses.run(k.finish, s.first_of(steps - left_out) - 1);
  return walked;
}

template <class Allocator>
core::Bytes reserved_bytes(const RankClass& k, const ReplayOptions& options, Replay& r) {
  AddressReplay<Allocator> addresses(k, options);
  if (!k.schedule.flushes) {
    r.rounds_walked = replay_run(addresses, k, options);
    return addresses.reserved();
  }
  addresses.run(k.begin, 0);
  ScheduleReplay schedule(addresses, k, options);
  schedule.run();
  r.rounds_walked = schedule.walked();
  r.estimated = schedule.estimated();
  if (addresses.is_enough()) return addresses.reserved();
  addresses.run(k.end, k.schedule.micro_batches - 1 - schedule.left_out());
  return addresses.reserved();
}

}  // namespace

static core::Bytes one_slot(const Buffer& b) {
  core::Bytes all{};
  for (int layer = 0; layer < b.extent; ++layer) all += b.instance_bytes(layer);
  return all;
}

TermBytes persistent_terms(const RankClass& k) {
  TermBytes terms{};
  for (const Buffer& b : k.buffers)
    for (int slot = 0; b.persistent && !b.host && slot < b.slots; ++slot)
      terms[static_cast<std::size_t>(b.term_of(slot))] += one_slot(b);
  return terms;
}

core::Bytes host_bytes(const RankClass& k) {
  core::Bytes all{};
  for (const Buffer& b : k.buffers)
    if (b.host) all += one_slot(b) * b.slots;
  return all;
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
                   ? reserved_bytes<Arena>(k, options, r)
                   : reserved_bytes<CachingAllocator>(k, options, r);
  return r;
}

std::vector<Replay> replay_classes(const Program& program, const ReplayOptions& options) {
  std::vector<Replay> all;
  for (const RankClass& k : program.classes) all.push_back(replay(k, options));
  return all;
}

}  // namespace program
