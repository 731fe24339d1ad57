// The passes of a stage: memory, with what stands between passes.
#include <algorithm>

#include "planner/evaluate/closed_form/stage_form.hpp"

namespace planner::closed_form {

using program::LiveFootprint;

static LiveFootprint change(std::int64_t bytes) {
  return {bytes, std::max<std::int64_t>(bytes, 0)};
}

LiveFootprint StageForm::backward_live(const Forms& forms, const stage::ChunkShape& c,
                                       const Tape& pass) const {
  const LiveFootprint received = change(c.last ? 0 : forms.boundary);
  const LiveFootprint all = program::then(received, pass.live(forms));
  return c.first ? program::then(all, change(-root_weights())) : all;
}

// Layer by layer, from the last to the first, in the order of the backward pass.
LiveFootprint StageForm::weight_gradients(const Forms& forms, const stage::ChunkShape& c) const {
  const KindRows::Kinds& kinds = rows_->kinds(c.kinds);
  if (kinds.empty()) return program::repeat(forms.live[slot_of(Piece::weight_gradient)], c.layers);
  LiveFootprint all{};
  for (std::size_t l = kinds.size(); l-- > 0;)
    all = program::then(all, forms.live[slot_of(Piece::weight_gradient, kinds[l])]);
  return all;
}

void StageForm::chunk_live(const Forms& forms, std::size_t run, std::int64_t micro_batches,
                           const Passes& passes, ChunkLive& live) const {
  const stage::ChunkShape& c = runs_[run].chunk;
  const std::int64_t x = forms.boundary;
  // Its input, or what the root's units are gathered to for the whole period.
  const LiveFootprint forward =
      program::then(change(c.first ? root_weights() : x), passes.forward.live(forms));
  const LiveFootprint backward = backward_live(forms, c, passes.backward);
  // What was sent goes when the chunk's next pass of its kind begins.
  const auto after_send = [&](const LiveFootprint& f, bool sends) {
    return sends ? program::then(change(-x), f) : f;
  };
  live.first_forward = forward;
  live.forward = after_send(forward, !c.last);
  live.first_backward = backward;
  live.backward = after_send(backward, !c.first);
  const bool before = micro_batches > 1 || !flushes(s_->strategy->schedule);
  live.last_backward =
      after_send(stages_early() ? backward_live(forms, c, last_backward_[run]) : backward,
                 !c.first && before);
  if (!split_) return;
  live.weight_gradient = weight_gradients(forms, c);
  live.first_weight_gradient = live.last_weight_gradient = live.weight_gradient;
}

// Buckets' staging differs from rank to rank.
const StageForm::ChunkLive& StageForm::known_live(const Forms& forms, std::size_t run,
                                                  std::int64_t micro_batches,
                                                  Shared& shared) const {
  const std::size_t kind = runs_[run].kind;
  Shared::Lives& of = shared.live_[kind];
  if (of.at == shared.now_) return of.live;
  chunk_live(forms, run, micro_batches, shared.passes_[kind].passes, of.live);
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
  for (std::size_t i = 0; i < runs_.size(); ++i)
    next = std::fill_n(next, runs_[i].count, known_live(forms, i, micro_batches, shared));
  r.end = end_live(forms);
  r.finish = {};
  r.only_backward.clear();
  if (!flushes(s_->strategy->schedule)) {  // what was sent last goes with the run
    r.finish = {r.end.net, 0};
    r.end = {0, held_at_end()};
    const Tape& last = stages_early() ? last_backward_.front()
                                      : shared.passes_[runs_.front().kind].passes.backward;
    r.only_backward.push_back(backward_live(forms, chunks_.front(), last));
  }
}

std::int64_t StageForm::peak(const Live& live, const program::RankSchedule& schedule) const {
  return program::over_schedule(live, schedule).peak;
}

// Of N = m v passes, w ahead: before a steady round the level never is above w kept passes and what
// all chunks sent; the round adds one pass more. A pass of the model's last chunk, which keeps its
// output, is followed by its backward pass at once. The last micro-batch's backward passes come
// when c p + 1 passes are kept: those of chunk c and the ones before it in the model.
std::int64_t StageForm::interleaved_peak(const Forms& forms, const program::RankSchedule& s,
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
  for (std::size_t i = 0; i < runs_.size(); ++i) {
    const Run& run = runs_[i];
    const ChunkLive& c = known_live(forms, i, s.micro_batches, shared);
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
