#include "sim/engine/critical_path.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "core/check.hpp"

namespace engine {
namespace {

class Finder {
 public:
  Finder(const Scene& scene, const std::vector<Played>& record, bool flows)
      : scene_(scene), flows_(flows), played_(record), met_(scene.channels().size()) {
    std::ranges::sort(played_, {}, &Finder::key);
    nodes_.reserve(record.size());
    for (std::uint32_t a = 0; a < scene.actors().size(); ++a) add(a);
    PLANNER_CHECK(nodes_.size() == record.size(), "a record of another step");
  }

  PathTimes run() const {
    PathTimes spent{};
    const Node* at = latest_of_all();
    while (at != nullptr) {
      spent[path_kind(table(*at), operation(*at))] += at->finish - at->start;
      const Node* before = at->start > 0 ? decider(*at) : nullptr;
      PLANNER_CHECK(at->start == (before == nullptr ? 0 : before->finish),
                    "an operation begins, and nothing that it waits for ends");
      at = before;
    }
    return spent;
  }

 private:
  struct Node {
    std::uint32_t actor = 0, operation = 0;
    std::int64_t start = 0, finish = 0;
    std::vector<std::uint32_t> waits;  // nodes of its own actor
    std::uint32_t channel = kAbsent, turn = 0;
    bool posts = false;
  };
  static std::tuple<std::uint32_t, std::uint32_t, std::int64_t> key(const Played& p) {
    return {p.actor, p.operation, p.micro_batch};
  }
  const Timetable& table(const Node& n) const {
    return scene_.timetable(scene_.actors()[n.actor]);
  }
  const Operation& operation(const Node& n) const { return table(n).operation(n.operation); }

  void add(std::uint32_t a) {
    const Actor& actor = scene_.actors()[a];
    const Timetable& table = scene_.timetable(actor);
    std::array<std::optional<std::uint32_t>, program::kStreams> tails;
    std::vector<std::optional<std::uint32_t>> signallers(table.instances());
    std::map<std::pair<std::uint32_t, bool>, std::uint32_t> turns;  // by channel and side
    for (OperationCursor at(table, 1); !at.at_join(); at.advance()) {
      const Operation& op = at.operation();
      const std::tuple wanted{a, at.index(), at.micro_batch()};
      const auto played = std::ranges::lower_bound(played_, wanted, {}, &Finder::key);
      PLANNER_CHECK(played != played_.end() && key(*played) == wanted, "not in the record");
      const auto id = static_cast<std::uint32_t>(nodes_.size());
      Node n{a, at.index(), played->start, played->finish, {}, kAbsent, 0, false};
      std::optional<std::uint32_t>& tail = tails[static_cast<std::size_t>(op.stream)];
      if (tail) n.waits.push_back(*tail);
      tail = id;
      for (std::uint32_t w = op.first_wait; w < op.first_wait + op.wait_count; ++w)
        if (const auto& by = signallers[table.wait(w).at(at.micro_batch())])
          n.waits.push_back(*by);
      if (op.signal != kAbsent) signallers[table.signal(op.signal).at(at.micro_batch())] = id;
      if (op.point != program::kNone) seat(n, scene_.seat(actor, op), turns, id);
      nodes_.push_back(std::move(n));
    }
  }

  void seat(Node& n, const Seat& seat,
            std::map<std::pair<std::uint32_t, bool>, std::uint32_t>& turns, std::uint32_t id) {
    if (seat.channel == kAbsent) return;
    n.channel = seat.channel;
    n.turn = turns[{seat.channel, seat.posts}]++;
    n.posts = seat.posts;
    if (buffered(n) && !n.posts) return;
    auto& parties = met_[seat.channel];
    if (parties.size() <= n.turn) parties.resize(n.turn + 1);
    parties[n.turn].push_back(id);
  }
  bool buffered(const Node& n) const {
    const ChannelKind kind = scene_.channels()[n.channel].kind;
    return kind == ChannelKind::push || kind == ChannelKind::pull;
  }

  const Node* latest_of_all() const {
    const Node* latest = nullptr;
    for (const Node& n : nodes_) keep_later(latest, n);
    return latest;
  }
  static void keep_later(const Node*& latest, const Node& n) {
    if (latest == nullptr || n.finish > latest->finish) latest = &n;
  }
  void keep_waits(const Node*& latest, const Node& n) const {
    for (const std::uint32_t on : n.waits) keep_later(latest, nodes_[on]);
  }

  // Of all that the node waits for what ended last.
  const Node* decider(const Node& n) const {
    const Node* latest = nullptr;
    keep_waits(latest, n);
    if (n.channel == kAbsent || n.posts) return latest;
    for (const std::uint32_t party : met_[n.channel][n.turn]) {
      if (buffered(n) && flows_) keep_later(latest, nodes_[party]);
      else keep_waits(latest, nodes_[party]);
    }
    return latest;
  }

  const Scene& scene_;
  const bool flows_;
  std::vector<Played> played_;         // by key
  std::vector<Node> nodes_;            // by actor, in issue order
  std::vector<std::vector<std::vector<std::uint32_t>>> met_;  // by channel and turn: who comes
};

}  // namespace

PathTimes critical_path(const Scene& scene, const std::vector<Played>& record, bool flows) {
  return Finder(scene, record, flows).run();
}

}  // namespace engine
