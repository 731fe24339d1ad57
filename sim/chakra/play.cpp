#include "sim/chakra/play.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "core/check.hpp"
#include "sim/chakra/schema.hpp"
#include "sim/engine/event_queue.hpp"

namespace engine {
namespace {

using namespace chakra;

constexpr int kSteps = 2;

enum class Activity : std::uint8_t { none, compute, transfer };

Activity activity_of(const ChakraNode& n) {
  if (n.type == kComp) return n.on_host ? Activity::none : Activity::compute;
  const bool moves = n.type == kMemLoad || n.type == kMemStore ||
                     (n.type >= kSend && n.type <= kCollective);
  return moves ? Activity::transfer : Activity::none;
}

std::string stream_name(const ChakraTrace& t, const ChakraNode& n) {
  if (n.stream != 0) return t.texts[n.stream];
  switch (n.type) {
    case kComp: return n.on_host ? "host" : "compute";
    case kMemLoad:
    case kMemStore: return "memory";
    case kSend: return "send";
    case kReceive: return "receive";
    default: return "collective";
  }
}

class TracePlayer {
 public:
  TracePlayer(const std::vector<ChakraTrace>& traces, const ChakraTasks& tasks)
      : traces_(traces), tasks_(tasks), nodes_(tasks.task.size()),
        arrived_(tasks.first_seat.size(), 0), ranks_(traces.size()) {
    for (const ChakraTrace& t : traces) add(t);
    link();
  }

  core::Result<ChakraOutcome> run() {
    for (std::size_t r = 0; r < ranks_.size(); ++r) begin_step(r, 0);
    start_all(0);
    while (!queue_.empty()) {
      const Event event = queue_.pop();
      if (event.data == kNobody) {
        looking_ = false;
        start_all(event.time);
        continue;
      }
      finish(event.data, event.time);
      // What ends at the same time does so before anything starts.
      if (!std::exchange(looking_, true)) queue_.push({event.time, kNobody, kNobody});
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      if (ranks_[r].step < kSteps) return stuck();
    return outcome();
  }

 private:
  enum class State : std::uint8_t { waiting, ready, done };
  struct Node {
    std::uint32_t first_successor = 0, missing = 0, dependencies = 0;
    std::uint32_t stream = kNobody;
    std::uint32_t started = 0;         // of buffered and eager sends: how often
    Activity activity{};
    State state{};
    bool awaits_send = false;
  };
  struct Stream {
    std::string name;
    int rank = 0;
    bool busy = false;
    int running = 0;                   // buffered ones count too
    std::int64_t since = 0, total = 0;
    std::set<std::pair<std::int64_t, std::uint32_t>> waiting;  // when complete, task
  };
  struct Rank {
    int step = 0;
    std::size_t left = 0;
    int computing = 0, transferring = 0;
    std::int64_t since = 0;
    std::array<std::int64_t, kSteps> finish{};
    std::int64_t compute = 0, exposed = 0, transfers = 0;
    std::uint32_t first_stream = 0, last_stream = 0;
  };
  const ChakraTrace& trace(std::size_t rank) const { return traces_[rank]; }
  std::size_t rank_of(std::uint32_t node) const { return owner_[node]; }

  void add(const ChakraTrace& t) {
    std::map<std::string, std::uint32_t> known;
    Rank& r = ranks_[static_cast<std::size_t>(t.rank)];
    r.first_stream = static_cast<std::uint32_t>(streams_.size());
    std::uint32_t id = tasks_.first[static_cast<std::size_t>(t.rank)];
    for (const ChakraNode& n : t.nodes) {
      Node& node = nodes_[id++];
      owner_.push_back(static_cast<std::uint32_t>(t.rank));
      node.activity = activity_of(n);
      node.dependencies = n.dependencies;
      if (n.type == kMetadata || n.type == kInvalid) continue;
      const auto fresh = static_cast<std::uint32_t>(streams_.size());
      const auto at = known.try_emplace(stream_name(t, n), fresh).first;
      if (at->second == fresh) add_stream(at->first, t.rank);
      node.stream = at->second;
    }
    r.last_stream = static_cast<std::uint32_t>(streams_.size());
  }

  void add_stream(const std::string& name, int rank) {
    Stream& s = streams_.emplace_back();
    s.name = name;
    s.rank = rank;
  }

  // Successors of each node, in one list.
  void link() {
    for (const ChakraTrace& t : traces_) {
      const std::uint32_t first = tasks_.first[static_cast<std::size_t>(t.rank)];
      for (const std::uint32_t on : t.dependencies) ++nodes_[first + on].first_successor;
    }
    std::uint32_t total = 0;
    for (Node& n : nodes_) total = n.first_successor += total;
    successors_.resize(total);
    for (const ChakraTrace& t : traces_) {
      const std::uint32_t first = tasks_.first[static_cast<std::size_t>(t.rank)];
      for (std::size_t i = 0; i < t.nodes.size(); ++i)
        for (std::uint32_t d = 0; d < t.nodes[i].dependencies; ++d) {
          const std::uint32_t on = t.dependencies[t.nodes[i].first_dependency + d];
          successors_[--nodes_[first + on].first_successor] = first + static_cast<std::uint32_t>(i);
        }
    }
  }
  std::span<const std::uint32_t> successors(std::uint32_t node) const {
    const std::size_t first = nodes_[node].first_successor;
    const std::size_t last =
        node + 1 < nodes_.size() ? nodes_[node + 1].first_successor : successors_.size();
    return std::span(successors_).subspan(first, last - first);
  }
  std::span<const std::uint32_t> seats(std::uint32_t task) const {
    const std::size_t first = tasks_.first_seat[task];
    return std::span(tasks_.seats).subspan(first, tasks_.first_seat[task + 1] - first);
  }

  void begin_step(std::size_t rank, std::int64_t now) {
    Rank& r = ranks_[rank];
    const std::uint32_t first = tasks_.first[rank], last = tasks_.first[rank + 1];
    r.left = last - first;
    r.since = now;
    r.compute = r.exposed = r.transfers = 0;
    for (std::uint32_t s = r.first_stream; s < r.last_stream; ++s) streams_[s].total = 0;
    for (std::uint32_t n = first; n < last; ++n) {
      nodes_[n].missing = nodes_[n].dependencies;
      nodes_[n].state = State::waiting;
    }
    for (std::uint32_t n = first; n < last; ++n)
      if (nodes_[n].dependencies == 0) ready(n, now);
    if (r.left == 0) end_step(rank, now);
  }
  void end_step(std::size_t rank, std::int64_t now) {
    Rank& r = ranks_[rank];
    r.finish[static_cast<std::size_t>(r.step)] = now;
    if (++r.step < kSteps) begin_step(rank, now);
  }

  void ready(std::uint32_t node, std::int64_t now) {
    Node& n = nodes_[node];
    n.state = State::ready;
    const std::uint32_t partner = tasks_.partner[node];
    const bool receives = partner != kNobody && !is_send(node);
    if (receives && nodes_[partner].started <= static_cast<std::uint32_t>(step_of(node))) {
      n.awaits_send = true;
      return;
    }
    const std::uint32_t task = tasks_.task[node];
    if (++arrived_[task] < seats(task).size()) return;
    arrived_[task] = 0;
    if (!takes_turns(node)) return start(task, now);
    for (const std::uint32_t seat : seats(task)) {
      streams_[nodes_[seat].stream].waiting.emplace(now, task);
      touched_.push_back(nodes_[seat].stream);
    }
  }
  // Whether the node holds its stream. Buffered sends share it, and no receive holds it whose
  // message is on its way without it.
  bool takes_turns(std::uint32_t node) const {
    if (nodes_[node].stream == kNobody) return false;
    return tasks_.partner[node] == kNobody || (is_eager(node) && is_send(node));
  }
  bool is_eager(std::uint32_t node) const {
    const std::size_t rank = rank_of(node);
    return tasks_.partner[node] != kNobody &&
           trace(rank).nodes[node - tasks_.first[rank]].incast == 0;
  }
  bool is_send(std::uint32_t node) const {
    const std::size_t rank = rank_of(node);
    return trace(rank).nodes[node - tasks_.first[rank]].type == kSend;
  }
  int step_of(std::uint32_t node) const { return ranks_[rank_of(node)].step; }

  // What can start now, does: first of all its streams, all of them idle.
  void start_all(std::int64_t now) {
    while (!touched_.empty()) {
      const std::uint32_t s = touched_.back();
      touched_.pop_back();
      if (streams_[s].busy || streams_[s].waiting.empty()) continue;
      const auto head = *streams_[s].waiting.begin();
      const auto all = seats(head.second);
      const bool free = std::ranges::all_of(all, [&](std::uint32_t seat) {
        const Stream& other = streams_[nodes_[seat].stream];
        return !other.busy && *other.waiting.begin() == head;
      });
      if (!free) continue;
      for (const std::uint32_t seat : all) {
        Stream& own = streams_[nodes_[seat].stream];
        own.waiting.erase(head);
        own.busy = true;
      }
      start(head.second, now);
    }
  }

  void start(std::uint32_t task, std::int64_t now) {
    for (const std::uint32_t node : seats(task)) {
      account(node, now, 1);
      const std::uint32_t partner = tasks_.partner[node];
      const bool sends = partner != kNobody && is_send(node);
      std::int64_t end = now + tasks_.duration[node];
      if (partner != kNobody && !sends && is_eager(node)) end = std::max(end, end_of_send(node));
      queue_.push({end, node, node});
      if (!sends) continue;
      if (is_eager(node)) send_ends_[{node, nodes_[node].started}] = end;
      ++nodes_[node].started;
      if (std::exchange(nodes_[partner].awaits_send, false)) ready(partner, now);
    }
  }

  // The end of the send in the same step. It is read once, and then forgotten.
  std::int64_t end_of_send(std::uint32_t receive) {
    const auto send = send_ends_.find({tasks_.partner[receive],
                                       static_cast<std::uint32_t>(step_of(receive))});
    PLANNER_CHECK(send != send_ends_.end(), "a receive that starts before its send");
    const std::int64_t end = send->second;
    send_ends_.erase(send);
    return end;
  }

  // The node begins (change 1) or ends (-1).
  void account(std::uint32_t node, std::int64_t now, int change) {
    const Node& n = nodes_[node];
    Rank& r = ranks_[rank_of(node)];
    const std::int64_t passed = now - r.since;
    if (r.computing > 0) r.compute += passed;
    else if (r.transferring > 0) r.exposed += passed;
    if (r.transferring > 0) r.transfers += passed;
    r.since = now;
    if (n.activity == Activity::compute) r.computing += change;
    if (n.activity == Activity::transfer) r.transferring += change;
    if (n.stream == kNobody) return;
    Stream& s = streams_[n.stream];
    if (s.running > 0) s.total += now - s.since;
    s.since = now;
    s.running += change;
  }

  void finish(std::uint32_t node, std::int64_t now) {
    account(node, now, -1);
    Node& n = nodes_[node];
    n.state = State::done;
    if (takes_turns(node)) {
      streams_[n.stream].busy = false;
      touched_.push_back(n.stream);
    }
    for (const std::uint32_t next : successors(node))
      if (--nodes_[next].missing == 0) ready(next, now);
    const std::size_t rank = rank_of(node);
    if (--ranks_[rank].left == 0) end_step(rank, now);
  }

  core::Problem stuck() const {
    const auto of = [&](std::uint32_t node) {
      const std::size_t rank = rank_of(node);
      return place_of(trace(rank), trace(rank).nodes[node - tasks_.first[rank]]);
    };
    std::uint32_t first = kNobody;
    for (std::uint32_t n = 0; n < nodes_.size() && first == kNobody; ++n)
      if (nodes_[n].state == State::ready) first = n;
    if (first != kNobody)
      for (const std::uint32_t seat : seats(tasks_.task[first]))
        if (nodes_[seat].state == State::waiting)
          return {of(first), "its other parties to come", of(seat) + " never can",
                  "issue transfers in the same order on all ranks"};
    for (std::uint32_t n = 0; n < nodes_.size(); ++n)
      if (nodes_[n].state != State::done)
        return {of(n), "dependencies without a circle", "one that it waits in", ""};
    PLANNER_CHECK(false, "a step that is done and is not");
    return {};
  }

  ChakraOutcome outcome() const {
    ChakraOutcome o;
    o.nodes = nodes_.size();
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Rank& rank = ranks_[r];
      o.makespan = std::max(o.makespan, rank.finish[0]);
      o.periods.push_back(rank.finish[1] - rank.finish[0]);
      if (r > 0 && o.periods.back() <= o.period) continue;
      o.critical_rank = static_cast<int>(r);
      o.period = o.periods.back();
      o.compute = rank.compute;
      o.exposed_communication = rank.exposed;
      o.waiting = o.period - rank.compute - rank.exposed;
      o.communication = rank.transfers;
    }
    for (const Stream& s : streams_)
      if (s.total > 0) o.streams.push_back({s.rank, s.name, s.total});
    return o;
  }

  const std::vector<ChakraTrace>& traces_;
  const ChakraTasks& tasks_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> owner_, successors_;
  std::vector<std::uint32_t> arrived_;  // by task
  std::vector<Rank> ranks_;
  std::vector<Stream> streams_;
  std::vector<std::uint32_t> touched_;  // streams to look at
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::int64_t> send_ends_;  // by send and step
  EventQueue queue_;                   // ends of nodes; kNobody: what can start
  bool looking_ = false;
};

}  // namespace

core::Result<ChakraOutcome> play_chakra(const std::vector<ChakraTrace>& traces,
                                        const ChakraTasks& tasks) {
  return TracePlayer(traces, tasks).run();
}

}  // namespace engine
