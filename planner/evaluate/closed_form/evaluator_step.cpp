// The step of all ranks: what the schedule makes of the passes of each.
#include <algorithm>

#include "planner/evaluate/closed_form/evaluator.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner::closed_form {
namespace {

std::int64_t forward_of(const StageTime& t) { return t.forward; }
std::int64_t backward_of(const StageTime& t) { return t.backward; }
std::int64_t period_of(const StageTime& t) { return t.period(); }

}  // namespace

std::int64_t Evaluator::of_run(const AtMicroBatch& known, std::size_t i, std::size_t run,
                               Part part) const {
  if (by_rank()) return part(known.roles[1 + run].time[i]);
  return part(known.roles[1].time[i]) * runs_[run].layers / roles_[1].form->layers();
}

std::int64_t Evaluator::of_middle(const AtMicroBatch& known, std::size_t i, Part part) const {
  if (runs_.empty()) return 0;
  if (!by_rank())
    return part(known.roles[1].time[i]) * middle_layers_ / roles_[1].form->layers();
  std::int64_t all = 0;
  for (std::size_t run = 0; run < runs_.size(); ++run)
    all += runs_[run].ranks * of_run(known, i, run, part);
  return all;
}

// Each rank's own limit: what a micro-batch takes on the ranks before it, both ways, its own slots,
// and its wait for the first gradients, while which it has the forward passes of those
// micro-batches that are on their way. The longest is the step (tested by playing the passes).
// Along a row of equal ranks a limit is convex: its ends have the longest.
std::int64_t Evaluator::in_turns(const AtMicroBatch& known, std::size_t i) const {
  const std::int64_t p = strategy_.pipeline, m = strategy_.grad_accum;
  const StageTime& first = known.roles.front().time[i];
  const StageTime& last = known.roles.back().time[i];
  const std::int64_t all = first.period() + of_middle(known, i, period_of) + last.period();
  std::int64_t longest = 0;
  const auto limit = [&](std::int64_t rank, std::int64_t before, std::int64_t forward,
                         std::int64_t period) {
    const std::int64_t ahead = (std::min(m, p - rank) - 1) * forward;
    const std::int64_t waits = std::max<std::int64_t>(all - before - period - ahead, 0);
    longest = std::max(longest, before + m * period + waits);
  };
  limit(0, 0, first.forward, first.period());
  std::int64_t rank = 1, before = first.period();
  for (std::size_t run = 0; run < runs_.size(); ++run) {
    const std::int64_t forward = of_run(known, i, run, forward_of);
    const std::int64_t period = of_run(known, i, run, period_of);
    limit(rank, before, forward, period);
    rank += runs_[run].ranks, before += runs_[run].ranks * period;
    limit(rank - 1, before - period, forward, period);
  }
  limit(p - 1, all - last.period(), last.forward, last.period());
  return longest;
}

// The slowest rank's passes for each micro-batch; or, of rank r, what a micro-batch takes on the
// ranks from there on, both ways, over the p - r slots that the rank has for it. Where the ends sum
// tied gradients, the last one's next pass waits for the way back through all.
std::int64_t Evaluator::without_flush(const AtMicroBatch& known, std::size_t i) const {
  const std::int64_t p = strategy_.pipeline;
  const Messages& messages = known.messages[i];
  const StageTime& first = known.roles.front().time[i];
  std::int64_t ranks = 0, way = 0, slot = messages.busiest;
  const auto add = [&](std::int64_t period, std::int64_t n) {
    ranks += n, way += n * period;
    const std::int64_t sent = 2 * messages.all * (ranks - 1) / (p - 1);
    slot = std::max({slot, period, (way + sent) / ranks});
  };
  add(known.roles.back().time[i].period(), 1);
  for (std::size_t r = runs_.size(); r-- > 0;) {
    const std::int64_t period = of_run(known, i, r, period_of);
    add(period, 1);
    if (runs_[r].ranks > 1) add(period, runs_[r].ranks - 1);
  }
  add(first.period(), 1);
  const std::int64_t back = first.backward + of_middle(known, i, backward_of);
  return strategy_.grad_accum * slot +
         (current_->ends.tied > 0 ? back + messages.all : 0);
}

bool Evaluator::plays() const {
  if (!rows_.several()) return false;
  const Strategy& s = strategy_;
  const bool chunked = interleaves(s.schedule) || splits_backward(s.schedule);
  if (s.pipeline == 1 || !chunked || !flushes(s.schedule)) return false;
  // Forward passes; chunks of a single layer differ most.
  const bool single = std::ranges::any_of(s.stages, [](std::int64_t n) { return n < 2; });
  return s.pipeline * s.virtual_stages * s.grad_accum <= (single ? 1024 : 128);
}

const RecordedPasses& Evaluator::recorded_passes() {
  const Strategy& s = strategy_;
  const ScheduleShape shape{s.schedule, s.pipeline, s.virtual_stages, s.grad_accum};
  auto found = recorded_.find(shape);
  if (found == recorded_.end()) {
    std::vector<program::RankSchedule> ranks;
    for (int r = 0; r < static_cast<int>(s.pipeline); ++r)
      ranks.push_back(schedule_of(s, r, s.grad_accum));
    found = recorded_.emplace(shape, ranks).first;
  }
  return found->second;
}

// As of lowered ranks (compose.cpp).
std::int64_t Evaluator::played(const AtMicroBatch& known, std::size_t i) {
  const std::int64_t p = strategy_.pipeline, m = strategy_.grad_accum;
  std::vector<const RoleFigures*> roles;  // of each rank
  std::vector<PassTimes> chunks;
  std::size_t role = 0;
  for (int r = 0; r < static_cast<int>(p); ++r) {
    while (role + 1 < roles_.size() && roles_[role + 1].stage <= r) ++role;
    roles.push_back(&known.roles[role]);
    const std::vector<PassTimes>& own = roles.back()->chunks[i];
    chunks.insert(chunks.end(), own.begin(), own.end());
  }
  std::vector<PassSpan> spans = recorded_passes().spans(chunks, message_of_links(known, i));
  if (norm()) join_all(spans);
  else if (current_->ends.tied > 0 && strategy_.data_ranks() > 1)
    spans.front().end = spans.back().end = std::max(spans.front().end, spans.back().end);
  std::int64_t longest = 0;
  for (std::size_t r = 0; r < roles.size(); ++r) {
    const StageTime& time = roles[r]->time[i];
    const PassSpan& span = spans[r];
    longest = std::max(longest, std::max(span.end - span.begin, m * time.period()) +
                                    time.beside_periods());
  }
  return longest;
}

Figures Evaluator::figures_of(const AtMicroBatch& known, std::size_t i) {
  const std::int64_t p = strategy_.pipeline, m = strategy_.grad_accum;
  std::int64_t device = 0;
  const StageTime& first = known.roles.front().time[i];
  const StageTime* slow = nullptr;     // the longest slot, without embeddings
  StageTime turn, slowest;             // forward and backward passes: of all ranks; the longest
  std::int64_t tail = 0;               // after the slots, of the rank that ends last
  const bool ends_joined = p > 1 && current_->ends.tied > 0 && strategy_.data_ranks() > 1;
  const auto slot = [](const StageTime& t) { return t.period() - t.embeddings; };
  auto figures = known.roles.begin();
  for (std::size_t r = 0; r < roles_.size(); ++r, ++figures) {
    const Role& role = roles_[r];
    const StageTime& time = figures->time[i];
    device = std::max(device, mixed_ == nullptr ? held_[r] + role.beside[i] + known.attention[i]
                                                : scaled(held_[r], role, known, i));
    if (slow == nullptr || slot(time) > slot(*slow)) slow = &time;
    // The last rank ends with the first one where both sum tied gradients.
    const bool waits = ends_joined && r + 1 == roles_.size();
    const std::int64_t sooner = waits ? turn.forward : turn.period();
    std::int64_t early = slack(strategy_, sooner);
    // With a norm of all gradients no rank updates before the last one has its gradients.
    if (norm())
      early = std::clamp<std::int64_t>(time.beside_periods() - time.begin - time.joined, 0, early);
    const std::int64_t own_tail = time.beside_periods() - early;
    tail = r == 0 ? own_tail : std::max(tail, own_tail);
    slowest.forward = std::max(slowest.forward, time.forward);
    slowest.backward = std::max(slowest.backward, time.backward);
    turn.forward += time.forward * role.times / role.parts;
    turn.backward += time.backward * role.times / role.parts;
    turn.weight_gradient += time.weight_gradient * role.times / role.parts;
  }
  if (plays()) return {core::Bytes(device), core::to_seconds(core::Picoseconds(played(known, i)))};
  std::int64_t passes = m * slot(*slow);
  if (!flushes(strategy_.schedule)) {
    passes = without_flush(known, i);
  } else if (strategy_.schedule == Schedule::one_f_one_b) {
    passes = in_turns(known, i) + message_waits(strategy_, slow->passes(), known.messages[i]);
  } else if (p > 1) {
    const PassTimes own = slow->passes();
    PassTimes all = turn.passes();
    if (slow != &first) all.forward -= first.embeddings;
    passes += bubble(strategy_, mean_of_others(all, own, p), ends_joined || norm());
    // The first group of micro-batches passes the embeddings, and the last one comes back to them,
    // while nobody else has anything to do.
    passes = std::max(passes + p * first.embeddings, m * first.period());
    passes += message_waits(strategy_, own, known.messages[i]);
  }
  // All forward passes, then all backward ones: each kind waits for its own slowest rank.
  if (schedule_def(strategy_.schedule).forwards_first)
    passes += (m - 1) * (slowest.period() - slow->period());
  return {core::Bytes(device), core::to_seconds(core::Picoseconds(passes + tail))};
}

}  // namespace planner::closed_form
