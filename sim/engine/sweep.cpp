#include "sim/engine/sweep.hpp"

#include <algorithm>
#include <tuple>

#include "core/call.hpp"
#include "core/check.hpp"

namespace engine {
namespace {

constexpr int kStreams = program::kStreams;
constexpr auto kComputeStream = static_cast<std::size_t>(program::Stream::compute);
constexpr std::uint32_t kJoin = kAbsent;   // in place of an operation

// When something is done, and while which of its time a party was missing last.
struct Stamp {
  std::int64_t time = 0;
  std::int64_t missing_from = 0, missing_to = 0;
  void spend(std::size_t, std::int64_t duration) { time += duration; }
};
// With what the chain that led there was made of.
struct PathStamp : Stamp {
  PathTimes spent{};
  void spend(std::size_t kind, std::int64_t duration) {
    time += duration;
    spent[kind] += duration;
  }
};

template <class S>
class Sweep {
 public:
  Sweep(const Scene& scene, const SweepOptions& options)
      : scene_(scene), options_(options), drains_(scene.draining_steps() > 0) {
    options_.steps = scene.steps_of(options.steps);
    outcome_.steps = options_.steps;
    outcome_.accounted = options_.steps - 1 - scene.draining_steps();
    outcome_.accounts.resize(scene.actors().size() * static_cast<std::size_t>(options_.steps));
    std::size_t moments = 0;
    for (const Actor& actor : scene.actors()) {
      players_.push_back({OperationCursor(scene.timetable(actor), options_.steps), {}, moments});
      moments += scene.timetable(actor).instances();
    }
    moments_.resize(moments);
    meetings_.resize(scene.channels().size());
    turns_.resize(scene.turn_counters(), 0);
  }

  Outcome run() {
    for (std::uint32_t a = 0; a < players_.size(); ++a) resume_.push_back(a);
    while (true) {
      core::stop_point();
      settle();
      bool moved = false;              // nothing moves by itself: look one operation further
      for (std::uint32_t a = 0; a < players_.size(); ++a) {
        if (players_[a].cursor.done()) continue;
        issue(a);
        moved = true;
      }
      if (!moved) break;
    }
    PLANNER_CHECK(pending_ == 0, "a deadlock in a program that was checked");
    find_path();
    return std::move(outcome_);
  }

 private:
  struct Moment {
    S stamp{};
    std::uint32_t pending = kAbsent;   // node that decides it
  };
  struct Player {
    OperationCursor cursor;
    std::array<Moment, kStreams> tails{};
    std::size_t first_moment = 0;
    std::int64_t compute_done = 0;     // of its latest finished operation
    std::uint64_t issued = 0;
  };
  // An operation that waits.
  struct Node {
    std::uint32_t actor = 0, operation = 0;
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

  const Actor& actor(std::uint32_t a) const { return scene_.actors()[a]; }
  const Operation& operation(const Node& n) const {
    return scene_.timetable(actor(n.actor)).operation(n.operation);
  }
  Account& account(std::uint32_t a, int step) {
    return outcome_.accounts[a * static_cast<std::size_t>(options_.steps) +
                             static_cast<std::size_t>(step)];
  }
  // Of equal times the one that tells most of missing parties, whatever the order of asking.
  static void keep_later(S& a, const S& b) {
    if (std::tie(b.time, b.missing_to, b.missing_from) >
        std::tie(a.time, a.missing_to, a.missing_from))
      a = b;
  }

  void settle() {
    while (!resume_.empty() || !ready_.empty()) {
      if (!ready_.empty()) {
        const std::uint32_t n = ready_.back();
        ready_.pop_back();
        proceed(n);
        continue;
      }
      const std::uint32_t a = resume_.back();
      resume_.pop_back();
      Player& p = players_[a];
      while (!p.cursor.done() && p.tails[kComputeStream].pending == kAbsent) issue(a);
    }
  }

  // Takes the actor's next operation, or joins its streams at the end of a step (without flush its
  // compute stream alone ends it: messages go on).
  void issue(std::uint32_t a) {
    Player& p = players_[a];
    if (p.cursor.at_join()) {
      issue_join(a);
      p.cursor.join();
      return;
    }
    const Timetable& table = scene_.timetable(actor(a));
    const Operation& op = p.cursor.operation();
    const std::int64_t micro_batch = p.cursor.micro_batch();
    Moment& tail = p.tails[static_cast<std::size_t>(op.stream)];
    Moment* signal = op.signal == kAbsent ? nullptr
                                          : &moment(p, table.signal(op.signal), micro_batch);
    std::array<Moment*, kMaxWaits + 1> after{&tail};
    std::size_t count = 1;
    for (std::uint32_t w = 0; w < op.wait_count; ++w)
      after[count++] = &moment(p, table.wait(op.first_wait + w), micro_batch);

    Node now{a, p.cursor.index(), p.cursor.step(), micro_batch,
             scene_.duration(actor(a), op, p.issued++)};
    p.cursor.advance();
    bool known = op.point == program::kNone || scene_.seat(actor(a), op).channel == kAbsent;
    for (std::size_t i = 0; i < count; ++i) {
      known = known && after[i]->pending == kAbsent;
      if (after[i]->pending == kAbsent) keep_later(now.ready, after[i]->stamp);
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

  void issue_join(std::uint32_t a) {
    Player& p = players_[a];
    const std::uint32_t n = keep({a, kJoin, p.cursor.step()});
    for (std::size_t s = 0; s < (drains_ ? kComputeStream + 1 : kStreams); ++s) {
      if (p.tails[s].pending == kAbsent) keep_later(nodes_[n].ready, p.tails[s].stamp);
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
    const Seat& seat = scene_.seat(actor(node.actor), op);
    if (seat.channel == kAbsent) return complete(n, node.ready, node.duration);
    const Channel& channel = scene_.channels()[seat.channel];
    if (channel.kind == ChannelKind::push || channel.kind == ChannelKind::pull)
      return take_turn(n, seat, channel);
    meet(n, seat, channel);
  }

  void meet(std::uint32_t n, const Seat& seat, const Channel& channel) {
    Meeting& m = meetings_[seat.channel];
    Node& node = nodes_[n];
    if (m.arrived == 0 || node.ready.time > m.latest.time) m.latest = node.ready;
    if (seat.times) m.duration = node.duration;
    node.next_here = m.here;
    m.here = n;
    if (++m.arrived < channel.parties) return;
    std::uint32_t party = m.here;
    const S start = m.latest;
    const std::int64_t message = m.duration;
    m.arrived = 0;
    m.here = kAbsent;
    while (party != kAbsent) {
      const std::uint32_t next = nodes_[party].next_here;
      const bool shared = channel.kind == ChannelKind::message;
      complete(party, start, shared ? message : nodes_[party].duration);
      party = next;
    }
  }

  void take_turn(std::uint32_t n, const Seat& seat, const Channel& channel) {
    std::vector<Turn>& turns = meetings_[seat.channel].turns;
    const std::size_t index = turns_[seat.turn_counter]++;
    if (turns.size() <= index) turns.resize(index + 1);
    Turn& turn = turns[index];
    Node& node = nodes_[n];
    const std::int64_t duration = node.duration;
    if (!seat.posts) {
      if (turn.posted == channel.parties) return collect(n, turn.latest);
      node.next_here = turn.waiting;
      turn.waiting = n;
      return;
    }
    if (turn.posted == 0 || node.ready.time > turn.latest.time) turn.latest = node.ready;
    const bool last = ++turn.posted == channel.parties;
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
    Player& p = players_[node.actor];
    Moment& tail = p.tails[static_cast<std::size_t>(op.stream)];
    if (tail.pending == n) {
      tail = {end, kAbsent};
      if (op.stream == program::Stream::compute) resume_.push_back(node.actor);
    }
    if (op.signal != kAbsent) {
      const Timetable& table = scene_.timetable(actor(node.actor));
      Moment& signal = moment(p, table.signal(op.signal), node.micro_batch);
      if (signal.pending == n) signal = {end, kAbsent};
    }
    wake(node.waiters, end);
    release(n);
  }

  void complete_join(std::uint32_t n) {
    const Node node = nodes_[n];
    Player& p = players_[node.actor];
    Account& account_of = account(node.actor, node.step);
    account_of.finish = node.ready.time;
    const Span span{0, 0, 0, node.ready.missing_from, node.ready.missing_to};
    account_of.bubble += missing_time(span, p.compute_done, node.ready.time);
    p.compute_done = node.ready.time;
    if (node.step == 0) note_end(node.ready);
    for (Moment& tail : p.tails)
      if (tail.pending == n) tail = {node.ready, kAbsent};
    resume_.push_back(node.actor);
    wake(node.waiters, node.ready);
    release(n);
  }

  void wake(std::uint32_t edge, const S& end) {
    while (edge != kAbsent) {
      Node& waiter = nodes_[edge / kStreams];
      keep_later(waiter.ready, end);
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
    end.spend(path_kind(scene_.timetable(actor(node.actor)), op), duration);
    enter(account(node.actor, node.step), op,
          {node.ready.time, start.time, end.time, node.ready.missing_from, node.ready.missing_to},
          counts(node.actor, op), players_[node.actor].compute_done);
    ++outcome_.operations;
    if (options_.record != nullptr && (node.step == 0 || drains_) &&
        (options_.record_actor == kAbsent || options_.record_actor == node.actor))
      options_.record->push_back(
          {node.actor, node.operation, node.micro_batch, start.time, end.time});
    return end;
  }

  bool counts(std::uint32_t a, const Operation& op) const {
    return op.point == program::kNone || scene_.seat(actor(a), op).times;
  }

  void note_end(const S& end) {
    if (end.time > path_end_.time) path_end_ = end;
  }
  void find_path() {
    if constexpr (std::is_same_v<S, PathStamp>) outcome_.critical_path = path_end_.spent;
  }

  const Scene& scene_;
  SweepOptions options_;
  const bool drains_;
  Outcome outcome_;
  std::vector<Player> players_;
  std::vector<Moment> moments_;        // of every actor's event instances
  std::vector<Meeting> meetings_;
  std::vector<std::uint32_t> turns_;   // taken so far, by turn counter
  std::vector<Node> nodes_;
  std::uint32_t free_ = kAbsent;
  std::size_t pending_ = 0;
  std::vector<std::uint32_t> ready_;   // nodes to proceed with
  std::vector<std::uint32_t> resume_;  // actors to go on issuing
  S path_end_{};
};

}  // namespace

Outcome sweep(const Scene& scene, const SweepOptions& options) {
  PLANNER_CHECK(options.steps >= 1);
  if (options.critical_path) return Sweep<PathStamp>(scene, options).run();
  return Sweep<Stamp>(scene, options).run();
}

}  // namespace engine
