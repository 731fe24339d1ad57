// The passes of a stage, as sums: time (the parts of a pass: stage_memory.cpp). A use that requests
// the next copy lasts max(c, gather); a backward that waits for the unit before it too max(c,
// gather + reduce).
#include <algorithm>

#include "planner/closed_form/stage_form.hpp"

namespace planner::closed_form {

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

std::int64_t StageForm::forward_time(const Clock& clock, const Chunk& c) const {
  std::int64_t all = 0;
  if (c.first) {
    static constexpr Unit kNothing{};
    const Unit& head = keeps_root_ ? final_ : kNothing;
    const std::int64_t prologue = clock.use(Piece::prologue, {&embeddings_, &tied_, &head});
    all = c.layers > 0 ? clock.with_next(prologue) : prologue;
    if (ahead_)
      for (const Unit* u : {&embeddings_, &tied_, &head}) all += u->gather[clock.machine];
  } else if (ahead_) {
    all = c.layers > 0 ? clock.gather : 0;
  }
  if (c.layers == 0) return all;
  if (every() == 0) {
    const std::int64_t layer = clock.layer(Piece::layer_keep);
    return all + (c.layers - 1) * clock.with_next(layer) + layer;
  }
  const std::int64_t held = (c.layers + every() - 1) / every();
  const std::int64_t hold = clock.layer(Piece::layer_hold), drop = clock.layer(Piece::layer_drop);
  const std::int64_t last = (c.layers - 1) % every() == 0 ? hold : drop;
  return all + held * clock.with_next(hold) + (c.layers - held) * clock.with_next(drop) -
         clock.with_next(last) + last;
}

// A segment; `final`: the last of its pass, whose last layer requests what the embeddings' backward
// reads, if anything.
StageForm::SegmentTime StageForm::segment_time(const Clock& c, const Chunk& chunk, std::int64_t n,
                                               bool final) const {
  const std::int64_t after = c.ahead && tail_weights(chunk) > 0 ? embeddings_.gather[c.machine] : 0;
  const auto then_next = [&](std::int64_t t, bool ends) {
    return ends ? std::max(t, after) : c.with_next(t);
  };
  SegmentTime t;
  if (every() > 0)
    t.recompute = (n - 1) * c.with_next(c.layer(Piece::layer_keep)) + c.layer(Piece::recompute);
  // What was recomputed last is still there: its backward reads the same copy.
  // Partial sums of norms' gradients are added up over the tensor ranks before they are reduced.
  const std::int64_t partial = units_reduce_ ? layer_.partial[c.machine] : 0;
  const std::int64_t layer = c.layer(Piece::backward);
  const std::int64_t first = every() > 0 ? c.use(Piece::backward, {}) : layer;
  t.first = then_next(first, final && n == 1) + partial;
  t.other = then_next(layer, false) + partial;
  t.last = then_next(layer, final) + partial;
  if (!units_reduce_) return t;
  if (!s_->strategy->overlap) {        // the unit follows
    for (std::int64_t* each : {&t.first, &t.other, &t.last}) *each += c.reduce;
    return t;
  }
  // One unit is open at a time: that before must be reduced. Copies requested meanwhile take turns
  // with it on the same links, behind it: in front of a recomputation they hold up its second
  // layer.
  const std::int64_t gather = c.ahead ? c.gather : 0;
  t.copies = final && n == 1 ? after : gather;
  const bool early = c.ahead && every() > 0 && n > 1;
  t.window = early ? c.with_next(c.layer(Piece::layer_keep)) : t.recompute + t.first;
  t.other = std::max(t.other, c.reduce + gather);
  t.last = std::max(t.last, c.reduce + (final ? after : gather));
  t.first += t.beside(c.reduce) - t.window;
  return t;
}

// `full` segments of n layers and one of the rest, which comes first.
StageForm::Row StageForm::row(const Clock& clock, const Chunk& c) const {
  Row row;
  row.n = every() == 0 ? std::max<std::int64_t>(c.layers, 1) : every();
  row.full = c.layers / row.n;
  row.rest = c.layers % row.n;
  if (row.full > 0) row.last = segment_time(clock, c, row.n, true);
  if (row.full > 1) row.inner = segment_time(clock, c, row.n, false);
  if (row.rest > 0) row.partial = segment_time(clock, c, row.rest, row.full == 0);
  return row;
}

StageForm::ChunkTime StageForm::chunk_time(const Clock& all, const Clock& last,
                                           const Chunk& c) const {
  ChunkTime t;
  t.row = row(all, c);
  t.forward = forward_time(all, c);
  t.last_backward = t.backward = backward_time(all, c, t.row, false);
  if (s_->replicas[all.machine].size > 1)
    t.last_backward = backward_time(last, c, row(last, c), true);
  return t;
}

StageTime StageForm::time(const Forms& forms, std::size_t machine, bool lands,
                          Shared& shared) const {
  const bool overlap = s_->strategy->overlap && !split_;
  StageTime t;
  t.begin = begin_[machine];
  t.end = update_[machine] + (overlap || units_reduce_ ? 0 : reduce_all_[machine]);
  const Clock all = clock(forms, machine, false), last = clock(forms, machine, true);
  const bool buckets = !units_reduce_ && overlap && communicates_;
  const PieceTime& weights = forms.time[machine][index(Piece::weight_gradient)];
  std::int64_t reduced = 0;
  for (std::size_t i = chunks_.size(); i-- > 0;) {
    const Chunk& c = chunks_[i];
    // Buckets go through the inner chunks one by one; without them one stands for all.
    std::int64_t count = 1;
    if (!buckets && i + 2 == chunks_.size() && stands_for_all(1))
      count = static_cast<std::int64_t>(i), i = 1;
    auto known = std::ranges::find_if(shared.time_, [&](const Shared::Times& k) {
      return k.chunk == c && k.machine == machine;
    });
    if (known == shared.time_.end())
      known = shared.time_.insert(known, {c, machine, chunk_time(all, last, c)});
    const ChunkTime& of = known->time;
    if (buckets) reduced = buckets_end(all, c, of.row, t.last_backward, of.backward, reduced);
    const std::int64_t copy = lands ? forms.landing[machine] : 0;
    const std::int64_t in = c.first ? 0 : copy, back = c.last ? 0 : copy;
    t.forward += count * (of.forward + in);
    t.backward += count * (of.backward + back);
    t.last_backward += count * (of.last_backward + back);
    t.weight_gradient += count * c.layers * (weights.kernels + weights.transfers);
    if (c.first && chunks_.size() > 1) t.embeddings = of.forward + of.backward + back;
  }
  if (t.embeddings > 0) {
    const auto others = static_cast<std::int64_t>(chunks_.size()) - 1;
    t.embeddings =
        std::max<std::int64_t>(0, t.embeddings - (t.period() - t.embeddings) / others);
  }
  t.last_backward = std::max(t.last_backward, reduced);
  t.end += std::max<std::int64_t>(0, tied_early_[machine] - t.weight_gradient);
  return t;
}

std::int64_t StageForm::head_time(const Clock& clock, const Chunk& c) const {
  const bool next = ahead_ && c.layers > 0;
  if (!c.last) return next ? clock.gather : 0;
  std::int64_t all = keeps_root_ ? clock.use(Piece::epilogue, {})
                                 : clock.use(Piece::epilogue, {&final_, &tied_});
  if (next) all = clock.with_next(all);
  if (ahead_ && !keeps_root_)
    all += final_.gather[clock.machine] + tied_.gather[clock.machine];
  return all;
}

std::int64_t StageForm::tail_time(const Clock& clock, const Chunk& c) const {
  if (!c.first) return 0;
  if (!tail_reads_) return clock.use(Piece::prologue_backward, {});
  const std::int64_t all = clock.use(Piece::prologue_backward, {&embeddings_});
  return all + (ahead_ && c.layers == 0 ? embeddings_.gather[clock.machine] : 0);
}

std::int64_t StageForm::backward_time(const Clock& clock, const Chunk& c, const Row& row,
                                      bool replicas) const {
  const bool overlap = s_->strategy->overlap;
  std::int64_t all = head_time(clock, c);
  if (row.full > 0) all += (row.full - 1) * row.inner.all(row.n) + row.last.all(row.n);
  if (row.rest > 0) all += row.partial.all(row.rest);
  const std::int64_t tail = tail_time(clock, c);
  if (!units_reduce_) return all + tail;
  if (c.last) all += final_.partial[clock.machine];
  if (c.first) all += embeddings_.partial[clock.machine];
  const auto reduce = [&](const Unit& u) {
    return u.reduce[clock.machine] + (replicas ? u.replica[clock.machine] : 0);
  };
  std::int64_t head = c.last ? reduce(final_) + (c.first ? 0 : reduce(tied_)) : 0;
  if (overlap && c.layers > 0) {  // the first layer waits for these alone
    const SegmentTime& s = row.rest > 0 ? row.partial : row.full > 1 ? row.inner : row.last;
    head = s.beside(head) - s.beside(clock.reduce);
  }
  const std::int64_t ends = c.first ? reduce(embeddings_) + reduce(tied_) : 0;
  return all + head + (overlap && c.layers > 0 ? std::max(tail, clock.reduce) : tail) + ends;
}

// When the buckets of a chunk are reduced whose last backward pass takes from `start` as long as
// `backward`; those before it are by `busy`. A bucket waits for its layers and for the bucket
// before. Within a segment layers complete evenly, so the greatest delay begins at the first layer
// of some segment (the first two and the last are looked at) or at the last layer.
std::int64_t StageForm::buckets_end(const Clock& clock, const Chunk& c, const Row& row,
                                    std::int64_t start, std::int64_t backward,
                                    std::int64_t busy) const {
  const auto share = [&](std::int64_t elements) {
    return static_cast<std::int64_t>(static_cast<double>(elements) * reduce_rate_[clock.machine]);
  };
  const auto experts = static_cast<std::int64_t>(static_cast<double>(experts_) *
                                                 expert_rate_[clock.machine]);
  const std::int64_t layer = share(layer_.elements) + experts, head = head_time(clock, c);
  const std::int64_t tail = tail_time(clock, c);
  const std::int64_t row_ends = backward - tail;
  const SegmentTime &one = row.full > 1 ? row.inner : row.last, &partial = row.partial;
  const auto from = [&](std::int64_t ready, std::int64_t layers) {
    busy = std::max(busy, start + ready + layers * layer);
  };
  if (c.last)
    busy = std::max(busy, start + head) + share(final_.elements + (c.first ? 0 : tied_.elements));
  busy += c.layers * layer;
  if (c.layers > 0) from(row_ends, 1);
  if (row.rest > 0) from(head + partial.recompute + partial.first, c.layers);
  if (row.full > 0) {
    const std::int64_t before = row.rest > 0 ? partial.all(row.rest) : 0;
    from(head + before + one.recompute + one.first, c.layers - row.rest);
    from(row_ends - (row.n - 1) * one.other, row.n);
  }
  if (c.first)
    busy = std::max(busy, start + backward) + share(embeddings_.elements + tied_.elements);
  return busy;
}

}  // namespace planner::closed_form
