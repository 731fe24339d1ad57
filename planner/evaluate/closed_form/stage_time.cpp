// The passes of a stage, as sums: time (the parts of a pass: stage_memory.cpp). A use that requests
// the next copy lasts max(c, gather); a backward that waits for the unit before it too max(c,
// gather + reduce). Where ranks' cores move the bytes, c grows by what transfers beside it hold.
#include <algorithm>

#include "planner/evaluate/closed_form/stage_form.hpp"

namespace planner::closed_form {

// One machine's figures of a pass, in picoseconds: pieces with the casts of what they read, the
// gather of a layer, and the reduction of one.
struct StageForm::Clock {
  const std::array<PieceTime, kPieces>& times;
  const Waits& waits;
  std::size_t machine = 0;
  bool sharded = false;                // gradients are divided: none in f32 beside
  bool replicas = false;               // whether gradients are added up over these too
  std::int64_t reduce = 0, partial = 0;  // of a layer
  double held = 0;                       // of a transfer's time beside computing (cost::held_share)

  std::int64_t use(Piece p, std::int64_t reads) const {
    const PieceTime& t = times[index(p)];
    return t.kernels + t.transfers + reads - (sharded ? t.wide : 0);
  }
  std::int64_t layer(Piece p) const { return use(p, waits.layer); }
  std::int64_t holds(std::int64_t transfers) const {
    return static_cast<std::int64_t>(held * static_cast<double>(transfers));
  }
  std::int64_t beside(std::int64_t compute, std::int64_t transfers) const {
    return std::max(compute + holds(transfers), transfers);
  }
  // While it computes the next copy is on its way.
  std::int64_t with_next(std::int64_t compute) const { return beside(compute, waits.next); }
};

// A segment; `final`: the last of its pass, whose last layer requests what the embeddings' backward
// reads, if anything.
inline void StageForm::segment_time(const Clock& c, const Chunk& chunk, std::int64_t n, bool final,
                                    bool recomputes, SegmentTime& t) const {
  const std::int64_t after = chunk.first ? c.waits.tail_ahead : 0;
  const auto then_next = [&](std::int64_t took, bool ends) {
    return c.beside(took, ends ? after : c.waits.next);
  };
  t = {};
  const std::int64_t others = alone() ? 0 : n - 1;
  if (recomputes)
    t.recompute = others * c.with_next(c.layer(Piece::layer_keep)) + c.layer(Piece::recompute);
  // What was recomputed last is still there: its backward reads the same copy.
  // Partial sums of norms' gradients are added up over the tensor ranks before they are reduced.
  const std::int64_t layer = c.layer(Piece::backward);
  const std::int64_t first = recomputes ? c.use(Piece::backward, 0) : layer;
  t.first = then_next(first, final && n == 1) + c.partial;
  t.other = then_next(layer, false) + c.partial;
  t.last = then_next(layer, final) + c.partial;
  if (!units_reduce_) return;
  if (!s_->strategy->overlap) {        // the unit follows
    for (std::int64_t* each : {&t.first, &t.other, &t.last}) *each += c.reduce;
    return;
  }
  // One unit is open at a time: that before must be reduced. Copies requested meanwhile take turns
  // with it on the same links, behind it: in front of a recomputation they hold up its second
  // layer.
  t.copies = final && n == 1 ? after : c.waits.next;
  const bool early = ahead_ && recomputes && others > 0;
  const std::int64_t window =
      early ? c.with_next(c.layer(Piece::layer_keep)) : t.recompute + t.first;
  const std::int64_t holds = c.holds(c.reduce);
  t.window = window + holds;
  t.other = std::max(t.other + holds, c.reduce + c.waits.next);
  t.last = std::max(t.last + holds, c.reduce + (final ? after : c.waits.next));
  t.first += t.beside(c.reduce) - window;
}

// The one of the rest comes first.
inline StageForm::Row StageForm::row(const Clock& clock, const Chunk& c) const {
  Row row;
  static_cast<Segments&>(row) = segments_of(c);
  const std::int64_t ending = row.ending();
  const bool again = every() > 0;
  if (ending > 0) segment_time(clock, c, ending, true, again, row.last);
  if (row.inner() > 0) segment_time(clock, c, row.n, false, again, row.inside);
  if (row.rest > 0) segment_time(clock, c, row.rest, ending == 0, again && !alone(), row.partial);
  return row;
}

inline std::int64_t StageForm::forward_time(const Clock& clock, const Chunk& c,
                                            const Row& row) const {
  const Waits& waits = clock.waits;
  std::int64_t all = c.layers > 0 ? waits.next : 0;
  if (c.first) {
    const std::int64_t prologue = clock.use(Piece::prologue, waits.prologue_reads);
    all = (c.layers > 0 ? clock.with_next(prologue) : prologue) + waits.prologue_ahead;
  }
  if (c.layers == 0) return all;
  if (every() == 0) {
    const std::int64_t layer = clock.layer(Piece::layer_keep);
    return all + (c.layers - 1) * clock.with_next(layer) + layer;
  }
  const std::int64_t held = row.inner() + (row.ending() > 0) + (row.rest > 0 && !alone());
  const std::int64_t hold = clock.layer(Piece::layer_hold);
  const std::int64_t other = clock.layer(alone() ? Piece::layer_keep : Piece::layer_drop);
  const bool holds = alone() ? row.rest == 0 : row.n == 1 || row.rest == 1;
  const std::int64_t last = holds ? hold : other;
  return all + held * clock.with_next(hold) + (c.layers - held) * clock.with_next(other) -
         clock.with_next(last) + last;
}

inline std::int64_t StageForm::head_time(const Clock& clock, const Chunk& c) const {
  const std::int64_t next = c.layers > 0 ? clock.waits.next : 0;
  if (!c.last) return next;
  return clock.beside(clock.use(Piece::epilogue, clock.waits.epilogue_reads), next) +
         clock.waits.epilogue_ahead;
}

inline std::int64_t StageForm::tail_time(const Clock& clock, const Chunk& c) const {
  if (!c.first) return 0;
  return clock.use(Piece::prologue_backward, clock.waits.tail_reads) +
         (c.layers == 0 ? clock.waits.tail_ahead : 0);
}

inline std::int64_t StageForm::backward_time(const Clock& clock, const Chunk& c, const Row& row,
                                             std::int64_t head, std::int64_t tail) const {
  const bool overlap = s_->strategy->overlap;
  std::int64_t all = head;
  if (row.inner() > 0) all += row.inner() * row.inside.all(row.n);
  if (row.ending() > 0) all += row.last.all(row.ending());
  if (row.rest > 0) all += row.partial.all(row.rest);
  if (!units_reduce_) return all + tail;
  const auto reduce = [&](const Unit& u) {
    return u.reduce[clock.machine] + (clock.replicas ? u.replica[clock.machine] : 0);
  };
  if (c.last) all += final_.partial[clock.machine];
  if (c.first) all += embeddings_.partial[clock.machine];
  std::int64_t before = c.last ? reduce(final_) + (c.first ? 0 : reduce(tied_)) : 0;
  if (overlap && c.layers > 0) {  // the first layer waits for these alone
    const SegmentTime& s = row.rest > 0 ? row.partial : row.inner() > 0 ? row.inside : row.last;
    before = s.beside(before) - s.beside(clock.reduce);
  }
  const std::int64_t ends = c.first ? reduce(embeddings_) + reduce(tied_) : 0;
  return all + before + (overlap && c.layers > 0 ? std::max(tail, clock.reduce) : tail) + ends;
}

void StageForm::chunk_time(const Forms& forms, std::size_t machine, const Chunk& c,
                           ChunkTime& t) const {
  Clock clock{forms.time[machine], waits_[machine], machine, units_reduce_};
  clock.reduce = layer_.reduce[machine];
  clock.held = cost::held_share(s_->gradients[machine], *s_->machines[machine]);
  clock.partial = units_reduce_ ? layer_.partial[machine] : 0;
  const Row passed = row(clock, c);
  const std::int64_t tail = tail_time(clock, c);
  t.head = head_time(clock, c);
  t.forward = forward_time(clock, c, passed);
  t.last_backward = t.backward = backward_time(clock, c, passed, t.head, tail);
  if (s_->replicas[machine].size > 1) {
    clock.replicas = true;
    clock.reduce += layer_.replica[machine];
    t.last_backward = backward_time(clock, c, row(clock, c), t.head, tail);
  }
  if (communicates_ && !units_reduce_ && s_->strategy->overlap && !split_)  // but for what is last
    t.last_backward +=
        clock.holds(c.layers * layer_share_[machine] + (c.last ? head_share_[machine] : 0));
  t.ready = {};
  if (units_reduce_ || c.layers == 0) return;
  const std::int64_t ends = t.backward - tail;
  const SegmentTime& one = passed.inner() > 0 ? passed.inside : passed.last;
  const SegmentTime& partial = passed.partial;
  std::int64_t begins = t.head;
  t.ready[0] = {ends, 1};
  if (passed.rest > 0) {
    t.ready[1] = {begins + partial.recompute + partial.first, c.layers};
    begins += partial.all(passed.rest);
  }
  if (passed.ending() > 0) {
    t.ready[2] = {begins + one.recompute + one.first, c.layers - passed.rest};
    t.ready[3] = {ends - (passed.ending() - 1) * one.other, passed.ending()};
  }
}

// When the buckets of a run of chunks are reduced, the last backward pass of whose first begins at
// `start` and of each other one `step` later; those before it are by `busy`. A bucket waits for its
// layers and for the bucket before. Within a segment layers complete evenly, so the greatest delay
// begins at the first layer of some segment (the first two and the last are looked at) or at the
// last layer.
inline std::int64_t StageForm::buckets_end(std::size_t machine, const Run& run,
                                           const ChunkTime& of, std::int64_t start,
                                           std::int64_t step, std::int64_t busy) const {
  const Chunk& c = run.chunk;
  const std::int64_t layer = layer_share_[machine];
  std::int64_t after = 0;
  for (const Ready& r : of.ready) after = std::max(after, r.at + r.layers * layer);
  for (std::int64_t i = 0; i < run.count; ++i, start += step) {
    if (c.last) busy = std::max(busy, start + of.head) + head_share_[machine];
    busy = std::max(busy + c.layers * layer, start + after);
    if (c.first) busy = std::max(busy, start + of.last_backward) + embeddings_share_[machine];
  }
  return busy;
}

StageTime StageForm::time(const Forms& forms, std::size_t machine, bool lands,
                          Shared& shared) const {
  const bool overlap = s_->strategy->overlap && !split_;
  StageTime t;
  t.begin = begin_[machine];
  t.end = update_[machine] + (overlap || units_reduce_ ? 0 : reduce_all_[machine]);
  const bool buckets = !units_reduce_ && overlap && communicates_;
  const PieceTime& weights = forms.time[machine][index(Piece::weight_gradient)];
  const std::int64_t copy = lands ? forms.landing[machine] : 0;
  std::int64_t reduced = 0;
  for (std::size_t i = runs_.size(); i-- > 0;) {
    const Run& run = runs_[i];
    const Chunk& c = run.chunk;
    Shared::Times& known = shared.time_[run.kind * kMachines + machine];
    if (known.at != shared.now_) chunk_time(forms, machine, c, known.time);
    known.at = shared.now_;
    const ChunkTime& of = known.time;
    const std::int64_t in = c.first ? 0 : copy, back = c.last ? 0 : copy;
    const std::int64_t last_backward = of.last_backward + back;
    if (buckets)
      reduced = buckets_end(machine, run, of, t.last_backward, last_backward, reduced);
    t.forward += run.count * (of.forward + in);
    t.backward += run.count * (of.backward + back);
    t.last_backward += run.count * last_backward;
    if (c.first && chunks_.size() > 1) t.embeddings = of.forward + of.backward + back;
  }
  t.weight_gradient = layers_ * (weights.kernels + weights.transfers);
  if (t.embeddings > 0) {
    const auto others = static_cast<std::int64_t>(chunks_.size()) - 1;
    t.embeddings =
        std::max<std::int64_t>(0, t.embeddings - (t.period() - t.embeddings) / others);
  }
  t.last_backward = std::max(t.last_backward, reduced);
  t.end += std::max<std::int64_t>(0, tied_early_[machine] - t.weight_gradient);
  return t;
}

}  // namespace planner::closed_form
