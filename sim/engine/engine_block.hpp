#pragma once
// Internal: one block of a scene, played event by event. Pending ends of operations wait in the
// block's own queue. When all its parties have come to a border, the block reports that and goes
// on. It stops before the first moment at which the meeting there can end. Thread-compatible.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/call.hpp"
#include "sim/engine/engine.hpp"
#include "sim/engine/engine_parts.hpp"
#include "sim/engine/event_queue.hpp"

namespace engine {

class EngineBlock {
 public:
  static constexpr std::int64_t kNever = std::numeric_limits<std::int64_t>::max();

  // accounts: of all actors. ahead: compute operations that are issued and not finished, at most.
  EngineBlock(const Scene& scene, const EngineOptions& options, const Blocks& blocks,
              const Block& block, std::vector<Account>& accounts, std::int64_t ahead)
      : scene_(scene), options_(options), block_(block), borders_(blocks.borders()),
        drains_(scene.draining_steps() > 0), ahead_(ahead), meetings_(block.places.size()),
        turns_(scene.turn_counters(), 0), steps_(scene.steps_of(options.steps)) {
    std::size_t moments = 0;
    for (const std::uint32_t a : block.actors) {
      const Actor& actor = scene.actors()[a];
      const Timetable& table = scene.timetable(actor);
      players_.push_back({OperationCursor(table, steps_), &actor, &table, blocks.seats(actor),
                          &accounts[a * static_cast<std::size_t>(steps_)], a, {}, moments});
      moments += table.instances();
    }
    moments_.resize(moments);
    if (options.flows) exchanges_.emplace(scene, *options.machine, *options.flows);
  }

  // Plays what comes before anything that other blocks can still cause here. floor: no block has
  // a pending event before it.
  void play(const EngineBorders& known, std::int64_t floor) {
    learn(known, floor);
    if (!std::exchange(begun_, true)) {
      if (exchanges_) schedule_tick();
      for (std::uint32_t p = 0; p < players_.size(); ++p) issue_ahead(p);
    }
    constexpr std::uint64_t kStretch = 1 << 14;  // events, about a millisecond
    Event event;
    for (; !late_ && queue_.pop_before(limit_, event); ++events_) {
      if (events_ % kStretch == 0) core::stop_point();
      if (event.data == kTick)
        tick(event.time);
      else
        finish(event);
    }
  }

  // Something could have started before it was issued: what was played is void.
  bool late() const { return late_; }
  // Of the first pending event; kNever: there is none.
  std::int64_t next_time() { return queue_.empty() ? kNever : queue_.next_time(); }
  // What the latest play() has to report, in the order of time.
  const std::vector<EngineBorders::Arrival>& arrivals() const { return arrivals_; }

  std::uint64_t operations() const { return operations_; }
  std::size_t pending() const { return nodes_.taken(); }
  std::vector<Played>& record() { return record_; }
  const Exchanges* exchanges() const { return exchanges_ ? &*exchanges_ : nullptr; }

 private:
  static constexpr int kStreams = program::kStreams;
  static constexpr auto kComputeStream = static_cast<std::size_t>(program::Stream::compute);
  static constexpr std::uint32_t kJoin = kAbsent;  // in place of an operation
  static constexpr std::uint32_t kTick = kAbsent;  // in place of a node: the wires' turn

  const Actor& actor(const Node& n) const { return *players_[n.player].actor; }
  const Timetable& timetable(const Node& n) const { return *players_[n.player].table; }
  const Operation& operation(const Node& n) const { return timetable(n).operation(n.operation); }
  const Seat& seat(const Node& n, const Operation& op) const {
    return players_[n.player].seats[op.point];
  }
  Moment& moment(const Player& p, const Instance& instance, std::int64_t micro_batch) {
    return moments_[p.first_moment + instance.at(micro_batch)];
  }

  void issue_ahead(std::uint32_t player) {
    Player& p = players_[player];
    while (!p.cursor.done() && p.computing < ahead_) issue(player);
  }

  void issue(std::uint32_t player) {
    Player& p = players_[player];
    if (p.cursor.at_join()) return issue_join(player);
    const Timetable& table = *p.table;
    const Operation& op = p.cursor.operation();
    const std::uint32_t n = nodes_.take();
    Node& node = nodes_[n];
    node.player = player;
    node.operation = p.cursor.index();
    node.step = p.cursor.step();
    node.micro_batch = p.cursor.micro_batch();
    node.duration = scene_.duration(*p.actor, op, p.issued++);
    p.cursor.advance();
    Moment& tail = p.tails[static_cast<std::size_t>(op.stream)];
    nodes_.wait_for(n, 0, tail);
    for (std::uint32_t w = 0; w < op.wait_count; ++w)
      nodes_.wait_for(n, w + 1, moment(p, table.wait(op.first_wait + w), node.micro_batch));
    tail.pending = n;
    if (op.signal != kAbsent)
      moment(p, table.signal(op.signal), node.micro_batch).pending = n;
    if (op.stream == program::Stream::compute) ++p.computing;
    if (node.missing == 0) proceed(n);
  }

  void issue_join(std::uint32_t player) {
    Player& p = players_[player];
    const std::uint32_t n = nodes_.take();
    nodes_[n].player = player;
    nodes_[n].operation = kJoin;
    nodes_[n].step = p.cursor.step();
    for (std::size_t s = 0; s < (drains_ ? kComputeStream + 1 : kStreams); ++s) {
      nodes_.wait_for(n, s, p.tails[s]);
      p.tails[s].pending = n;
    }
    p.cursor.join();
    ++p.computing;
    if (nodes_[n].missing == 0) proceed(n);
  }

  // Everything on its own rank that the node waits for has happened.
  void proceed(std::uint32_t n) {
    const Node& node = nodes_[n];
    if (node.operation == kJoin) return begin(n, node.ready, 0);
    const Operation& op = operation(node);
    if (op.point == program::kNone) return begin(n, node.ready, node.duration);
    const Seat& at = seat(node, op);
    if (at.channel == kAbsent) return begin(n, node.ready, node.duration);
    if (is_buffered(block_.places[at.channel].kind)) return take_turn(n, at);
    meet(n, at);
  }

  void meet(std::uint32_t n, const Seat& seat) {
    const Place& place = block_.places[seat.channel];
    Meeting& m = meetings_[seat.channel];
    Node& node = nodes_[n];
    m.latest = m.arrived == 0 ? node.ready : std::max(m.latest, node.ready);
    if (seat.times) m.duration = node.duration;
    node.next_here = m.here;
    m.here = n;
    if (++m.arrived < place.parties) return;
    m.arrived = 0;
    if (exchanges_) return exchange(m);
    if (place.border != kAbsent) return report(seat.channel);
    const bool message = place.kind == ChannelKind::message;
    for (std::uint32_t party = std::exchange(m.here, kAbsent); party != kAbsent;) {
      const std::uint32_t next = nodes_[party].next_here;
      begin(party, m.latest, message ? m.duration : nodes_[party].duration);
      party = next;
    }
  }

  // ---- borders ----

  // All parties of this block have come.
  void report(std::uint32_t place) {
    const std::uint32_t border = block_.places[place].border;
    const Meeting& m = meetings_[place];
    arrivals_.push_back({border, {m.latest, queue_.now()}});
    waiting_.push_back({place, (*known_)[border].held});
    limit_by(border, m.latest);
  }

  // What other blocks still have to do there begins at the floor or later.
  void limit_by(std::uint32_t border, std::int64_t latest) {
    const EngineBorders::Known& k = (*known_)[border];
    if (k.arrived > 0) latest = std::max(latest, k.latest.time);
    limit_ = std::min(limit_, std::max(latest, floor_) + borders_[border].shortest);
  }

  // Takes in what was reported since the latest play().
  void learn(const EngineBorders& known, std::int64_t floor) {
    known_ = &known;
    floor_ = floor;
    limit_ = kNever;
    arrivals_.clear();
    std::erase_if(waiting_, [&](const BorderWait& w) {
      const Place& place = block_.places[w.place];
      const EngineBorders::Known& k = known[place.border];
      if (k.held == w.held) {
        limit_by(place.border, meetings_[w.place].latest);
        return false;
      }
      hold(w.place, k.start.time);
      return true;
    });
  }

  void hold(std::uint32_t place, std::int64_t start) {
    std::uint32_t n = std::exchange(meetings_[place].here, kAbsent);
    while (n != kAbsent) {
      Node& node = nodes_[n];
      node.start = start;
      queue_.push({start + node.duration, order_of(node), n});
      n = std::exchange(node.next_here, kAbsent);
    }
  }

  // ---- buffered channels ----

  void take_turn(std::uint32_t n, const Seat& seat) {
    Node& node = nodes_[n];
    node.turn = turns_[seat.turn_counter]++;
    Turn& turn = turn_of(seat, node);
    if (!seat.posts) {
      if (turn.posted == block_.places[seat.channel].parties) return collect(n, turn.latest);
      node.next_here = turn.waiting;
      turn.waiting = n;
      return;
    }
    if (exchanges_) {                  // what is posted counts when it has arrived
      set_out(n, node.ready);
      if (late_) return;
      const Party self{actor(node).rank, n};
      const Timetable& table = timetable(node);
      if (!exchanges_->post(table, operation(node), self, node.start))
        return begin(n, node.start, 0);
      return schedule_tick();
    }
    begin(n, node.ready, node.duration);
    posted(n, seat, node.ready);
  }

  Turn& turn_of(const Seat& seat, const Node& node) {
    std::vector<Turn>& turns = meetings_[seat.channel].turns;
    if (turns.size() <= node.turn) turns.resize(node.turn + 1);
    return turns[node.turn];
  }

  void posted(std::uint32_t n, const Seat& seat, std::int64_t time) {
    Turn& turn = turn_of(seat, nodes_[n]);
    turn.latest = turn.posted == 0 ? time : std::max(turn.latest, time);
    if (++turn.posted < block_.places[seat.channel].parties) return;
    for (std::uint32_t c = std::exchange(turn.waiting, kAbsent); c != kAbsent;) {
      const std::uint32_t next = nodes_[c].next_here;
      collect(c, turn.latest);
      c = next;
    }
  }
  void collect(std::uint32_t n, std::int64_t latest) {
    const Node& node = nodes_[n];
    begin(n, std::max(node.ready, latest),
          exchanges_ ? operation(node).beside_wire : node.duration);
  }

  // ---- fidelity flows ----

  // All parties have come: their messages go out now.
  void exchange(Meeting& m) {
    parties_.clear();
    std::uint32_t speaker = m.here;
    for (std::uint32_t n = std::exchange(m.here, kAbsent); n != kAbsent; n = nodes_[n].next_here) {
      set_out(n, m.latest);
      parties_.push_back({actor(nodes_[n]).rank, n});
      if (seat(nodes_[n], operation(nodes_[n])).times) speaker = n;
    }
    if (late_) return;                 // the clock of the wires is beyond that start
    const Node& node = nodes_[speaker];
    std::stable_partition(parties_.begin(), parties_.end(),
                          [&](const Party& p) { return p.node == speaker; });
    exchanges_->start(timetable(node), operation(node), parties_, m.latest);
    schedule_tick();
  }

  void set_out(std::uint32_t n, std::int64_t start) {
    nodes_[n].start = start;
    if (start < queue_.now()) late_ = true;
  }

  void schedule_tick() {
    const std::int64_t next = exchanges_->next();
    if (late_ || next >= ticking_) return;
    ticking_ = next;
    queue_.push({next, kAbsent, kTick});
  }

  // A tick that an earlier one has overtaken is none.
  void tick(std::int64_t now) {
    if (now != ticking_) return;
    ticking_ = Network::kNever;
    if (std::ssize(exchanges_->log()) == steps_) return;  // what is written may outlast them
    arrived_.clear();
    exchanges_->advance(now, arrived_);
    for (const std::uint32_t n : arrived_) queue_.push({now, order_of(nodes_[n]), n});
    schedule_tick();
  }

  std::uint32_t order_of(const Node& node) const {
    const auto stream = node.operation == kJoin ? program::Stream::compute : operation(node).stream;
    return queue_order(actor(node), stream);
  }

  void begin(std::uint32_t n, std::int64_t start, std::int64_t duration) {
    set_out(n, start);
    if (!late_) queue_.push({start + duration, order_of(nodes_[n]), n});
  }

  void finish(const Event& event) {
    const std::uint32_t n = event.data;
    Node& node = nodes_[n];
    Player& p = players_[node.player];
    Moment now{event.time, node.missing_from, node.missing_to};
    if (node.start > node.ready) now.missing_from = node.ready, now.missing_to = node.start;
    const std::uint32_t waiters = node.waiters, player = node.player;
    bool refill = true;
    if (node.operation == kJoin) {
      finish_join(n, now);
    } else {
      const Operation& op = operation(node);
      tally(node, op, event.time);
      if (exchanges_ && op.point != program::kNone) {
        const Seat& at = seat(node, op);
        if (at.posts) posted(n, at, event.time);
      }
      refill = op.stream == program::Stream::compute;
      p.tails[static_cast<std::size_t>(op.stream)].decide(n, now);
      if (op.signal != kAbsent)
        moment(p, p.table->signal(op.signal), node.micro_batch).decide(n, now);
    }
    // Freed before anything is issued; its waiters come first, in the order of the list.
    nodes_.free(n);
    wake(waiters, now);
    if (!refill) return;
    --p.computing;
    issue_ahead(player);
  }

  void finish_join(std::uint32_t n, const Moment& now) {
    const Node& node = nodes_[n];
    Player& p = players_[node.player];
    Account& own = p.accounts[node.step];
    own.finish = now.time;
    own.bubble += missing_time({0, 0, 0, node.missing_from, node.missing_to}, p.compute_done,
                               now.time);
    p.compute_done = now.time;
    for (Moment& tail : p.tails) tail.decide(n, now);
    if (exchanges_) exchanges_->join(node.step, now.time, players_.size());
  }

  void wake(std::uint32_t edge, const Moment& now) {
    while (edge != kAbsent) {
      const std::uint32_t n = edge / kStreams;
      Node& waiter = nodes_[n];
      edge = waiter.next_waiter[edge % kStreams];
      waiter.reach(now);
      if (--waiter.missing == 0) proceed(n);
    }
  }

  void tally(const Node& n, const Operation& op, std::int64_t end) {
    Player& p = players_[n.player];
    const bool counts = op.point == program::kNone || p.seats[op.point].times;
    enter(p.accounts[n.step], op, {n.ready, n.start, end, n.missing_from, n.missing_to}, counts,
          p.compute_done);
    ++operations_;
    if (options_.record != nullptr && (n.step == 0 || drains_) &&
        (options_.record_actor == kAbsent || options_.record_actor == p.id))
      record_.push_back({p.id, n.operation, n.micro_batch, n.start, end});
  }

  const Scene& scene_;
  const EngineOptions& options_;
  const Block& block_;
  const std::vector<Border>& borders_;
  const bool drains_;
  const std::int64_t ahead_;
  EventQueue queue_;
  std::vector<Player> players_;
  std::vector<Moment> moments_;
  std::vector<Meeting> meetings_;      // by place
  std::vector<std::uint32_t> turns_;
  const int steps_;
  Nodes nodes_;
  std::optional<Exchanges> exchanges_;
  std::vector<Party> parties_;
  std::vector<std::uint32_t> arrived_;
  std::int64_t ticking_ = Network::kNever;  // when the wires are looked at next
  std::uint64_t operations_ = 0, events_ = 0;
  std::vector<Played> record_;
  bool begun_ = false, late_ = false;
  // Of borders: what was known when play() began, and before which time events are played.
  const EngineBorders* known_ = nullptr;
  std::int64_t floor_ = 0, limit_ = kNever;
  std::vector<BorderWait> waiting_;
  std::vector<EngineBorders::Arrival> arrivals_;
};

}  // namespace engine
