#pragma once
// Internal: one block of a scene, swept. When all its parties have come to a border, the block
// reports that, and they wait until the other blocks have reported too. Thread-compatible.

#include <algorithm>
#include <array>
#include <cstdint>
#include <utility>
#include <vector>

#include "core/call.hpp"
#include "sim/engine/borders.hpp"
#include "sim/engine/stamps.hpp"
#include "sim/engine/sweep.hpp"

namespace engine {

template <class S>
class SweepBlock {
 public:
  using Arrival = typename Borders<S>::Arrival;

  // accounts: of all actors.
  SweepBlock(const Scene& scene, const SweepOptions& options, const Blocks& blocks,
             const Block& block, std::vector<Account>& accounts)
      : scene_(scene), options_(options), block_(block), drains_(scene.draining_steps() > 0),
        meetings_(block.places.size()), turns_(scene.turn_counters(), 0) {
    const int steps = scene.steps_of(options.steps);
    std::size_t moments = 0;
    for (const std::uint32_t a : block.actors) {
      const Actor& actor = scene.actors()[a];
      const Timetable& table = scene.timetable(actor);
      resume_.push_back(static_cast<std::uint32_t>(players_.size()));
      players_.push_back({OperationCursor(table, steps), &actor, &table, blocks.seats(actor),
                          &accounts[a * static_cast<std::size_t>(steps)], a, {}, moments});
      moments += table.instances();
    }
    moments_.resize(moments);
  }

  // Plays all that can be known here. further: nothing moves by itself, look one operation further.
  void play(const Borders<S>& known, bool further) {
    core::stop_point();
    known_ = &known;
    arrivals_.clear();
    std::erase_if(waiting_, [&](const BorderWait& w) { return learn(w); });
    settle();
    moved_ = false;
    for (std::uint32_t p = 0; further && p < players_.size(); ++p) {
      if (players_[p].cursor.done()) continue;
      issue(p);
      moved_ = true;
    }
    settle();
  }

  // Somebody looked further in the latest play().
  bool moved() const { return moved_; }
  const std::vector<Arrival>& arrivals() const { return arrivals_; }
  std::size_t pending() const { return pending_; }
  std::uint64_t operations() const { return operations_; }
  const S& path_end() const { return path_end_; }
  const std::vector<Played>& record() const { return record_; }

 private:
  static constexpr int kStreams = program::kStreams;
  static constexpr auto kComputeStream = static_cast<std::size_t>(program::Stream::compute);
  static constexpr std::uint32_t kJoin = kAbsent;  // in place of an operation

  struct Moment {
    S stamp{};
    std::uint32_t pending = kAbsent;   // node that decides it
  };
  struct Player {
    OperationCursor cursor;
    const Actor* actor = nullptr;
    const Timetable* table = nullptr;
    const Seat* seats = nullptr;       // by point
    Account* accounts = nullptr;       // by step
    std::uint32_t id = 0;              // of the actor in the scene
    std::array<Moment, kStreams> tails{};
    std::size_t first_moment = 0;
    std::int64_t compute_done = 0;     // of its latest finished operation
    std::uint64_t issued = 0;
  };
  // An operation that waits.
  struct Node {
    std::uint32_t player = 0, operation = 0;
    int step = 0;
    std::int64_t micro_batch = 0, duration = 0;
    S ready{};                         // latest of what it waits for, as far as known
    int missing = 0;
    std::uint32_t waiters = kAbsent;   // edge: node * kStreams + place
    std::array<std::uint32_t, kStreams> next_waiter{};
    std::uint32_t next_here = kAbsent; // at the same meeting, or free
  };
  // A turn of a buffered channel.
  struct Turn {
    std::uint32_t posted = 0;
    S latest{};
    std::uint32_t waiting = kAbsent;   // nodes that collect
  };
  struct Meeting {
    std::uint32_t arrived = 0;
    S latest{};
    std::int64_t duration = 0;         // of a message: its sender's
    std::uint32_t here = kAbsent;
    std::vector<Turn> turns;
  };

  const Operation& operation(const Node& n) const {
    return players_[n.player].table->operation(n.operation);
  }
  const Seat& seat(const Player& p, const Operation& op) const { return p.seats[op.point]; }

  void settle() {
    while (!resume_.empty() || !ready_.empty()) {
      if (!ready_.empty()) {
        const std::uint32_t n = ready_.back();
        ready_.pop_back();
        proceed(n);
        continue;
      }
      const std::uint32_t player = resume_.back();
      resume_.pop_back();
      Player& p = players_[player];
      while (!p.cursor.done() && p.tails[kComputeStream].pending == kAbsent) issue(player);
    }
  }

  // Takes the actor's next operation, or joins its streams at the end of a step (without flush its
  // compute stream alone ends it: messages go on).
  void issue(std::uint32_t player) {
    Player& p = players_[player];
    if (p.cursor.at_join()) {
      issue_join(player);
      p.cursor.join();
      return;
    }
    const Timetable& table = *p.table;
    const Operation& op = p.cursor.operation();
    const std::int64_t micro_batch = p.cursor.micro_batch();
    Moment& tail = p.tails[static_cast<std::size_t>(op.stream)];
    Moment* signal = op.signal == kAbsent ? nullptr
                                          : &moment(p, table.signal(op.signal), micro_batch);
    std::array<Moment*, kMaxWaits + 1> after{&tail};
    std::size_t count = 1;
    for (std::uint32_t w = 0; w < op.wait_count; ++w)
      after[count++] = &moment(p, table.wait(op.first_wait + w), micro_batch);

    Node now{player, p.cursor.index(), p.cursor.step(), micro_batch,
             scene_.duration(*p.actor, op, p.issued++)};
    p.cursor.advance();
    bool known = op.point == program::kNone || seat(p, op).channel == kAbsent;
    for (std::size_t i = 0; i < count; ++i) {
      known = known && after[i]->pending == kAbsent;
      if (after[i]->pending == kAbsent) now.ready.keep_later(after[i]->stamp);
    }
    if (known) {
      const S end = finish(now, op, now.ready, now.duration);
      tail.stamp = end;
      if (signal != nullptr) *signal = {end, kAbsent};
      return;
    }
    const std::uint32_t n = keep(now);
    for (std::size_t i = 0; i < count; ++i) wait_for(n, i, *after[i]);
    tail.pending = n;
    if (signal != nullptr) signal->pending = n;
    if (nodes_[n].missing == 0) ready_.push_back(n);
  }

  void issue_join(std::uint32_t player) {
    Player& p = players_[player];
    const std::uint32_t n = keep({player, kJoin, p.cursor.step()});
    for (std::size_t s = 0; s < (drains_ ? kComputeStream + 1 : kStreams); ++s) {
      if (p.tails[s].pending == kAbsent) nodes_[n].ready.keep_later(p.tails[s].stamp);
      wait_for(n, s, p.tails[s]);
      p.tails[s].pending = n;
    }
    if (nodes_[n].missing == 0) ready_.push_back(n);
  }

  Moment& moment(Player& p, const Instance& instance, std::int64_t micro_batch) {
    return moments_[p.first_moment + instance.at(micro_batch)];
  }

  std::uint32_t keep(const Node& node) {
    ++pending_;
    if (free_ == kAbsent) {
      nodes_.push_back(node);
      return static_cast<std::uint32_t>(nodes_.size() - 1);
    }
    const std::uint32_t n = free_;
    free_ = nodes_[n].next_here;
    nodes_[n] = node;
    return n;
  }

  void wait_for(std::uint32_t n, std::size_t place, const Moment& moment) {
    if (moment.pending == kAbsent) return;
    Node& node = nodes_[n];
    Node& other = nodes_[moment.pending];
    ++node.missing;
    node.next_waiter[place] = other.waiters;
    other.waiters = n * kStreams + static_cast<std::uint32_t>(place);
  }

  // All that the node waits for on its own actor has happened.
  void proceed(std::uint32_t n) {
    const Node& node = nodes_[n];
    if (node.operation == kJoin) return complete_join(n);
    const Operation& op = operation(node);
    if (op.point == program::kNone) return complete(n, node.ready, node.duration);
    const Seat& at = seat(players_[node.player], op);
    if (at.channel == kAbsent) return complete(n, node.ready, node.duration);
    if (is_buffered(block_.places[at.channel].kind)) return take_turn(n, at);
    meet(n, at);
  }

  void meet(std::uint32_t n, const Seat& seat) {
    Meeting& m = meetings_[seat.channel];
    Node& node = nodes_[n];
    if (m.arrived == 0)
      m.latest = node.ready;
    else
      m.latest.keep_later(node.ready);
    if (seat.times) m.duration = node.duration;
    node.next_here = m.here;
    m.here = n;
    const Place& place = block_.places[seat.channel];
    if (++m.arrived < place.parties) return;
    m.arrived = 0;
    if (place.border == kAbsent) return hold(seat.channel, S(m.latest), m.duration);
    arrivals_.push_back({place.border, m.latest});
    waiting_.push_back({seat.channel, (*known_)[place.border].held});
  }

  // message: how long it takes, where it is one.
  void hold(std::uint32_t place, const S& start, std::int64_t message) {
    std::uint32_t party = std::exchange(meetings_[place].here, kAbsent);
    const bool shared = block_.places[place].kind == ChannelKind::message;
    while (party != kAbsent) {
      const std::uint32_t next = nodes_[party].next_here;
      complete(party, start, shared ? message : nodes_[party].duration);
      party = next;
    }
  }

  // True where the meeting has been held since.
  bool learn(const BorderWait& w) {
    const typename Borders<S>::Known& k = (*known_)[block_.places[w.place].border];
    if (k.held == w.held) return false;
    hold(w.place, k.start, 0);
    return true;
  }

  void take_turn(std::uint32_t n, const Seat& seat) {
    const std::uint32_t parties = block_.places[seat.channel].parties;
    std::vector<Turn>& turns = meetings_[seat.channel].turns;
    const std::size_t index = turns_[seat.turn_counter]++;
    if (turns.size() <= index) turns.resize(index + 1);
    Turn& turn = turns[index];
    Node& node = nodes_[n];
    const std::int64_t duration = node.duration;
    if (!seat.posts) {
      if (turn.posted == parties) return collect(n, turn.latest);
      node.next_here = turn.waiting;
      turn.waiting = n;
      return;
    }
    if (turn.posted == 0)
      turn.latest = node.ready;
    else
      turn.latest.keep_later(node.ready);
    const bool last = ++turn.posted == parties;
    const S latest = turn.latest;
    std::uint32_t waiting = last ? std::exchange(turn.waiting, kAbsent) : kAbsent;
    complete(n, S(node.ready), duration);
    while (waiting != kAbsent) {
      const std::uint32_t next = nodes_[waiting].next_here;
      collect(waiting, latest);
      waiting = next;
    }
  }
  void collect(std::uint32_t n, const S& posted) {
    const Node& node = nodes_[n];
    complete(n, posted.time > node.ready.time ? posted : S(node.ready), node.duration);
  }

  // The operation starts at `start`, which is not before it is ready.
  void complete(std::uint32_t n, const S& start, std::int64_t duration) {
    const Node node = nodes_[n];
    const Operation& op = operation(node);
    const S end = finish(node, op, start, duration);
    Player& p = players_[node.player];
    Moment& tail = p.tails[static_cast<std::size_t>(op.stream)];
    if (tail.pending == n) {
      tail = {end, kAbsent};
      if (op.stream == program::Stream::compute) resume_.push_back(node.player);
    }
    if (op.signal != kAbsent) {
      const Timetable& table = *p.table;
      Moment& signal = moment(p, table.signal(op.signal), node.micro_batch);
      if (signal.pending == n) signal = {end, kAbsent};
    }
    wake(node.waiters, end);
    release(n);
  }

  void complete_join(std::uint32_t n) {
    const Node node = nodes_[n];
    Player& p = players_[node.player];
    Account& account = p.accounts[node.step];
    account.finish = node.ready.time;
    const Span span{0, 0, 0, node.ready.missing_from, node.ready.missing_to};
    account.bubble += missing_time(span, p.compute_done, node.ready.time);
    p.compute_done = node.ready.time;
    if (node.step == 0) path_end_.keep_later(node.ready);
    for (Moment& tail : p.tails)
      if (tail.pending == n) tail = {node.ready, kAbsent};
    resume_.push_back(node.player);
    wake(node.waiters, node.ready);
    release(n);
  }

  void wake(std::uint32_t edge, const S& end) {
    while (edge != kAbsent) {
      Node& waiter = nodes_[edge / kStreams];
      waiter.ready.keep_later(end);
      const std::uint32_t next = waiter.next_waiter[edge % kStreams];
      if (--waiter.missing == 0) ready_.push_back(edge / kStreams);
      edge = next;
    }
  }
  void release(std::uint32_t n) {
    nodes_[n].next_here = free_;
    free_ = n;
    --pending_;
  }

  // Accounts for an operation that is ready at node.ready and begins at start.
  S finish(const Node& node, const Operation& op, const S& start, std::int64_t duration) {
    S end = start;
    const bool waited = start.time > node.ready.time;
    end.missing_from = waited ? node.ready.time : node.ready.missing_from;
    end.missing_to = waited ? start.time : node.ready.missing_to;
    Player& p = players_[node.player];
    end.spend(path_kind(*p.table, op), duration);
    const bool counts = op.point == program::kNone || seat(p, op).times;
    enter(p.accounts[node.step], op,
          {node.ready.time, start.time, end.time, node.ready.missing_from, node.ready.missing_to},
          counts, p.compute_done);
    ++operations_;
    if (options_.record != nullptr && (node.step == 0 || drains_) &&
        (options_.record_actor == kAbsent || options_.record_actor == p.id))
      record_.push_back({p.id, node.operation, node.micro_batch, start.time, end.time});
    return end;
  }

  const Scene& scene_;
  const SweepOptions& options_;
  const Block& block_;
  const bool drains_;
  std::vector<Player> players_;
  std::vector<Moment> moments_;        // of every actor's event instances
  std::vector<Meeting> meetings_;
  std::vector<std::uint32_t> turns_;   // taken so far, by turn counter
  std::vector<Node> nodes_;
  std::uint32_t free_ = kAbsent;
  std::size_t pending_ = 0;
  std::vector<std::uint32_t> ready_;   // nodes to proceed with
  std::vector<std::uint32_t> resume_;  // players to go on issuing
  S path_end_{};
  std::uint64_t operations_ = 0;
  std::vector<Played> record_;
  bool moved_ = false;
  const Borders<S>* known_ = nullptr;  // during play()
  std::vector<BorderWait> waiting_;
  std::vector<Arrival> arrivals_;
};

}  // namespace engine
