#include "planner/evaluate/pipeline_play.hpp"

#include <algorithm>
#include <array>

#include "core/check.hpp"

namespace planner {
namespace {

using program::Pass;
using program::PassKind;

constexpr std::int64_t kNever = -1;

bool is_backward(const Pass& pass) { return pass.kind != PassKind::forward; }

// Streams of messages of a rank, in the order of its passes. By kind: of forward and of backward
// passes.
struct Lane {
  program::Passes sends, receives;
  std::int64_t sending_until = 0, receiving_until = 0;
  std::array<std::int64_t, 2> place_free{};
  std::array<bool, 2> landed{};        // a message waits where it landed
};

// One rank as it goes through its passes.
struct Player {
  program::Passes passes;
  std::array<Lane, 2> lanes;           // of the arms of a V; else the first alone
  std::int64_t now = 0, began = kNever;
  // Of each chunk, what its last pass sent: when it was gone, kNever: it is still to go.
  std::array<std::vector<std::int64_t>, 2> sent{};
};

class Play {
 public:
  Play(std::span<const program::Schedule> ranks, std::span<const PassTimes> chunks,
       std::span<const std::int64_t> links)
      : ranks_(ranks), chunks_(chunks), links_(links), p_(static_cast<int>(ranks.size())),
        places_(p_ * ranks.front().chunks), m_(ranks.front().micro_batches),
        late_(ranks.back().warm_up == m_ && m_ > 1) {
    for (const program::Schedule& s : ranks) {
      const Lane lane{program::Passes(s), program::Passes(s)};
      players_.push_back({program::Passes(s), {lane, lane}});
      for (auto& of_kind : players_.back().sent)
        of_kind.assign(static_cast<std::size_t>(s.chunks), 0);
    }
    const auto all = static_cast<std::size_t>(places_) * static_cast<std::size_t>(m_);
    for (auto* times : {&done_, &there_})
      for (auto& of_kind : *times) of_kind.assign(all, kNever);
  }

  std::vector<PassSpan> run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int r = 0; r < p_; ++r)
        while (send(r, 0) || (folded() && send(r, 1)) || step(r)) moved = true;
    }
    std::vector<PassSpan> spans;
    for (const Player& player : players_) {
      PLANNER_CHECK(player.passes.done(), "a schedule that waits for itself");
      spans.push_back({player.began, player.now});
    }
    return spans;
  }

 private:
  using Times = std::array<std::vector<std::int64_t>, 2>;

  bool folded() const { return ranks_.front().order == program::Order::v_shape; }
  int place(int rank, int chunk) const {
    return folded() && chunk == 1 ? 2 * p_ - 1 - rank : chunk * p_ + rank;
  }
  int rank_of(int place) const {
    return folded() && place >= p_ ? 2 * p_ - 1 - place : place % p_;
  }
  std::int64_t& at(Times& times, const Pass& pass, int place) {
    return times[is_backward(pass)][static_cast<std::size_t>(place * m_ + pass.micro_batch)];
  }
  // The place that a pass's output goes to, or its input comes from; -1: none, or its own rank.
  int neighbour(int rank, const Pass& pass, bool output) const {
    if (pass.kind == PassKind::weight_gradient) return -1;
    const int own = place(rank, pass.chunk);
    const int other = is_backward(pass) == output ? own - 1 : own + 1;
    return other < 0 || other >= places_ || rank_of(other) == rank ? -1 : other;
  }
  std::int64_t duration(int rank, const Pass& pass) const {
    const int chunk = rank * ranks_.front().chunks + pass.chunk;
    const PassTimes& t = chunks_[static_cast<std::size_t>(chunk)];
    switch (pass.kind) {
      case PassKind::forward: return t.forward;
      case PassKind::input_gradient: return t.input_gradient;
      case PassKind::weight_gradient: return t.weight_gradient;
      default: return t.input_gradient + t.weight_gradient;
    }
  }
  std::int64_t link(int from, int to) const {
    const bool wraps = p_ > 2 && std::abs(from - to) == p_ - 1;
    return links_[static_cast<std::size_t>(wraps ? p_ - 1 : std::min(from, to))];
  }

  std::size_t lane_of(const Pass& pass) const {
    return folded() ? static_cast<std::size_t>(pass.chunk) : 0;
  }
  // Goes on to the next pass that sends (or receives) on a lane; false: there is none.
  bool settle(program::Passes& passes, int rank, std::size_t lane, bool output) const {
    while (!passes.done() && (lane_of(passes.pass()) != lane ||
                              neighbour(rank, passes.pass(), output) < 0))
      passes.advance();
    return !passes.done();
  }

  // The rank's next message on a lane, when it is known to go out.
  bool send(int r, std::size_t lane) {
    Player& sender = players_[static_cast<std::size_t>(r)];
    Lane& from = sender.lanes[lane];
    if (!settle(from.sends, r, lane, true)) return false;
    const Pass pass = from.sends.pass();
    const int target = neighbour(r, pass, true), peer = rank_of(target);
    const std::int64_t ready = at(done_, pass, place(r, pass.chunk));
    Lane& to = players_[static_cast<std::size_t>(peer)].lanes[lane];
    const std::size_t kind = is_backward(pass);
    const bool awaited = settle(to.receives, peer, lane, false) &&
                         is_backward(to.receives.pass()) == (kind == 1) &&
                         place(peer, to.receives.pass().chunk) == target &&
                         to.receives.pass().micro_batch == pass.micro_batch;
    if (ready == kNever || !awaited || to.landed[kind]) return false;
    const std::int64_t begin =
        std::max({ready, from.sending_until, to.receiving_until, to.place_free[kind]});
    const std::int64_t end = begin + link(r, peer);
    from.sending_until = to.receiving_until = at(there_, pass, target) = end;
    sender.sent[kind][static_cast<std::size_t>(pass.chunk)] = end;
    to.landed[kind] = true;
    from.sends.advance();
    to.receives.advance();
    return true;
  }

  // When the pass's input is there, kNever: not yet. Weight gradients follow on their own rank.
  std::int64_t ready(int r, const Pass& pass) {
    if (pass.kind == PassKind::weight_gradient) return 0;
    if (neighbour(r, pass, false) >= 0) return at(there_, pass, place(r, pass.chunk));
    const int before = place(r, pass.chunk) + (is_backward(pass) ? 1 : -1);
    return before < 0 || before >= places_ ? 0 : at(done_, pass, before);
  }

  bool step(int r) {
    Player& player = players_[static_cast<std::size_t>(r)];
    if (player.passes.done()) return false;
    const Pass pass = player.passes.pass();
    const std::int64_t from = ready(r, pass);
    const std::size_t kind = is_backward(pass);
    const bool sends = neighbour(r, pass, true) >= 0;
    std::int64_t& sent = player.sent[kind][static_cast<std::size_t>(pass.chunk)];
    const std::int64_t gone = sends ? sent : 0;
    if (from == kNever || gone == kNever) return false;
    player.now = std::max({player.now, from, late_ ? 0 : gone});
    if (player.began == kNever) player.began = player.now;
    if (neighbour(r, pass, false) >= 0) {
      Lane& lane = player.lanes[lane_of(pass)];
      lane.landed[kind] = false;
      lane.place_free[kind] = player.now;
    }
    player.now = std::max(player.now + duration(r, pass), late_ ? gone : 0);
    if (pass.kind != PassKind::weight_gradient) at(done_, pass, place(r, pass.chunk)) = player.now;
    if (sends) sent = kNever;
    player.passes.advance();
    return true;
  }

  const std::span<const program::Schedule> ranks_;
  const std::span<const PassTimes> chunks_;
  const std::span<const std::int64_t> links_;
  const int p_, places_;
  const std::int64_t m_;
  const bool late_;                    // what was sent goes after the next pass (gpipe)
  std::vector<Player> players_;
  Times done_, there_;                 // by place and micro-batch: computed; its input arrived
};

}  // namespace

std::vector<PassSpan> played_spans(std::span<const program::Schedule> ranks,
                                   std::span<const PassTimes> chunks,
                                   std::span<const std::int64_t> links) {
  return Play(ranks, chunks, links).run();
}

void join_all(std::span<PassSpan> ranks) {
  const auto end = [](const PassSpan& span) { return span.end; };
  const std::int64_t last = std::ranges::max(ranks, {}, end).end;
  for (PassSpan& span : ranks) span = {0, last};
}

Idle played_idle(const std::vector<program::Schedule>& ranks, const PassTimes& chunk,
                 std::int64_t message) {
  const auto all = static_cast<std::size_t>(ranks.front().chunks) * ranks.size();
  const std::vector<PassTimes> chunks(all, chunk);
  const std::vector<std::int64_t> links(ranks.size(), message);
  const std::int64_t busy = ranks.front().micro_batches * ranks.front().chunks * chunk.sum();
  Idle idle;
  for (const PassSpan& span : played_spans(ranks, chunks, links)) {
    idle.makespan = std::max(idle.makespan, span.end - busy);
    idle.period = std::max(idle.period, span.end - span.begin - busy);
  }
  return idle;
}

}  // namespace planner
