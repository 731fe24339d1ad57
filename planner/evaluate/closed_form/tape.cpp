#include "planner/evaluate/closed_form/tape.hpp"

#include <bit>

namespace planner::closed_form {

using program::LiveFootprint;
using Leaf = Outline::Leaf;

UnitSet StageUnits::trained() const {
  UnitSet set = 0;
  for (std::size_t u = 0; u < units.size(); ++u)
    if (units[u].trains) set |= static_cast<UnitSet>(1 << u);
  return set;
}

void StageUnits::sum(std::size_t machines) {
  const std::size_t sets = std::size_t{1} << count;
  const auto each = [&](BySet& by_set, bool any, auto&& figure) {
    by_set[0] = 0;
    if (!any) return void(std::fill_n(by_set.begin(), sets, 0));
    for (std::size_t set = 1; set < sets; ++set)
      by_set[set] =
          by_set[set & (set - 1)] + figure(units[static_cast<std::size_t>(std::countr_zero(set))]);
  };
  each(weights, manner.copies, [](const UnitForm& u) { return u.weights; });
  each(gradients, manner.reduces, [](const UnitForm& u) { return u.gradient; });
  for (std::size_t m = 0; m < machines; ++m) {
    each(cast[m], manner.copies, [&](const UnitForm& u) { return u.cast[m]; });
    each(gather[m], manner.copies, [&](const UnitForm& u) { return u.gather[m]; });
    each(open[m], manner.reduces, [&](const UnitForm& u) { return u.open[m]; });
  }
  std::fill_n(buckets.begin(), sets, 0);
  if (!manner.stages_buckets) return;
  for (std::size_t set = 1; set < sets; ++set)
    buckets[set] = std::max(buckets[set & (set - 1)],
                            units[static_cast<std::size_t>(std::countr_zero(set))].bucket);
}

void Tape::record(const Outline& outline, const StageUnits& stage, std::size_t machines) {
  outline_ = &outline;
  manner_ = stage.manner;
  holds_ = manner_.copies || manner_.reduces || outline.stages_buckets;
  held_.clear();
  for (std::size_t i = 0; holds_ && i < outline.leaves.size(); ++i)
    held_.push_back(held(outline.leaves[i], stage));
  hides_ = manner_.overlaps && (manner_.gathers || manner_.reduces);
  for (std::size_t m = 0; m < machines; ++m) {
    if (!hides_) {
      sums_[m] = sum(stage, m);
      continue;
    }
    transfers_[m].clear();
    for (const Leaf& leaf : outline.leaves) transfers_[m].push_back(transfers(leaf, stage, m));
    hidden_[m] = hidden(m);
  }
}

// ---- memory

// What is being reduced when a unit is complete goes first: one unit, or bucket, is at a time.
Tape::Held Tape::held(const Leaf& leaf, const StageUnits& s) const {
  std::int64_t reducing = s.buckets[leaf.done];
  if (manner_.reduces && manner_.overlaps && leaf.reducing != 0) {
    const UnitForm& u = s.units[static_cast<std::size_t>(std::countr_zero(leaf.reducing))];
    reducing = u.gradient + u.staging;
  }
  const std::int64_t own = s.weights[leaf.reads], later = s.weights[leaf.next];
  const std::int64_t open = s.gradients[leaf.open] + reducing;
  Held held{.beside = own + (manner_.gathers_ahead ? later : 0) + open};
  if (manner_.gathers_at_end) held.after = own + later + open;
  if (!manner_.reduces && !outline_->stages_buckets) return held;
  const bool asked = manner_.gathers_ahead || manner_.gathers_at_end;
  const std::int64_t left = s.weights[leaf.keeps] + (asked ? later : 0);
  UnitSet done = leaf.done;
  for (std::size_t c = 0; c < leaf.completes; ++c) {
    const auto [unit, still_open] = leaf.completions[c];
    done |= static_cast<UnitSet>(1 << unit);
    const std::int64_t staging = manner_.reduces ? s.units[unit].staging : s.buckets[done];
    held.after = std::max(held.after, left + s.gradients[still_open] + staging);
  }
  return held;
}

// program::then and program::repeat over all leaves.
LiveFootprint Tape::live(const Forms& forms) const {
  LiveFootprint all{};
  for (const Outline::Block& block : outline_->blocks) {
    LiveFootprint body{};
    for (std::size_t i = block.first; i < block.last; ++i) {
      const Leaf& leaf = outline_->leaves[i];
      const LiveFootprint& one = forms.live[leaf.slot];
      std::int64_t top = one.peak;
      if (holds_) top = std::max(top + held_[i].beside, one.net + held_[i].after);
      const std::int64_t others = one.net * (leaf.times - 1);
      body.peak = std::max(body.peak, body.net + top + std::max<std::int64_t>(others, 0));
      body.net += one.net + others;
    }
    all = program::then(all, program::repeat(body, block.times));
  }
  return all;
}

// ---- time

Tape::Sum Tape::sum(const StageUnits& s, std::size_t m) const {
  Sum sum;
  for (const auto& [set, times] : outline_->asks)
    sum.beside += times * (s.cast[m][set] + s.gather[m][set]);
  if (!manner_.reduces) return sum;
  for (const auto& [set, times] : outline_->opens) sum.beside += times * s.open[m][set];
  for (const auto& [unit, times] : outline_->completes) {
    sum.beside += times * (s.units[unit].partial[m] + s.units[unit].reduce[m]);
    sum.replica += times * s.units[unit].replica[m];
  }
  return sum;
}

Tape::Transfers Tape::transfers(const Leaf& leaf, const StageUnits& s, std::size_t m) const {
  Transfers t{.cast = s.cast[m][leaf.asks], .gather = s.gather[m][leaf.asks],
              .open = s.open[m][leaf.opens]};
  if (manner_.gathers_ahead) {
    t.next_cast = s.cast[m][leaf.next];
    t.next_gather = s.gather[m][leaf.next];
  }
  if (!manner_.reduces) return t;
  for (std::size_t c = 0; c < leaf.completes; ++c) {
    const UnitForm& u = s.units[leaf.completions[c].unit];
    t.reductions[t.reduces++] = {u.partial[m], u.reduce[m], u.replica[m]};
  }
  return t;
}

// In walk() nobody waits but for the ends if each use lasts as long as the reduction that the use
// before it left and the gather that it asked for itself, one behind the other.
Tape::Hidden Tape::hidden(std::size_t m) const {
  const std::vector<Transfers>& all = transfers_[m];
  Hidden hidden;
  std::int64_t before = 0;             // what the use before leaves to be reduced
  for (const Outline::Block& block : outline_->blocks) {
    if (block.times > 1) before = std::max(before, all[block.last - 1].left());
    for (std::size_t i = block.first; i < block.last; ++i) {
      const Leaf& leaf = outline_->leaves[i];
      const Transfers& t = all[i];
      if (leaf.times > 1) before = std::max(before, t.left());
      // Its own gather: of the first use alone, which waits for it.
      const std::int64_t casts = t.cast + std::max(t.gather, t.next_cast);
      std::int64_t& least = hidden.least[leaf.slot];
      least = std::max(least, std::max(before, casts) + t.next_gather - casts - t.open);
      const std::int64_t count = block.times * leaf.times;
      hidden.beside += count * (casts + t.open);
      hidden.transfers += count * t.next_gather;
      for (std::size_t r = 0; r < t.reduces; ++r) {
        hidden.beside += count * t.reductions[r].partial;
        if (r + 1 < t.reduces) hidden.beside += count * t.reductions[r].reduce;
        hidden.transfers += count * t.reductions[r].reduce;
      }
      before = t.left();
    }
  }
  hidden.beside += before;             // behind the last use, which holds nobody
  hidden.transfers -= before;
  return hidden;
}

bool Tape::hides_all(const Clock& clock) const {
  if (clock.replicas) return false;
  const auto& least = hidden_[clock.machine].least;
  return std::ranges::all_of(outline_->pieces, [&](const auto& piece) {
    return clock.kernels[piece.what] >= least[piece.what];
  });
}

// Where streams stand at an instant of the compute stream: how long until they are idle, until the
// copies for the next use are there, until the latest reduction is over. `holds`: what transfers
// that were just issued take from the next kernel.
struct Tape::Streams {
  std::int64_t parameter = 0, gradient = 0, gathered = 0, reduced = 0, holds = 0;
  friend bool operator==(const Streams&, const Streams&) = default;
};

inline std::int64_t Tape::step(const Transfers& t, std::int64_t kernel, const Clock& clock,
                               Streams& s) const {
  std::int64_t now = t.cast, own = s.gathered, held = s.holds;
  if (t.gather > 0) own = s.parameter = std::max(s.parameter, now) + t.gather;
  now += t.next_cast;
  s.gathered = 0;
  if (t.next_gather > 0) {
    s.gathered = s.parameter = std::max(s.parameter, now) + t.next_gather;
    held += clock.holds(t.next_gather);
  }
  now = std::max(now, own) + t.open + kernel + held;
  s.holds = 0;
  for (std::size_t r = 0; r < t.reduces; ++r) {
    const Reduction& of = t.reductions[r];
    s.holds += clock.holds(of.reduce);
    now = std::max(now, s.reduced) + of.partial;
    std::int64_t& stream = manner_.gathers ? s.parameter : s.gradient;
    s.reduced = stream = std::max(stream, now) + of.reduce;
    if (clock.replicas) s.reduced = s.gradient = std::max(s.gradient, stream) + of.replica;
  }
  const auto since = [&](std::int64_t& at) { at = std::max<std::int64_t>(at - now, 0); };
  since(s.parameter), since(s.gradient), since(s.gathered), since(s.reduced);
  return now;
}

// A use, or a block, that leaves the streams as it found them is as long whenever it is repeated.
std::int64_t Tape::walk(const Clock& clock, Streams& streams) const {
  const auto repeated = [&](std::int64_t times, auto&& one) {
    if (times == 1) return one();
    std::int64_t all = 0;
    for (std::int64_t left = times; left > 0;) {
      const Streams before = streams;
      const std::int64_t took = one();
      const std::int64_t alike = streams == before ? left : 1;
      all += alike * took;
      left -= alike;
    }
    return all;
  };
  const std::vector<Transfers>& transfers = transfers_[clock.machine];
  std::int64_t all = 0;
  for (const Outline::Block& block : outline_->blocks)
    all += repeated(block.times, [&] {
      std::int64_t body = 0;
      for (std::size_t i = block.first; i < block.last; ++i) {
        const Leaf& leaf = outline_->leaves[i];
        body += repeated(leaf.times, [&] {
          return step(transfers[i], clock.kernels[leaf.slot], clock, streams);
        });
      }
      return body;
    });
  return all;
}

std::int64_t Tape::time(const Clock& clock) const {
  std::int64_t all = 0;
  if (!hides_) {
    const Sum& sum = sums_[clock.machine];
    all = sum.beside + (clock.replicas ? sum.replica : 0);
  } else if (hides_all(clock)) {
    const Hidden& hidden = hidden_[clock.machine];
    all = hidden.beside + clock.holds(hidden.transfers);
  } else {
    Streams streams;
    all = walk(clock, streams);
    return all + streams.reduced;
  }
  for (const auto& [slot, times] : outline_->pieces) all += times * clock.kernels[slot];
  return all;
}

// How far reductions are behind the compute stream, x, becomes max(x + behind, least) by what
// follows: with `then` and `repeat` an algebra like that of footprints. Copies are cast, if
// anything: nothing is gathered.
BucketTime Tape::time_with_buckets(const StageUnits& stage, const Clock& clock) const {
  const auto then = [](const BucketTime& a, const BucketTime& b) {
    return BucketTime{a.time + b.time, a.behind + b.behind,
                      std::max(a.least + b.behind, b.least)};
  };
  const auto repeat = [](const BucketTime& a, std::int64_t times) {
    return BucketTime{a.time * times, a.behind * times,
                      a.least + std::max<std::int64_t>(a.behind * (times - 1), 0)};
  };
  const auto repeated = [&](std::int64_t times, auto&& one) {
    const BucketTime first = one();
    if (times == 1) return first;
    return then(first, repeat(clock.held == 0 ? first : one(), times - 1));
  };
  std::int64_t held = 0;               // by what the use before completed
  const auto use = [&](const Leaf& leaf) {
    const std::int64_t now =
        clock.kernels[leaf.slot] + stage.cast[clock.machine][leaf.asks] + held;
    std::int64_t shares = 0;
    for (std::size_t c = 0; c < leaf.completes; ++c)
      shares += stage.units[leaf.completions[c].unit].share[clock.machine];
    held = clock.holds(shares);
    return BucketTime{now, shares - now, shares};
  };
  BucketTime all;
  for (const Outline::Block& block : outline_->blocks)
    all = then(all, repeated(block.times, [&] {
                 BucketTime body;
                 for (std::size_t i = block.first; i < block.last; ++i)
                   body = then(body, repeated(outline_->leaves[i].times,
                                              [&] { return use(outline_->leaves[i]); }));
                 return body;
               }));
  return all;
}

}  // namespace planner::closed_form
