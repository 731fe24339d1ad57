// The passes of a stage, as sums: memory.
//
// A pass is a head (embeddings; or head and loss), a row of n layers, a tail (embeddings'
// gradient). Under checkpoints every k layers the row is n / k segments and a rest; where one layer
// in k is computed again a segment ends with it, and the first one may be shorter. While a layer
// computes, its copy W, the next one's (requested ahead), its whole gradient G, and the unit before
// it that is still being reduced, stand beside its own tensors.
#include <algorithm>

#include "planner/evaluate/closed_form/stage_form.hpp"

namespace planner::closed_form {

using program::LiveFootprint;

namespace {

LiveFootprint change(std::int64_t bytes) { return {bytes, std::max<std::int64_t>(bytes, 0)}; }

// The piece with this much standing beside it.
LiveFootprint beside(LiveFootprint piece, std::int64_t bytes) {
  piece.peak = std::max<std::int64_t>(piece.peak + bytes, 0);
  return piece;
}

// The piece, then this much beside what it left.
LiveFootprint with_staging(LiveFootprint piece, std::int64_t bytes) {
  piece.peak = std::max(piece.peak, piece.net + bytes);
  return piece;
}

}  // namespace

StageForm::Segments StageForm::segments_of(const Chunk& c) const {
  if (every() == 0) return {std::max<std::int64_t>(c.layers, 1), 0, c.layers > 0, 0};
  const std::int64_t until = every() - c.before;
  const std::int64_t lead = c.before > 0 && c.layers >= until ? until : 0;
  return {every(), lead, (c.layers - lead) / every(), (c.layers - lead) % every()};
}

inline LiveFootprint StageForm::forward_live(const Forms& forms, const Chunk& c) const {
  const auto piece = [&](Piece p, std::int64_t copies) {
    return beside(forms.live[index(p)], copies);
  };
  const std::int64_t w = layer_.weights, next = ahead_ && c.layers > 0 ? w : 0;
  const std::int64_t own = keeps_root_ ? 0 : embeddings_.weights + tied_.weights;
  LiveFootprint all = change(c.first ? root_weights() : forms.boundary);  // or received
  if (c.first) all = program::then(all, piece(Piece::prologue, own + next));
  if (c.layers == 0) return all;
  // The last one requests no other copy.
  if (every() == 0) {
    const LiveFootprint keep = piece(Piece::layer_keep, w + next);
    all = program::then(all, program::repeat(keep, c.layers - 1));
    return program::then(all, piece(Piece::layer_keep, w));
  }
  const LiveFootprint hold = piece(Piece::layer_hold, w + next);
  if (alone()) {
    const LiveFootprint keep = piece(Piece::layer_keep, w + next);
    const auto segment = [&](std::int64_t n, const LiveFootprint& last) {
      return program::then(program::repeat(keep, n - 1), last);
    };
    const Segments row = segments_of(c);
    const std::int64_t whole = row.full - (row.full > 0 && row.rest == 0);
    if (row.lead > 0 && (row.full > 0 || row.rest > 0))
      all = program::then(all, segment(row.lead, hold));
    all = program::then(all, program::repeat(segment(row.n, hold), whole));
    const Piece last = row.rest > 0 ? Piece::layer_keep : Piece::layer_hold;
    const std::int64_t n = row.rest > 0 ? row.rest : row.full > 0 ? row.n : row.lead;
    return program::then(all, segment(n, piece(last, w)));
  }
  const LiveFootprint drop = piece(Piece::layer_drop, w + next);
  const std::int64_t last = (c.layers - 1) % every() + 1, before = (c.layers - last) / every();
  const LiveFootprint segment = program::then(hold, program::repeat(drop, every() - 1));
  all = program::then(all, program::repeat(segment, before));
  if (last == 1) return program::then(all, piece(Piece::layer_hold, w));
  all = program::then(program::then(all, hold), program::repeat(drop, last - 2));
  return program::then(all, piece(Piece::layer_drop, w));
}

// n layers differentiated, and before that, if it `recomputes`, computed again: all, or the last
// alone. `open`: what is being reduced when the segment begins; the layers' own units follow it.
// `final`: the last of its pass, whose last layer requests what the embeddings' backward reads, if
// anything, and whose input may need no gradient.
inline LiveFootprint StageForm::segment_live(const Forms& forms, const Chunk& c, std::int64_t n,
                                             std::int64_t open, bool final,
                                             bool recomputes) const {
  const bool overlap = s_->strategy->overlap, stops = final && c.first && !embeddings_train_;
  const std::int64_t w = layer_.weights, next = ahead_ ? w : 0;
  const std::int64_t after = ahead_ ? tail_weights(c) : 0;
  const std::int64_t own = overlap ? layer_.gradient + layer_.staging : 0;
  const auto backward = [&](Piece p, std::int64_t reducing, bool ends = false) {
    const LiveFootprint& piece = forms.live[index(p)];
    return with_staging(beside(piece, w + (ends ? after : next) + layer_.gradient + reducing),
                        layer_.gradient + layer_.staging);
  };
  const auto recompute = [&](Piece p, std::int64_t copies) {
    return beside(forms.live[index(p)], copies + open);
  };
  LiveFootprint all{};
  if (recomputes) {
    if (!alone()) all = program::repeat(recompute(Piece::layer_keep, w + next), n - 1);
    all = program::then(all, recompute(Piece::recompute, w));
  }
  const Piece last = stops ? Piece::backward_first : Piece::backward;
  if (n == 1) return program::then(all, backward(last, open, final));
  all = program::then(all, backward(Piece::backward, open));
  all = program::then(all, program::repeat(backward(Piece::backward, own), n - 2));
  return program::then(all, backward(last, own, final));
}

// `buckets`: of the last micro-batch, which reduces bucket by bucket as layers complete.
inline LiveFootprint StageForm::backward_live(const Forms& forms, const Chunk& c,
                                              bool buckets) const {
  const bool overlap = s_->strategy->overlap;
  const std::int64_t own = overlap && c.layers > 0 ? layer_.gradient + layer_.staging : 0;
  // Tied weights' gradient opens at the head; of a single stage it stays open to the end.
  const std::int64_t tied = c.first && c.last ? tied_.gradient : 0;
  std::int64_t open = 0;
  LiveFootprint all = change(forms.boundary);  // received
  if (c.last) {
    const std::int64_t gradients = final_.gradient + tied_.gradient;
    const std::int64_t copies = (keeps_root_ ? 0 : final_.weights + tied_.weights) +
                                (ahead_ && c.layers > 0 ? layer_.weights : 0);
    const Unit& latest = !c.first && tied_.elements > 0 ? tied_ : final_;
    if (overlap) open = latest.gradient + latest.staging;
    all = with_staging(beside(forms.live[index(Piece::epilogue)], copies + gradients),
                       gradients + std::max(final_.staging, c.first ? 0 : tied_.staging));
    if (buckets) all = with_staging(all, head_staging_);
  }
  // One bucket is being reduced beside the layers; the one with the embeddings when they are done.
  const std::int64_t bucket = buckets ? std::max(row_staging_, c.last ? head_staging_ : 0) : 0;
  const auto [segment, lead, full, rest] = segments_of(c);
  const auto make = [&](std::int64_t n, bool final, bool recomputes) {
    return beside(segment_live(forms, c, n, open, final, recomputes), tied + bucket);
  };
  if (rest > 0) {
    all = program::then(all, make(rest, full + lead == 0, !alone()));
    open = own;
  }
  const bool again = every() > 0;
  if (full > 0) {
    const bool ends = lead == 0;
    LiveFootprint row = make(segment, ends && full == 1, again);
    all = program::then(all, row);
    // Those beside a layer's own are alike, the last one too where it ends like the others.
    const bool first_apart = open != own;
    const bool last_apart = ends && (ahead_ || (c.first && !embeddings_train_));
    open = own;
    if (first_apart && full > 2) row = make(segment, false, again);
    if (full > 2) all = program::then(all, program::repeat(row, full - 2));
    if (full > 1 && (last_apart || (first_apart && full == 2))) row = make(segment, ends, again);
    if (full > 1) all = program::then(all, row);
  }
  if (lead > 0) all = program::then(all, make(lead, true, again));
  if (buckets) all = with_staging(all, row_staging_);
  if (!c.first) return all;
  const std::int64_t opened = embeddings_.gradient + (c.last ? 0 : tied_.gradient);
  const std::int64_t staging = std::max(embeddings_.staging, tied_.staging);
  const LiveFootprint& tail = forms.live[index(Piece::prologue_backward)];
  const std::int64_t beside_tail = tail_weights(c) + tied + own + opened + bucket;
  all = program::then(all, with_staging(beside(tail, beside_tail), tied + opened + staging));
  if (buckets) all = with_staging(all, largest_staging_);
  return program::then(all, change(-root_weights()));
}

void StageForm::chunk_live(const Forms& forms, const Chunk& c, std::int64_t micro_batches,
                           ChunkLive& live) const {
  const std::int64_t x = forms.boundary;
  const LiveFootprint forward = forward_live(forms, c);
  const LiveFootprint backward = backward_live(forms, c, false);
  // What was sent goes when the chunk's next pass of its kind begins.
  const auto after_send = [&](const LiveFootprint& f, bool sends) {
    return sends ? program::then(change(-x), f) : f;
  };
  live.first_forward = forward;
  live.forward = after_send(forward, !c.last);
  live.first_backward = backward;
  live.backward = after_send(backward, !c.first);
  const bool buckets = s_->strategy->overlap && !split_ && largest_staging_ > 0;
  const bool before = micro_batches > 1 || is_endless(s_->strategy->schedule);
  live.last_backward = after_send(buckets ? backward_live(forms, c, true) : backward,
                                  !c.first && before);
  if (!split_) return;
  live.weight_gradient = program::repeat(forms.live[index(Piece::weight_gradient)], c.layers);
  live.first_weight_gradient = live.last_weight_gradient = live.weight_gradient;
}

// Buckets' staging differs from rank to rank.
const StageForm::ChunkLive& StageForm::known_live(const Forms& forms, const Chunk& c,
                                                  std::size_t kind, std::int64_t micro_batches,
                                                  Shared& shared) const {
  Shared::Lives& of = shared.live_[kind];
  if (of.at == shared.now_) return of.live;
  chunk_live(forms, c, micro_batches, of.live);
  if (largest_staging_ == 0) of.at = shared.now_;
  return of.live;
}

// What was sent last goes; buckets that nothing hides are reduced then.
LiveFootprint StageForm::end_live(const Forms& forms) const {
  const std::int64_t net = -forms.boundary * sent_;
  return {net, std::max<std::int64_t>(0, net + held_at_end())};
}

void StageForm::live(const Forms& forms, std::int64_t micro_batches, Live& r,
                     Shared& shared) const {
  r.chunks.resize(chunks_.size());
  auto next = r.chunks.begin();
  for (const Run& run : runs_)
    next = std::fill_n(next, run.count,
                       known_live(forms, run.chunk, run.kind, micro_batches, shared));
  r.end = end_live(forms);
  r.finish = {};
  r.only_backward.clear();
  if (is_endless(s_->strategy->schedule)) {  // what was sent last goes with the run
    r.finish = {r.end.net, 0};
    r.end = {0, held_at_end()};
    const bool buckets = s_->strategy->overlap && largest_staging_ > 0;
    r.only_backward.push_back(backward_live(forms, chunks_.front(), buckets));
  }
}

std::int64_t StageForm::peak(const Live& live, const program::Schedule& schedule) const {
  return program::over_schedule(live, schedule).peak;
}

// Of N = m v passes, w ahead: before a steady round the level never is above w kept passes and what
// all chunks sent; the round adds one pass more. A pass of the model's last chunk, which keeps its
// output, is followed by its backward pass at once. The last micro-batch's backward passes come
// when c p + 1 passes are kept: those of chunk c and the ones before it in the model.
std::int64_t StageForm::interleaved_peak(const Forms& forms, const program::Schedule& s,
                                         Live& live, Shared& shared) const {
  if (!equal_) {
    this->live(forms, s.micro_batches, live, shared);
    return peak(live, s);
  }
  const std::int64_t all = s.micro_batches * s.chunks, ahead = std::min(s.warm_up, all);
  const std::int64_t begun =
      std::min<std::int64_t>(s.chunks, (all - ahead + s.ranks - 1) / s.ranks);
  std::int64_t kept = 0, own = 0, forward = 0, backward = 0, sent = 0, last = 0;
  std::int64_t at = 0;                 // of the last chunk of the run
  for (const Run& run : runs_) {
    const ChunkLive& c = known_live(forms, run.chunk, run.kind, s.micro_batches, shared);
    at += run.count;
    own = std::max(own, c.forward.net);
    if (!run.chunk.last) kept = own;
    forward = std::max(forward, c.forward.peak);
    backward = std::max({backward, c.first_backward.peak, c.backward.peak});
    sent += run.count * (c.first_forward.net - c.forward.net);
    // Backward passes come in descending order: `begun` chunks, the model's last ones, sent theirs.
    const std::int64_t gone = std::clamp<std::int64_t>(at - (s.chunks - begun), 0, run.count);
    sent += gone * (c.first_backward.net - c.backward.net);
  }
  at = 0;
  for (const Run& run : runs_) {
    at += run.count;
    last = std::max(last, std::min(ahead, (at - 1) * s.ranks) * kept + own +
                              shared.live_[run.kind].live.last_backward.peak);
  }
  const std::int64_t level = ahead * kept + sent;
  const std::int64_t before = ahead < all ? 0 : kept;  // no round: the passes ahead are all
  const LiveFootprint end = end_live(forms);
  return std::max({level - before + forward, level - before + own + backward, last + sent,
                   end.peak - end.net});
}

}  // namespace planner::closed_form
