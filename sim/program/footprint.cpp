#include "sim/program/footprint.hpp"

#include <algorithm>
#include <optional>

namespace program {
namespace {

LiveFootprint of_change(std::int64_t bytes, Term, const Call&, LiveFootprint*) {
  return {bytes, std::max<std::int64_t>(bytes, 0)};
}

TermFootprint of_change(std::int64_t bytes, Term term, const Call& call, TermFootprint*) {
  TermFootprint f;
  const auto t = static_cast<std::size_t>(term);
  f.net[t] = f.live_net = bytes;
  if (bytes <= 0) return f;
  f.peaks[t] = f.at_peak[t] = f.live_peak = bytes;
  f.where = call;
  return f;
}

template <class F>
F of_block(const RankClass& k, const BlockChanges::One& block, const Call& call, bool first) {
  F all{};
  for (const Change& c : block.changes) {
    if (first && c.skips_first) continue;
    const Buffer& buffer = k.buffers[c.view.buffer];
    const std::int64_t bytes = buffer.instance_bytes(layer_index(c.view, call)).value();
    all = then(all, of_change(c.is_alloc ? bytes : -bytes, buffer.term, call, &all));
  }
  return all;
}

void move_to(LiveFootprint&, const Call&) {}
void move_to(TermFootprint& f, const Call& call) {
  if (f.where.block != kNone) f.where = call;
}

// One footprint per block where no size depends on the layer, computed once for micro-batch 0 and
// once for the others.
template <class F>
class Routines {
 public:
  explicit Routines(const RankClass& k)
      : class_(k), changes_(block_changes(k)) {
    for (std::vector<std::optional<F>>& known : known_) known.resize(k.blocks.size());
  }

  F of(const Routine& routine, bool first) {
    F all{};
    for (const Call& call : routine) all = then(all, of_call(call, first));
    return all;
  }
  // `steady` is the routine's footprint for the later micro-batches.
  F of_first(const Routine& routine, const F& steady) {
    return changes_.any_skips_first ? of(routine, true) : steady;
  }

 private:
  F of_call(const Call& call, bool first) {
    const BlockChanges::One& block = changes_.blocks[call.block];
    if (!block.same_in_every_layer) return of_block<F>(class_, block, call, first);
    std::optional<F>& known = known_[first ? 1 : 0][call.block];
    if (!known) known = of_block<F>(class_, block, call, first);
    F f = *known;
    move_to(f, call);
    return f;
  }

  const RankClass& class_;
  BlockChanges changes_;
  std::array<std::vector<std::optional<F>>, 2> known_;  // later micro-batches, the first
};

}  // namespace

BlockChanges block_changes(const RankClass& k) {
  BlockChanges all;
  all.blocks.resize(k.blocks.size());
  for (std::size_t b = 0; b < k.blocks.size(); ++b) {
    BlockChanges::One& one = all.blocks[b];
    for (std::uint32_t i = k.blocks[b].first; i < k.blocks[b].last; ++i) {
      const Action& action = k.actions[i];
      if (action.kind != ActionKind::alloc && action.kind != ActionKind::free) continue;
      const View& view = k.views[action.first_arg];
      const bool skips = (action.flags & kSkipFirstMicroBatch) != 0;
      one.changes.push_back({action.kind == ActionKind::alloc, skips, view});
      all.any_skips_first |= skips;
      if (view.index == Index::layer && k.buffers[view.buffer].elements.size() > 1)
        one.same_in_every_layer = false;
    }
  }
  return all;
}

TermFootprint then(const TermFootprint& a, const TermFootprint& b) {
  TermFootprint f = a;
  const bool higher = a.live_net + b.live_peak > a.live_peak;
  for (std::size_t t = 0; t < kTerms; ++t) {
    f.net[t] += b.net[t];
    f.peaks[t] = std::max(a.peaks[t], a.net[t] + b.peaks[t]);
    if (higher) f.at_peak[t] = a.net[t] + b.at_peak[t];
  }
  f.live_net += b.live_net;
  if (!higher) return f;
  f.live_peak = a.live_net + b.live_peak;
  f.where = b.where;
  return f;
}

TermFootprint repeat(const TermFootprint& a, std::int64_t times, std::int64_t step) {
  if (times <= 0) return {};
  TermFootprint f = a;
  const std::int64_t before = times - 1;
  const bool last = a.live_net > 0 && before > 0;
  for (std::size_t t = 0; t < kTerms; ++t) {
    f.net[t] = a.net[t] * times;
    f.peaks[t] += std::max<std::int64_t>(a.net[t] * before, 0);
    if (last) f.at_peak[t] += a.net[t] * before;
  }
  f.live_net = a.live_net * times;
  if (!last) return f;
  f.live_peak += a.live_net * before;
  move_micro_batch(f, before * step);
  return f;
}

template <class F>
RoutineFootprints<F> routine_footprints(const RankClass& k) {
  Routines<F> routines(k);
  const bool one = k.schedule.micro_batches == 1 && k.schedule.flushes;
  RoutineFootprints<F> all;
  all.begin = routines.of(k.begin, true);
  all.end = routines.of(k.end, one);
  all.finish = routines.of(k.finish, false);
  for (int i = 0; i < k.chunks(); ++i) {
    const PassRoutines& from = k.chunk(i);
    auto& c = all.chunks.emplace_back();
    c.forward = routines.of(from.forward, false);
    c.backward = routines.of(from.backward, false);
    c.weight_gradient = routines.of(from.weight_gradient, false);
    c.first_forward = routines.of_first(from.forward, c.forward);
    c.first_backward = routines.of_first(from.backward, c.backward);
    c.first_weight_gradient = routines.of_first(from.weight_gradient, c.weight_gradient);
    c.last_backward = routines.of(from.last_backward, one);
    if (!k.schedule.flushes)
      all.only_backward.push_back(routines.of_first(from.last_backward, c.last_backward));
    c.last_weight_gradient = routines.of(from.last_weight_gradient, one);
  }
  return all;
}

template RoutineFootprints<LiveFootprint> routine_footprints(const RankClass&);
template RoutineFootprints<TermFootprint> routine_footprints(const RankClass&);

}  // namespace program
