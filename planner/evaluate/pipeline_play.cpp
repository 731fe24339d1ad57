#include "planner/evaluate/pipeline_play.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "core/check.hpp"

namespace planner {

using program::Pass;
using program::PassKind;

namespace {

using Instant = std::uint32_t;

// A chunk's passes, in the order of their durations (RecordedPasses::Event::took).
enum class Took : std::uint32_t { forward, input_gradient, weight_gradient, backward };
constexpr std::uint32_t kDurations = 4;

bool is_backward(const Pass& pass) { return pass.kind != PassKind::forward; }

Took took_by(PassKind kind) {
  switch (kind) {
    case PassKind::forward: return Took::forward;
    case PassKind::input_gradient: return Took::input_gradient;
    case PassKind::weight_gradient: return Took::weight_gradient;
    default: return Took::backward;
  }
}

// Streams of messages of a rank, in the order of its passes. By kind: of forward and of backward
// passes.
struct Lane {
  program::Passes sends, receives;
  Instant sending = 0, receiving = 0;  // until when
  std::array<Instant, 2> place_free{}, there{};  // where messages land; when the one there came
  std::array<bool, 2> landed{};        // a message waits where it landed
};

// One rank as it goes through its passes.
struct Player {
  program::Passes passes;
  std::array<Lane, 2> lanes;           // of the arms of a V; else the first alone
  Instant now = 0, began = 0;
  // Of each chunk, by kind, its last pass: when it was done, and what it sent was gone.
  struct Output {
    Instant done = 0, sent = 0;
    std::int64_t to_send = -1;         // the micro-batch whose message is still to go; -1: none
  };
  std::array<std::vector<Output>, 2> outputs{};
};

}  // namespace

class PassRecorder {
 public:
  PassRecorder(std::span<const program::RankSchedule> ranks, RecordedPasses& recorded)
      : ranks_(ranks), recorded_(recorded), p_(static_cast<int>(ranks.size())),
        places_(p_ * ranks.front().chunks), m_(ranks.front().micro_batches),
        late_(ranks.back().order == program::Order::straight && ranks.back().warm_up == m_ &&
              m_ > 1) {
    recorded_.chunks_ = static_cast<std::size_t>(ranks.front().chunks);
    for (const program::RankSchedule& s : ranks) {
      const Lane lane{program::Passes(s), program::Passes(s)};
      Player& player = players_.emplace_back(Player{program::Passes(s), {lane, lane}});
      for (Lane& of : player.lanes) {
        of.sending = instant(), of.receiving = instant();
        of.place_free = {instant(), instant()};
        of.there = {instant(), instant()};
      }
      player.now = instant(), player.began = instant();
      for (auto& of_kind : player.outputs)
        for (int c = 0; c < s.chunks; ++c) of_kind.push_back({instant(), instant(), -1});
      recorded_.now_.push_back(player.now);
      recorded_.began_.push_back(player.began);
    }
  }

  void run() {
    bool moved = true;
    while (moved) {
      moved = false;
      for (int r = 0; r < p_; ++r)
        while (send(r, 0) || (folded() && send(r, 1)) || step(r)) moved = true;
    }
    for (const Player& player : players_)
      PLANNER_CHECK(player.passes.done(), "a schedule that waits for itself");
  }

 private:
  using Event = RecordedPasses::Event;

  Instant instant() { return static_cast<Instant>(recorded_.instants_++); }
  bool folded() const { return ranks_.front().order == program::Order::v_shape; }
  int place(int rank, int chunk) const {
    return folded() && chunk == 1 ? 2 * p_ - 1 - rank : chunk * p_ + rank;
  }
  int rank_of(int place) const {
    return folded() && place >= p_ ? 2 * p_ - 1 - place : place % p_;
  }
  // The place that a pass's output goes to, or its input comes from; -1: none, or its own rank.
  int neighbour(int rank, const Pass& pass, bool output) const {
    if (pass.kind == PassKind::weight_gradient) return -1;
    const int own = place(rank, pass.chunk);
    const int other = is_backward(pass) == output ? own - 1 : own + 1;
    return other < 0 || other >= places_ || rank_of(other) == rank ? -1 : other;
  }
  std::uint32_t duration(int rank, const Pass& pass) const {
    const int chunk = rank * ranks_.front().chunks + pass.chunk;
    return static_cast<std::uint32_t>(chunk) * kDurations +
           static_cast<std::uint32_t>(took_by(pass.kind));
  }
  // Behind the durations of all chunks.
  std::uint32_t link(int from, int to) const {
    const bool wraps = p_ > 2 && std::abs(from - to) == p_ - 1;
    return static_cast<std::uint32_t>(places_) * kDurations +
           static_cast<std::uint32_t>(wraps ? p_ - 1 : std::min(from, to));
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
    Lane& to = players_[static_cast<std::size_t>(peer)].lanes[lane];
    const std::size_t kind = is_backward(pass);
    const bool awaited = settle(to.receives, peer, lane, false) &&
                         is_backward(to.receives.pass()) == (kind == 1) &&
                         place(peer, to.receives.pass().chunk) == target &&
                         to.receives.pass().micro_batch == pass.micro_batch;
    Player::Output& output = sender.outputs[kind][static_cast<std::size_t>(pass.chunk)];
    if (output.to_send != pass.micro_batch || !awaited || to.landed[kind]) return false;
    recorded_.events_.push_back(
        {.after = {output.done, from.sending, to.receiving, to.place_free[kind]},
         .ends = {from.sending, to.receiving, to.there[kind], output.sent},
         .took = link(r, peer)});
    output.to_send = -1;
    to.landed[kind] = true;
    from.sends.advance();
    to.receives.advance();
    return true;
  }

  // What a pass hands to the next place on its own rank, by kind, place and micro-batch.
  struct Handed {
    std::size_t kind = 0;
    int place = 0;
    std::int64_t micro_batch = 0;
    auto operator<=>(const Handed&) const = default;
  };

  // When the pass's input is there; nothing: not yet. Weight gradients follow on their own rank.
  std::optional<Instant> ready(int r, const Pass& pass) {
    if (pass.kind == PassKind::weight_gradient) return RecordedPasses::kStart;
    const std::size_t kind = is_backward(pass);
    const Player& player = players_[static_cast<std::size_t>(r)];
    const int own = place(r, pass.chunk);
    if (neighbour(r, pass, false) >= 0) {
      const Lane& lane = player.lanes[lane_of(pass)];
      if (!lane.landed[kind]) return std::nullopt;
      return lane.there[kind];
    }
    const int before = own + (is_backward(pass) ? 1 : -1);
    if (before < 0 || before >= places_) return RecordedPasses::kStart;
    const auto at = handed_.find({kind, before, pass.micro_batch});
    if (at == handed_.end()) return std::nullopt;
    const Instant done = at->second;
    handed_.erase(at);
    return done;
  }

  // Where the pass's output is known to be done: for a message, or for the next place on the rank.
  Instant output_of(int r, const Pass& pass, bool sends, Player::Output& output) {
    if (pass.kind == PassKind::weight_gradient) return RecordedPasses::kNowhere;
    if (sends) {
      output.to_send = pass.micro_batch;
      return output.done;
    }
    const int own = place(r, pass.chunk), next = own + (is_backward(pass) ? -1 : 1);
    if (next < 0 || next >= places_) return RecordedPasses::kNowhere;
    return handed_[{is_backward(pass), own, pass.micro_batch}] = instant();
  }

  bool step(int r) {
    Player& player = players_[static_cast<std::size_t>(r)];
    if (player.passes.done()) return false;
    const Pass pass = player.passes.pass();
    const std::size_t kind = is_backward(pass);
    const bool sends = neighbour(r, pass, true) >= 0;
    Player::Output& output = player.outputs[kind][static_cast<std::size_t>(pass.chunk)];
    if (sends && output.to_send >= 0) return false;
    const std::optional<Instant> input = ready(r, pass);
    if (!input) return false;
    const Instant gone = sends ? output.sent : RecordedPasses::kStart;
    Event event{.after = {player.now, *input, late_ ? RecordedPasses::kStart : gone},
                .until = late_ ? gone : RecordedPasses::kStart};
    if (began_.insert(r).second) {     // an event without duration keeps when the rank begins
      Event& first = recorded_.events_.emplace_back(event);
      first.until = RecordedPasses::kStart;
      first.begins = player.began;
      first.took = link(0, 0) + static_cast<std::uint32_t>(p_);  // nothing
    }
    if (neighbour(r, pass, false) >= 0) {
      Lane& lane = player.lanes[lane_of(pass)];
      lane.landed[kind] = false;
      event.begins = lane.place_free[kind];
    }
    event.took = duration(r, pass);
    event.ends[0] = player.now;
    event.ends[1] = output_of(r, pass, sends, output);
    recorded_.events_.push_back(event);
    player.passes.advance();
    return true;
  }

  const std::span<const program::RankSchedule> ranks_;
  RecordedPasses& recorded_;
  const int p_, places_;
  const std::int64_t m_;
  const bool late_;                    // what was sent goes after the next pass (gpipe)
  std::vector<Player> players_;
  std::map<Handed, Instant> handed_;
  std::set<int> began_;                // ranks
};

RecordedPasses::RecordedPasses(std::span<const program::RankSchedule> ranks) {
  PassRecorder(ranks, *this).run();
}

std::vector<PassSpan> RecordedPasses::spans(std::span<const PassTimes> chunks,
                                            std::span<const std::int64_t> links) const {
  PLANNER_CHECK(chunks.size() == now_.size() * chunks_ && links.size() == now_.size());
  std::vector<std::int64_t> durations, at(instants_, 0);
  durations.reserve(chunks.size() * kDurations + links.size() + 1);
  for (const PassTimes& c : chunks)
    durations.insert(durations.end(), {c.forward, c.input_gradient, c.weight_gradient,
                                       c.input_gradient + c.weight_gradient});
  durations.insert(durations.end(), links.begin(), links.end());
  durations.push_back(0);
  for (const Event& e : events_) {
    const std::int64_t begin = std::max(std::max(at[e.after[0]], at[e.after[1]]),
                                        std::max(at[e.after[2]], at[e.after[3]]));
    const std::int64_t end = std::max(begin + durations[e.took], at[e.until]);
    at[e.begins] = begin;
    for (const Instant instant : e.ends) at[instant] = end;
  }
  std::vector<PassSpan> spans;
  for (std::size_t r = 0; r < now_.size(); ++r) spans.push_back({at[began_[r]], at[now_[r]]});
  return spans;
}

std::vector<PassSpan> played_spans(std::span<const program::RankSchedule> ranks,
                                   std::span<const PassTimes> chunks,
                                   std::span<const std::int64_t> links) {
  return RecordedPasses(ranks).spans(chunks, links);
}

void join_all(std::span<PassSpan> ranks) {
  const auto end = [](const PassSpan& span) { return span.end; };
  const std::int64_t last = std::ranges::max(ranks, {}, end).end;
  for (PassSpan& span : ranks) span = {0, last};
}

Idle played_idle(const std::vector<program::RankSchedule>& ranks, const PassTimes& chunk,
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
