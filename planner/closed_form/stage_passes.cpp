// The passes of a stage, as sums: its routines for memory and for time.
//
// A pass is a head (embeddings; or head and loss), a row of n layers, a tail (embeddings'
// gradient). Under checkpoints every k layers the row is n / k segments and a rest. Units that are
// gathered or reduced as the pass goes add to both:
//   memory  while a layer computes, its copy W, the next one's (requested ahead), its whole
//   gradient
//           G, and the unit before it that is still being reduced, stand beside its own tensors
//   time    a use that requests the next copy lasts max(c, gather); a backward that waits for the
//           unit before it max(c, gather, reduce)
#include <algorithm>

#include "planner/closed_form/stage_form.hpp"

namespace planner::closed_form {

using program::LiveFootprint;

// ---- Memory.

namespace {

LiveFootprint change(std::int64_t bytes) { return {bytes, std::max<std::int64_t>(bytes, 0)}; }

// The piece with this much standing beside it.
LiveFootprint beside(LiveFootprint piece, std::int64_t bytes) {
  piece.peak = std::max<std::int64_t>(piece.peak + bytes, 0);
  return piece;
}

}  // namespace

LiveFootprint StageForm::forward_live(const Forms& forms) const {
  const auto piece = [&](Piece p, std::int64_t copies) {
    return beside(forms.live[index(p)], copies);
  };
  const std::int64_t w = layer_.weights, next = ahead_ ? w : 0;
  LiveFootprint all = first_ ? piece(Piece::prologue, embeddings_.weights + tied_.weights + next)
                             : change(forms.boundary);  // received
  if (every() == 0)
    return program::then(all, program::repeat(piece(Piece::layer_keep, w + next), layers_));
  const LiveFootprint hold = piece(Piece::layer_hold, w + next);
  const LiveFootprint drop = piece(Piece::layer_drop, w + next);
  const auto segment = [&](std::int64_t n) {
    return program::then(hold, program::repeat(drop, n - 1));
  };
  all = program::then(all, program::repeat(segment(every()), layers_ / every()));
  return layers_ % every() > 0 ? program::then(all, segment(layers_ % every())) : all;
}

// n layers recomputed and differentiated (every 0: differentiated). `open`: what is being reduced
// when the segment begins; the layers' own units follow it.
LiveFootprint StageForm::segment_live(const Forms& forms, std::int64_t n, std::int64_t open,
                                      bool final) const {
  const bool overlap = s_->strategy->overlap;
  const std::int64_t w = layer_.weights, next = ahead_ ? w : 0;
  const std::int64_t own = overlap ? layer_.gradient + layer_.staging : 0;
  const auto backward = [&](Piece p, std::int64_t reducing) {
    const std::int64_t staging = overlap ? 0 : layer_.staging;
    return beside(forms.live[index(p)], w + next + layer_.gradient + staging + reducing);
  };
  const auto recompute = [&](Piece p, std::int64_t copies) {
    return beside(forms.live[index(p)], copies + open);
  };
  LiveFootprint all{};
  if (every() > 0) {
    all = program::repeat(recompute(Piece::layer_keep, w + next), n - 1);
    all = program::then(all, recompute(Piece::recompute, w));
  }
  const bool stops = final && first_ && !embeddings_train_;
  const Piece last = stops ? Piece::backward_first : Piece::backward;
  if (n == 1) return program::then(all, backward(last, open));
  all = program::then(all, backward(Piece::backward, open));
  all = program::then(all, program::repeat(backward(Piece::backward, own), n - 2));
  return program::then(all, backward(last, own));
}

LiveFootprint StageForm::backward_live(const Forms& forms) const {
  const bool overlap = s_->strategy->overlap;
  const std::int64_t own = overlap ? layer_.gradient + layer_.staging : 0;
  // Tied weights' gradient opens at the head; of a single stage it stays open to the end.
  const std::int64_t tied = first_ && last_ ? tied_.gradient : 0;
  std::int64_t open = 0;
  LiveFootprint all = change(forms.boundary);  // received
  if (last_) {
    const std::int64_t gradients = final_.gradient + tied_.gradient;
    const std::int64_t copies = final_.weights + tied_.weights + (ahead_ ? layer_.weights : 0);
    const Unit& latest = !first_ && tied_.elements > 0 ? tied_ : final_;
    if (overlap) open = latest.gradient + latest.staging;
    all = beside(forms.live[index(Piece::epilogue)],
                 copies + gradients + std::max(final_.staging, first_ ? 0 : tied_.staging));
  }
  const std::int64_t segment = every() == 0 ? layers_ : every();
  const std::int64_t full = layers_ / segment, rest = layers_ % segment;
  const auto add = [&](std::int64_t n, std::int64_t times, bool final) {
    if (times <= 0) return;
    const auto row = [&] { return beside(segment_live(forms, n, open, final), tied); };
    all = program::then(all, row());
    open = own;
    if (times > 1) all = program::then(all, program::repeat(row(), times - 1));
  };
  if (rest > 0) add(rest, 1, full == 0);
  add(segment, full - 1, false);
  add(segment, full > 0 ? 1 : 0, true);
  if (!first_) return all;
  const std::int64_t opened = embeddings_.gradient + (last_ ? 0 : tied_.gradient);
  const std::int64_t staging = std::max(embeddings_.staging, tied_.staging);
  return program::then(all, beside(forms.live[index(Piece::prologue_backward)],
                                   tied + own + opened + staging));
}

program::RoutineFootprints<LiveFootprint> StageForm::live(const Forms& forms,
                                                          std::int64_t micro_batches) const {
  const std::int64_t x = forms.boundary;
  const LiveFootprint forward = forward_live(forms), backward = backward_live(forms);
  // What was sent goes when the next pass of its kind begins.
  const auto after_send = [&](const LiveFootprint& f, bool sends) {
    return sends ? program::then(change(-x), f) : f;
  };
  program::RoutineFootprints<LiveFootprint> r;
  auto& c = r.chunks.emplace_back();
  c.first_forward = forward;
  c.forward = after_send(forward, !last_);
  c.first_backward = backward;
  c.backward = after_send(backward, !first_);
  c.last_backward = micro_batches == 1 ? c.first_backward : c.backward;
  const bool overlap = s_->strategy->overlap;
  if (overlap) c.last_backward.peak += largest_staging_;
  r.end.net = -x * (!first_ + !last_);
  if (!overlap) r.end.peak = std::max<std::int64_t>(0, r.end.net + largest_staging_);
  return r;
}

// ---- Time.

// One machine's figures of a pass, in picoseconds: uses with the casts of what they read, the
// gather of a layer, and the reduction of one.
struct StageForm::Clock {
  const StageForm& stage;
  const std::array<PieceTime, kPieces>& times;
  std::size_t machine;
  std::int64_t gather = 0, reduce = 0;
  bool ahead = false;

  std::int64_t use(Piece p, const std::initializer_list<const Unit*>& reads) const {
    const PieceTime& t = times[index(p)];
    std::int64_t all = t.kernels + t.transfers;
    for (const Unit* u : reads) all += u->cast[machine] + (ahead ? 0 : u->gather[machine]);
    return all;
  }
  std::int64_t layer(Piece p) const { return use(p, {&stage.layer_}); }
  // While it computes the next copy is on its way.
  std::int64_t with_next(std::int64_t compute) const {
    return ahead ? std::max(compute, gather) : compute;
  }
};

StageForm::Clock StageForm::clock(const Forms& forms, std::size_t machine, bool replicas) const {
  Clock c{*this, forms.time[machine], machine};
  c.ahead = ahead_;
  c.gather = layer_.gather[machine];
  c.reduce = layer_.reduce[machine] + (replicas ? layer_.replica[machine] : 0);
  return c;
}

std::int64_t StageForm::forward_time(const Clock& c) const {
  std::int64_t all = 0;
  if (first_) {
    const std::int64_t prologue = c.use(Piece::prologue, {&embeddings_, &tied_});
    all = c.with_next(prologue);
    if (ahead_) all += embeddings_.gather[c.machine] + tied_.gather[c.machine];
  } else if (ahead_) {
    all = c.gather;
  }
  if (every() == 0) {
    const std::int64_t layer = c.layer(Piece::layer_keep);
    return all + (layers_ - 1) * c.with_next(layer) + layer;
  }
  const std::int64_t held = (layers_ + every() - 1) / every();
  const std::int64_t hold = c.layer(Piece::layer_hold), drop = c.layer(Piece::layer_drop);
  const std::int64_t last = (layers_ - 1) % every() == 0 ? hold : drop;
  return all + held * c.with_next(hold) + (layers_ - held) * c.with_next(drop) -
         c.with_next(last) + last;
}

// A segment: its recomputation, its first backward, each of the others.
StageForm::SegmentTime StageForm::segment_time(const Clock& c, std::int64_t n) const {
  SegmentTime t;
  if (every() > 0)
    t.recompute = (n - 1) * c.with_next(c.layer(Piece::layer_keep)) + c.layer(Piece::recompute);
  // What was recomputed last is still there: its backward reads the same copy.
  // Partial sums of norms' gradients are added up over the tensor ranks before they are reduced.
  const std::int64_t partial = units_reduce_ ? layer_.partial[c.machine] : 0;
  const std::int64_t layer = c.layer(Piece::backward);
  t.first = c.with_next(every() > 0 ? c.use(Piece::backward, {}) : layer) + partial;
  t.other = c.with_next(layer) + partial;
  if (!units_reduce_) return t;
  if (!s_->strategy->overlap) {
    t.first += c.reduce;
    t.other += c.reduce;
  } else {  // the unit before must have been reduced: one is open at a time
    t.first = std::max(t.recompute + t.first, c.reduce) - t.recompute;
    t.other = std::max(t.other, c.reduce);
  }
  return t;
}

StageTime StageForm::time(const Forms& forms, std::size_t machine) const {
  const bool overlap = s_->strategy->overlap;
  StageTime t;
  t.begin = begin_[machine];
  t.end = update_[machine] + (overlap || units_reduce_ ? 0 : reduce_all_[machine]);
  const Clock c = clock(forms, machine, false);
  t.forward = forward_time(c);
  t.backward = backward_time(c, false);
  t.last_backward = t.backward;
  if (s_->replicas[machine].size > 1)
    t.last_backward = backward_time(clock(forms, machine, true), true);
  if (!units_reduce_ && overlap && communicates_) t.last_backward = with_buckets(c, t.backward);
  return t;
}

std::int64_t StageForm::head_time(const Clock& c) const {
  if (!last_) return ahead_ ? c.gather : 0;
  std::int64_t all = c.with_next(c.use(Piece::epilogue, {&final_, &tied_}));
  if (ahead_) all += final_.gather[c.machine] + tied_.gather[c.machine];
  return all;
}

std::int64_t StageForm::backward_time(const Clock& c, bool replicas) const {
  const bool overlap = s_->strategy->overlap;
  std::int64_t all = head_time(c);
  const std::int64_t n = every() == 0 ? layers_ : every();
  const std::int64_t full = layers_ / n, rest = layers_ % n;
  if (full > 0) all += full * segment_time(c, n).all(n);
  if (rest > 0) all += segment_time(c, rest).all(rest);
  const std::int64_t tail = first_ ? c.use(Piece::prologue_backward, {}) : 0;
  if (!units_reduce_) return all + tail;
  all += final_.partial[c.machine] + embeddings_.partial[c.machine];
  const auto reduce = [&](const Unit& u) {
    return u.reduce[c.machine] + (replicas ? u.replica[c.machine] : 0);
  };
  std::int64_t head = last_ ? reduce(final_) + (first_ ? 0 : reduce(tied_)) : 0;
  if (overlap) {  // hidden behind the first layer, which waits for it
    const SegmentTime s = segment_time(c, rest > 0 ? rest : n);
    head = std::max<std::int64_t>(0, head - s.recompute - s.first);
  }
  const std::int64_t ends = first_ ? reduce(embeddings_) + reduce(tied_) : 0;
  return all + head + (overlap ? std::max(tail, c.reduce) : tail) + ends;
}

// The last backward pass and the buckets behind it: a bucket waits for its layers and for the
// bucket before. Within a segment layers complete evenly, so the greatest delay begins at the first
// layer of some segment (the first two and the last are looked at) or at the last layer.
std::int64_t StageForm::with_buckets(const Clock& c, std::int64_t backward) const {
  const auto share = [&](std::int64_t elements) {
    return static_cast<std::int64_t>(static_cast<double>(elements) * reduce_rate_[c.machine]);
  };
  const std::int64_t layer = share(layer_.elements), head = head_time(c);
  const std::int64_t n = every() == 0 ? layers_ : every(), rest = layers_ % n;
  const std::int64_t tail = first_ ? c.use(Piece::prologue_backward, {}) : 0;
  const std::int64_t row_ends = backward - tail;
  const SegmentTime one = segment_time(c, n),
                    partial = segment_time(c, std::max<std::int64_t>(rest, 1));
  std::int64_t busy = 0;
  if (last_) busy = head + share(final_.elements + (first_ ? 0 : tied_.elements));
  busy = std::max(busy + layers_ * layer, row_ends + layer);
  if (rest > 0)
    busy = std::max(busy, head + partial.recompute + partial.first + layers_ * layer);
  if (layers_ >= n) {
    const std::int64_t before = rest > 0 ? partial.all(rest) : 0;
    busy = std::max(busy, head + before + one.recompute + one.first + (layers_ - rest) * layer);
    busy = std::max(busy, row_ends - (n - 1) * one.other + n * layer);
  }
  if (first_) busy = std::max(busy, backward) + share(embeddings_.elements + tied_.elements);
  return std::max(busy, backward);
}

}  // namespace planner::closed_form
