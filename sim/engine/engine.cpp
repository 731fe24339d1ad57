#include "sim/engine/engine.hpp"

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "core/call.hpp"
#include "core/check.hpp"
#include "sim/engine/engine_parts.hpp"
#include "sim/engine/event_queue.hpp"

namespace engine {
namespace {

constexpr int kStreams = program::kStreams;
constexpr auto kComputeStream = static_cast<std::size_t>(program::Stream::compute);
constexpr std::uint32_t kJoin = kAbsent;   // in place of an operation
constexpr std::uint32_t kTick = kAbsent;   // in place of a node: something happens on the wires
constexpr std::int64_t kFirstAhead = 8;    // compute operations issued and not finished

class Engine {
 public:
  Engine(const Scene& scene, const EngineOptions& options, std::int64_t ahead)
      : scene_(scene), options_(options), drains_(scene.draining_steps() > 0), ahead_(ahead) {
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
    if (options.flows) exchanges_.emplace(scene, *options.machine, *options.flows);
  }

  // Empty: something could have started before it was issued.
  std::optional<Outcome> run() {
    for (std::uint32_t a = 0; a < players_.size(); ++a) issue_ahead(a);
    constexpr std::uint64_t kStretch = 1 << 14;  // events, about a millisecond
    for (std::uint64_t events = 0; !queue_.empty() && !late_; ++events) {
      if (events % kStretch == 0) core::stop_point();
      const Event event = queue_.pop();
      if (event.data == kTick)
        tick(event.time);
      else
        finish(event);
    }
    if (late_) return std::nullopt;
    PLANNER_CHECK(pending_ == 0, "a deadlock in a program that was checked");
    for (int rank = 0; exchanges_ && rank < scene_.program().mesh.ranks(); ++rank) {
      outcome_.wire_sent.push_back(exchanges_->wires().bytes_sent(rank));
      outcome_.wire_received.push_back(exchanges_->wires().bytes_received(rank));
    }
    if (exchanges_) outcome_.carried = exchanges_->wires().carried();
    return std::move(outcome_);
  }

 private:
  const Actor& actor(const Node& n) const { return scene_.actors()[n.actor]; }
  const Operation& operation(const Node& n) const {
    return scene_.timetable(actor(n)).operation(n.operation);
  }
  Account& account(const Node& n) {
    return outcome_.accounts[n.actor * static_cast<std::size_t>(options_.steps) +
                             static_cast<std::size_t>(n.step)];
  }
  Moment& moment(const Player& p, const Instance& instance, std::int64_t micro_batch) {
    return moments_[p.first_moment + instance.at(micro_batch)];
  }

  void issue_ahead(std::uint32_t a) {
    Player& p = players_[a];
    while (!p.cursor.done() && p.computing < ahead_) issue(a);
  }

  void issue(std::uint32_t a) {
    Player& p = players_[a];
    if (p.cursor.at_join()) return issue_join(a);
    const Actor& own = scene_.actors()[a];
    const Timetable& table = scene_.timetable(own);
    const Operation& op = p.cursor.operation();
    const std::uint32_t n = take_node();
    Node& node = nodes_[n];
    node.actor = a;
    node.operation = p.cursor.index();
    node.step = p.cursor.step();
    node.micro_batch = p.cursor.micro_batch();
    node.duration = scene_.duration(own, op, p.issued++);
    p.cursor.advance();
    Moment& tail = p.tails[static_cast<std::size_t>(op.stream)];
    wait_for(n, 0, tail);
    for (std::uint32_t w = 0; w < op.wait_count; ++w)
      wait_for(n, w + 1, moment(p, table.wait(op.first_wait + w), node.micro_batch));
    tail.pending = n;
    if (op.signal != kAbsent)
      moment(p, table.signal(op.signal), node.micro_batch).pending = n;
    if (op.stream == program::Stream::compute) ++p.computing;
    if (node.missing == 0) proceed(n);
  }

  void issue_join(std::uint32_t a) {
    Player& p = players_[a];
    const std::uint32_t n = take_node();
    nodes_[n].actor = a;
    nodes_[n].operation = kJoin;
    nodes_[n].step = p.cursor.step();
    for (std::size_t s = 0; s < (drains_ ? kComputeStream + 1 : kStreams); ++s) {
      wait_for(n, s, p.tails[s]);
      p.tails[s].pending = n;
    }
    p.cursor.join();
    ++p.computing;
    if (nodes_[n].missing == 0) proceed(n);
  }

  std::uint32_t take_node() {
    ++pending_;
    std::uint32_t n = free_;
    if (n == kAbsent) {
      n = static_cast<std::uint32_t>(nodes_.size());
      nodes_.emplace_back();
    } else {
      free_ = nodes_[n].next_here;
      nodes_[n] = Node{};
    }
    return n;
  }

  void wait_for(std::uint32_t n, std::size_t place, const Moment& moment) {
    Node& node = nodes_[n];
    if (moment.pending == kAbsent) return reach(node, moment);
    Node& other = nodes_[moment.pending];
    ++node.missing;
    node.next_waiter[place] = other.waiters;
    other.waiters = n * kStreams + static_cast<std::uint32_t>(place);
  }
  // The node is not ready before the moment. Of equal times the one that tells most of missing
  // parties, whatever the order of asking.
  static void reach(Node& node, const Moment& moment) {
    if (std::tie(moment.time, moment.missing_to, moment.missing_from) <=
        std::tie(node.ready, node.missing_to, node.missing_from))
      return;
    node.ready = moment.time;
    node.missing_from = moment.missing_from;
    node.missing_to = moment.missing_to;
  }

  // Everything on its own rank that the node waits for has happened.
  void proceed(std::uint32_t n) {
    const Node& node = nodes_[n];
    if (node.operation == kJoin) return begin(n, node.ready, 0);
    const Operation& op = operation(node);
    if (op.point == program::kNone) return begin(n, node.ready, node.duration);
    const Seat& seat = scene_.seat(actor(node), op);
    if (seat.channel == kAbsent) return begin(n, node.ready, node.duration);
    const Channel& channel = scene_.channels()[seat.channel];
    if (channel.kind == ChannelKind::push || channel.kind == ChannelKind::pull)
      return take_turn(n, seat, channel);
    meet(n, seat, channel);
  }

  void meet(std::uint32_t n, const Seat& seat, const Channel& channel) {
    Meeting& m = meetings_[seat.channel];
    Node& node = nodes_[n];
    m.latest = m.arrived == 0 ? node.ready : std::max(m.latest, node.ready);
    if (seat.times) m.duration = node.duration;
    node.next_here = m.here;
    m.here = n;
    if (++m.arrived < channel.parties) return;
    m.arrived = 0;
    if (exchanges_) return exchange(m);
    const bool message = channel.kind == ChannelKind::message;
    for (std::uint32_t party = std::exchange(m.here, kAbsent); party != kAbsent;) {
      const std::uint32_t next = nodes_[party].next_here;
      begin(party, m.latest, message ? m.duration : nodes_[party].duration);
      party = next;
    }
  }

  void take_turn(std::uint32_t n, const Seat& seat, const Channel& channel) {
    Node& node = nodes_[n];
    node.turn = turns_[seat.turn_counter]++;
    Turn& turn = turn_of(seat, node);
    if (!seat.posts) {
      if (turn.posted == channel.parties) return collect(n, turn.latest);
      node.next_here = turn.waiting;
      turn.waiting = n;
      return;
    }
    if (exchanges_) {                  // what is posted counts when it has arrived
      set_out(n, node.ready);
      if (late_) return;
      const Party self{actor(node).rank, n};
      if (!exchanges_->post(scene_.timetable(actor(node)), operation(node), self, node.start))
        return begin(n, node.start, 0);
      return schedule_tick();
    }
    begin(n, node.ready, node.duration);
    posted(n, seat, channel, node.ready);
  }

  Turn& turn_of(const Seat& seat, const Node& node) {
    std::vector<Turn>& turns = meetings_[seat.channel].turns;
    if (turns.size() <= node.turn) turns.resize(node.turn + 1);
    return turns[node.turn];
  }

  void posted(std::uint32_t n, const Seat& seat, const Channel& channel, std::int64_t time) {
    Turn& turn = turn_of(seat, nodes_[n]);
    turn.latest = turn.posted == 0 ? time : std::max(turn.latest, time);
    if (++turn.posted < channel.parties) return;
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
      if (scene_.seat(actor(nodes_[n]), operation(nodes_[n])).times) speaker = n;
    }
    if (late_) return;                 // the clock of the wires is beyond that start
    const Node& node = nodes_[speaker];
    std::ranges::stable_partition(parties_, [&](const Party& p) { return p.node == speaker; });
    exchanges_->start(scene_.timetable(actor(node)), operation(node), parties_, m.latest);
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
    arrived_.clear();
    exchanges_->advance(now, arrived_);
    for (const std::uint32_t n : arrived_) queue_.push({now, order_of(nodes_[n]), n});
    schedule_tick();
  }

  std::uint32_t order_of(const Node& node) const {
    const auto stream = node.operation == kJoin ? program::Stream::compute : operation(node).stream;
    return static_cast<std::uint32_t>(actor(node).rank) * kStreams +
           static_cast<std::uint32_t>(stream);
  }

  void begin(std::uint32_t n, std::int64_t start, std::int64_t duration) {
    set_out(n, start);
    if (!late_) queue_.push({start + duration, order_of(nodes_[n]), n});
  }

  void finish(const Event& event) {
    const std::uint32_t n = event.data;
    Node& node = nodes_[n];
    Player& p = players_[node.actor];
    Moment now{event.time, node.missing_from, node.missing_to};
    if (node.start > node.ready) now.missing_from = node.ready, now.missing_to = node.start;
    const std::uint32_t waiters = node.waiters, a = node.actor;
    bool refill = true;
    if (node.operation == kJoin) {
      finish_join(n, now);
    } else {
      const Operation& op = operation(node);
      tally(node, op, event.time);
      if (exchanges_ && op.point != program::kNone) {
        const Seat& seat = scene_.seat(actor(node), op);
        if (seat.posts) posted(n, seat, scene_.channels()[seat.channel], event.time);
      }
      refill = op.stream == program::Stream::compute;
      happen(p.tails[static_cast<std::size_t>(op.stream)], n, now);
      if (op.signal != kAbsent) {
        const Timetable& table = scene_.timetable(actor(node));
        happen(moment(p, table.signal(op.signal), node.micro_batch), n, now);
      }
    }
    // Freed before anything is issued; its waiters come first, in the order of the list.
    node.next_here = free_;
    free_ = n;
    --pending_;
    wake(waiters, now);
    if (!refill) return;
    --p.computing;
    issue_ahead(a);
  }

  void finish_join(std::uint32_t n, const Moment& now) {
    const Node& node = nodes_[n];
    Player& p = players_[node.actor];
    Account& own = account(node);
    own.finish = now.time;
    own.bubble += missing_time({0, 0, 0, node.missing_from, node.missing_to}, p.compute_done,
                               now.time);
    p.compute_done = now.time;
    for (Moment& tail : p.tails) happen(tail, n, now);
  }

  static void happen(Moment& moment, std::uint32_t n, const Moment& now) {
    if (moment.pending == n) moment = now;
  }

  void wake(std::uint32_t edge, const Moment& now) {
    while (edge != kAbsent) {
      const std::uint32_t n = edge / kStreams;
      Node& waiter = nodes_[n];
      edge = waiter.next_waiter[edge % kStreams];
      reach(waiter, now);
      if (--waiter.missing == 0) proceed(n);
    }
  }

  void tally(const Node& n, const Operation& op, std::int64_t end) {
    const bool counts = op.point == program::kNone || scene_.seat(actor(n), op).times;
    enter(account(n), op, {n.ready, n.start, end, n.missing_from, n.missing_to}, counts,
          players_[n.actor].compute_done);
    ++outcome_.operations;
    if (options_.record != nullptr && (n.step == 0 || drains_) &&
        (options_.record_actor == kAbsent || options_.record_actor == n.actor))
      options_.record->push_back({n.actor, n.operation, n.micro_batch, n.start, end});
  }

  const Scene& scene_;
  EngineOptions options_;
  const bool drains_;
  std::int64_t ahead_;
  Outcome outcome_;
  EventQueue queue_;
  std::vector<Player> players_;
  std::vector<Moment> moments_;
  std::vector<Meeting> meetings_;
  std::vector<std::uint32_t> turns_;
  std::vector<Node> nodes_;
  std::optional<Exchanges> exchanges_;
  std::vector<Party> parties_;
  std::vector<std::uint32_t> arrived_;
  std::int64_t ticking_ = Network::kNever;  // when the wires are looked at next
  std::uint32_t free_ = kAbsent;
  std::size_t pending_ = 0;
  bool late_ = false;
};

}  // namespace

Outcome run(const Scene& scene, const EngineOptions& options) {
  PLANNER_CHECK(options.steps >= 1);
  for (std::int64_t ahead = kFirstAhead;; ahead *= 16) {
    const std::size_t recorded = options.record == nullptr ? 0 : options.record->size();
    std::optional<Outcome> outcome = Engine(scene, options, ahead).run();
    if (outcome) return *std::move(outcome);
    if (options.record != nullptr) options.record->resize(recorded);
    PLANNER_CHECK(ahead < std::int64_t{1} << 56, "work starts before it is issued, however early");
  }
}

}  // namespace engine
