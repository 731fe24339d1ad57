// The passes of a stage, as sums: memory.
//
// A pass is a head (embeddings; or head and loss), a row of n layers, a tail (embeddings'
// gradient). Under checkpoints every k layers the row is n / k segments and a rest. While a layer
// computes, its copy W, the next one's (requested ahead), its whole gradient G, and the unit before
// it that is still being reduced, stand beside its own tensors.
#include <algorithm>

#include "planner/closed_form/stage_form.hpp"

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

LiveFootprint StageForm::forward_live(const Forms& forms, const Chunk& c) const {
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
  const LiveFootprint drop = piece(Piece::layer_drop, w + next);
  const std::int64_t last = (c.layers - 1) % every() + 1, before = (c.layers - last) / every();
  const LiveFootprint segment = program::then(hold, program::repeat(drop, every() - 1));
  all = program::then(all, program::repeat(segment, before));
  if (last == 1) return program::then(all, piece(Piece::layer_hold, w));
  all = program::then(program::then(all, hold), program::repeat(drop, last - 2));
  return program::then(all, piece(Piece::layer_drop, w));
}

// n layers recomputed and differentiated (every 0: differentiated). `open`: what is being reduced
// when the segment begins; the layers' own units follow it. `final`: the last of its pass, whose
// last layer requests what the embeddings' backward reads, if anything, and whose input may need no
// gradient.
LiveFootprint StageForm::segment_live(const Forms& forms, const Chunk& c, std::int64_t n,
                                      std::int64_t open, bool final) const {
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
  if (every() > 0) {
    all = program::repeat(recompute(Piece::layer_keep, w + next), n - 1);
    all = program::then(all, recompute(Piece::recompute, w));
  }
  const Piece last = stops ? Piece::backward_first : Piece::backward;
  if (n == 1) return program::then(all, backward(last, open, final));
  all = program::then(all, backward(Piece::backward, open));
  all = program::then(all, program::repeat(backward(Piece::backward, own), n - 2));
  return program::then(all, backward(last, own, final));
}

// `buckets`: of the last micro-batch, which reduces bucket by bucket as layers complete.
LiveFootprint StageForm::backward_live(const Forms& forms, const Chunk& c, bool buckets) const {
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
  const std::int64_t segment = every() == 0 ? std::max<std::int64_t>(c.layers, 1) : every();
  const std::int64_t full = c.layers / segment, rest = c.layers % segment;
  const auto add = [&](std::int64_t n, std::int64_t times, bool final) {
    if (times <= 0) return;
    const auto row = [&] {
      return beside(segment_live(forms, c, n, open, final), tied + bucket);
    };
    all = program::then(all, row());
    open = own;
    if (times > 1) all = program::then(all, program::repeat(row(), times - 1));
  };
  if (rest > 0) add(rest, 1, full == 0);
  add(segment, full - 1, false);
  add(segment, full > 0 ? 1 : 0, true);
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

StageForm::ChunkLive StageForm::chunk_live(const Forms& forms, const Chunk& c,
                                           std::int64_t micro_batches) const {
  const std::int64_t x = forms.boundary;
  const LiveFootprint forward = forward_live(forms, c);
  const LiveFootprint backward = backward_live(forms, c, false);
  // What was sent goes when the chunk's next pass of its kind begins.
  const auto after_send = [&](const LiveFootprint& f, bool sends) {
    return sends ? program::then(change(-x), f) : f;
  };
  ChunkLive live;
  live.first_forward = forward;
  live.forward = after_send(forward, !c.last);
  live.first_backward = backward;
  live.backward = after_send(backward, !c.first);
  const bool buckets = s_->strategy->overlap && !split_ && largest_staging_ > 0;
  const bool before = micro_batches > 1 || is_endless(s_->strategy->schedule);
  live.last_backward = after_send(buckets ? backward_live(forms, c, true) : backward,
                                  !c.first && before);
  if (split_)
    live.weight_gradient = program::repeat(forms.live[index(Piece::weight_gradient)], c.layers);
  live.first_weight_gradient = live.last_weight_gradient = live.weight_gradient;
  return live;
}

// Of chunks with equally many layers the inner ones are alike: one stands for them.
bool StageForm::stands_for_all(std::size_t chunk) const {
  return equal_ && chunk == 1 && chunks_.size() > 3;
}

void StageForm::live(const Forms& forms, std::int64_t micro_batches, Live& r,
                     Shared& shared) const {
  r.chunks.clear();
  std::int64_t sent = 0;  // outputs and gradients of the last passes
  for (const Chunk& c : chunks_) sent += !c.first + !c.last;
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    const Chunk& c = chunks_[i];
    // Buckets' staging differs from rank to rank.
    const bool alike = largest_staging_ == 0;
    const bool again = i > 0 && c == chunks_[i - 1];
    const auto known = again || !alike ? shared.live_.end()
                                       : std::ranges::find(shared.live_, c, &Shared::Lives::chunk);
    if (again) {
      r.chunks.push_back(r.chunks.back());
    } else if (known != shared.live_.end()) {
      r.chunks.push_back(known->live);
    } else {
      r.chunks.push_back(chunk_live(forms, c, micro_batches));
      if (alike) shared.live_.push_back({c, r.chunks.back()});
    }
    if (stands_for_all(i)) i = chunks_.size() - 2;
  }
  r.end = {-forms.boundary * sent, 0};
  r.finish = {};
  r.only_backward.clear();
  if (is_endless(s_->strategy->schedule)) {  // what was sent last goes with the run
    std::swap(r.end, r.finish);
    const bool buckets = s_->strategy->overlap && largest_staging_ > 0;
    r.only_backward.push_back(backward_live(forms, chunks_.front(), buckets));
  }
  if (!s_->strategy->overlap || split_)
    r.end.peak = std::max<std::int64_t>(0, r.end.net + largest_staging_);
}

std::int64_t StageForm::peak(const Live& live, const program::Schedule& schedule) const {
  const bool interleaved = schedule.order == program::Order::interleaved;
  return interleaved && equal_ ? interleaved_peak(live, schedule)
                               : program::over_schedule(live, schedule).peak;
}

// Of N = m v passes, w ahead: before a steady round the level never is above w kept passes and what
// all chunks sent; the round adds one pass more. A pass of the model's last chunk, which keeps its
// output, is followed by its backward pass at once. The last micro-batch's backward passes come
// when c p + 1 passes are kept: those of chunk c and the ones before it in the model.
std::int64_t StageForm::interleaved_peak(const Live& live, const program::Schedule& s) const {
  const std::int64_t all = s.micro_batches * s.chunks, ahead = std::min(s.warm_up, all);
  const std::int64_t begun =
      std::min<std::int64_t>(s.chunks, (all - ahead + s.ranks - 1) / s.ranks);
  std::int64_t kept = 0, own = 0, forward = 0, backward = 0, sent = 0, last = 0;
  std::int64_t at = 0;                 // of the chunk, or the last one that it stands for
  for (std::size_t i = 0; i < live.chunks.size(); ++i) {
    const ChunkLive& c = live.chunks[i];
    const std::int64_t count = stands_for_all(i) ? s.chunks - 2 : 1;
    at += count;
    own = std::max(own, c.forward.net);
    if (!last_ || at < s.chunks) kept = own;
    forward = std::max(forward, c.forward.peak);
    backward = std::max({backward, c.first_backward.peak, c.backward.peak});
    sent += count * (c.first_forward.net - c.forward.net);
    // Backward passes come in descending order: `begun` chunks, the model's last ones, sent theirs.
    const std::int64_t gone = std::clamp<std::int64_t>(at - (s.chunks - begun), 0, count);
    sent += gone * (c.first_backward.net - c.backward.net);
  }
  at = 0;
  for (std::size_t i = 0; i < live.chunks.size(); ++i) {
    at += stands_for_all(i) ? s.chunks - 2 : 1;
    last = std::max(last, std::min(ahead, (at - 1) * s.ranks) * kept + own +
                              live.chunks[i].last_backward.peak);
  }
  const std::int64_t level = ahead * kept + sent;
  const std::int64_t before = ahead < all ? 0 : kept;  // no round: the passes ahead are all
  return std::max({level - before + forward, level - before + own + backward, last + sent,
                   -live.end.net + live.end.peak});
}

}  // namespace planner::closed_form
