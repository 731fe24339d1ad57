// Matching and progress: the ranks' streams played against each other. Each class is reduced to its
// waits, signals and meetings once; ranks share that list and differ in whom they meet.
#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "core/check.hpp"
#include "sim/program/checker.hpp"
#include "sim/program/checker_parts.hpp"
#include "sim/program/traffic.hpp"
#include "sim/program/turns.hpp"

namespace program::checker {
namespace {

constexpr std::size_t kNothing = static_cast<std::size_t>(-1);

bool meets(ActionKind kind) {
  return kind == ActionKind::collective || kind == ActionKind::send ||
         kind == ActionKind::receive || kind >= ActionKind::push;
}

// What the parties of a meeting must agree on.
using Terms = std::tuple<Collective, Algorithm, Traffic, ReduceOp, core::DType, std::int64_t>;

// One action that waits, signals or meets.
struct Item {
  Place at;
  Stream stream{};
  std::vector<std::size_t> after;      // items whose signals it waits for
  bool meets = false;
  Terms terms{};
};

// A class as the ranks play it.
struct Part {
  const RankClass* k = nullptr;
  std::vector<Item> items;             // in issue order
  std::array<std::vector<std::size_t>, kStreams> streams;
};

Terms terms_of(const RankClass& k, const Action& a, const Call& call) {
  PLANNER_CHECK(a.op < k.transfers.size(), "a communicating action names its transfer");
  const Transfer& t = k.transfers[a.op];
  return {t.collective, t.algorithm, t.what, t.reduce, t.wire_type, transfer_elements(k, a, call)};
}

Part part_of(const RankClass& k, std::int64_t micro_batches) {
  Part part;
  part.k = &k;
  std::map<std::pair<std::uint16_t, int>, std::size_t> signalled;
  const auto key = [&](const EventRef& ref, const Call& call) {
    return std::pair{ref.event, instance_of(k.events[ref.event], ref, call)};
  };
  for_each_action(k, micro_batches, [&](const Place& at, const Action& a) {
    if (a.wait_count == 0 && a.signal == kNone && !meets(a.kind)) return;
    Item item{at, a.stream, {}, meets(a.kind), {}};
    for (std::uint32_t i = 0; i < a.wait_count; ++i) {
      const auto signal = signalled.find(key(k.waits[a.first_wait + i].on, at.call));
      if (signal != signalled.end()) item.after.push_back(signal->second);
    }
    if (item.meets) item.terms = terms_of(k, a, at.call);
    const std::size_t index = part.items.size();
    if (a.signal != kNone) signalled[key(k.signals[a.signal], at.call)] = index;
    part.streams[static_cast<std::size_t>(a.stream)].push_back(index);
    part.items.push_back(std::move(item));
  });
  return part;
}

// Meetings with the same key follow one another in the order in which each party issues them.
enum class Kind : std::uint8_t { collective, message, push, pull };
struct Channel {
  Kind kind{};
  Group group{};                       // of collectives
  Stream stream{};                     // of collectives
  int first = 0, second = 0;           // sender and receiver, or first rank; of pushes: its turn
  std::uint16_t tag = 0;               // of messages
  friend auto operator<=>(const Channel&, const Channel&) = default;
};

class Ranks {
 public:
  Ranks(const Program& p, std::int64_t micro_batches, Problems& problems)
      : p_(p), problems_(problems) {
    for (const RankClass& k : p.classes) parts_.push_back(part_of(k, micro_batches));
    choose();
    for (std::size_t r = 0; r < played_.size(); ++r) enter(r);
  }

  void run() {
    match();
    if (!mismatched_) play();
  }

 private:
  struct Player {
    int rank = 0;
    const Part* part = nullptr;
    std::vector<std::size_t> meeting;  // of each item, kNothing: none
    std::vector<bool> done;
    std::array<std::size_t, kStreams> head{};
  };
  struct Party {
    std::size_t player = 0, item = 0;
  };
  struct Meeting {
    std::vector<Party> parties;
    std::size_t awaited = 0;           // parties that must have come
    std::size_t arrived = 0;
    bool buffered = false;             // who posts (push, serve_pull) does not wait for the others
  };
  // The items of one party of a channel.
  using Calls = std::map<std::pair<std::size_t, bool>, std::vector<std::size_t>>;

  std::string who(const Player& player) const {
    return "rank " + std::to_string(player.rank) + " (" + player.part->k->name + ")";
  }

  // All ranks, or one of each class and stage.
  void choose() {
    const bool all = p_.mesh.ranks() <= kRanksPlayed;
    std::vector<bool> seen(p_.classes.size(), false);
    for (int rank = 0; rank < p_.mesh.ranks(); ++rank) {
      const auto c = static_cast<std::size_t>(p_.class_of(rank));
      if (!all && seen[c]) continue;
      seen[c] = true;
      const Part& part = parts_[c];
      played_.push_back({rank, &part, std::vector<std::size_t>(part.items.size(), kNothing),
                         std::vector<bool>(part.items.size(), false), {}});
      if (!all && std::ranges::count(seen, false) == 0) break;
    }
  }

  int server_group(int rank) const {
    return p_.mesh.is_server(rank) ? 0 : p_.mesh.members(Group::data, rank).front();
  }

  Channel channel_of(const Player& player, const Item& item) const {
    const Action& a = player.part->k->actions[item.at.action];
    const Transfer& t = player.part->k->transfers[a.op];
    if (a.kind == ActionKind::collective)
      return {Kind::collective, t.group, a.stream, p_.mesh.members(t.group, player.rank).front(),
              0, 0};
    if (a.kind == ActionKind::send || a.kind == ActionKind::receive) {
      const int peer = p_.mesh.members(t.group, player.rank).back();
      const bool sends = a.kind == ActionKind::send;
      return {Kind::message, {}, {}, sends ? player.rank : peer, sends ? peer : player.rank, t.tag};
    }
    const bool up = a.kind == ActionKind::push || a.kind == ActionKind::serve_push;
    const int turn = turn_of(p_, t, a.kind, player.rank);
    return {up ? Kind::push : Kind::pull, {}, {}, server_group(player.rank), turn, 0};
  }

  bool has_peer(const Player& player, const Item& item) const {
    const RankClass& k = *player.part->k;
    const Group group = k.transfers[k.actions[item.at.action].op].group;
    if (k.chunks() > 1) return true;   // the chain of chunks goes on from the last rank
    if (group == Group::next) return k.stage + 1 < p_.mesh.pipeline;
    return group != Group::previous || k.stage > 0;
  }

  // Which side of the channel an item is on: members of a collective are all on one side.
  static bool second_side(ActionKind kind) {
    return kind == ActionKind::receive || kind == ActionKind::serve_push ||
           kind == ActionKind::pull;
  }

  void enter(std::size_t r) {
    const Player& player = played_[r];
    for (std::size_t i = 0; i < player.part->items.size(); ++i) {
      const Item& item = player.part->items[i];
      if (!item.meets) continue;
      const ActionKind kind = player.part->k->actions[item.at.action].kind;
      if (!has_peer(player, item)) {
        mismatch(r, i, "a stage on that side", "none");
        continue;
      }
      channels_[channel_of(player, item)][{r, second_side(kind)}].push_back(i);
    }
  }

  // Parties that a channel must have, as (player, side).
  std::vector<std::pair<std::size_t, bool>> parties(const Channel& c) const {
    std::vector<std::pair<std::size_t, bool>> all;
    for (std::size_t r = 0; r < played_.size(); ++r) {
      const int rank = played_[r].rank;
      const RankClass& k = *played_[r].part->k;
      if (c.kind == Kind::message) {
        if (rank == c.first) all.emplace_back(r, false);
        if (rank == c.second) all.emplace_back(r, true);
      } else if (c.kind == Kind::collective) {
        if (!p_.mesh.is_server(rank) && in_group(c, rank)) all.emplace_back(r, false);
      } else if (server_group(rank) == c.first) {
        const bool comes = c.second == 0 || (k.is_worker && c.second == turn_of_worker(p_, rank));
        if (k.is_worker && comes) all.emplace_back(r, c.kind == Kind::pull);
        if (k.is_server) all.emplace_back(r, c.kind == Kind::push);
      }
    }
    return all;
  }

  // A rank that stands for its equals is in the group whenever one of these is.
  bool in_group(const Channel& c, int rank) const {
    const Coordinates x = p_.mesh.coordinates(rank);
    if (c.group == Group::embedding && x.pipeline != 0 && x.pipeline != p_.mesh.pipeline - 1)
      return false;
    return p_.mesh.members(c.group, rank).front() == c.first;
  }

  void mismatch(std::size_t r, std::size_t item, std::string expected, std::string found) {
    const Player& player = played_[r];
    mismatched_ = true;
    problems_.add(Rule::matching, who(player), *player.part->k, player.part->items[item].at,
                  std::move(expected), std::move(found),
                  "all parties issue the same transfers in the same order");
  }

  // The parties' lists must agree item by item; agreeing items become meetings.
  void match() {
    for (const auto& [channel, calls] : channels_) {
      const auto all = parties(channel);
      std::size_t most = 0;
      for (const auto& [party, items] : calls) most = std::max(most, items.size());
      std::size_t n = 0;
      while (n < most && match_one(channel, calls, all, n)) ++n;
    }
  }

  bool match_one(const Channel& channel, const Calls& calls,
                 const std::vector<std::pair<std::size_t, bool>>& all, std::size_t n) {
    Meeting meeting;
    meeting.buffered = channel.kind == Kind::push || channel.kind == Kind::pull;
    std::size_t reference = kNothing, reference_item = 0;
    for (const auto& party : all) {
      const auto it = calls.find(party);
      if (it == calls.end() || it->second.size() <= n) continue;
      meeting.parties.push_back({party.first, it->second[n]});
      meeting.awaited += meeting.buffered && party.second ? 0 : 1;
      if (reference == kNothing) reference = party.first, reference_item = it->second[n];
    }
    if (reference == kNothing) return false;
    for (const auto& party : all) {
      const auto it = calls.find(party);
      if (it != calls.end() && it->second.size() > n) continue;
      mismatch(reference, reference_item, "a counterpart on " + who(played_[party.first]),
               "that rank issues " + std::to_string(it == calls.end() ? 0 : it->second.size()) +
                   " of them");
      return false;
    }
    for (const Party& party : meeting.parties) {
      if (item_of(party).terms == item_of({reference, reference_item}).terms) continue;
      mismatch(party.player, party.item,
               "the transfer of " + describe_item({reference, reference_item}),
               "another transfer, type or size");
      return false;
    }
    for (const Party& party : meeting.parties)
      played_[party.player].meeting[party.item] = meetings_.size();
    meetings_.push_back(std::move(meeting));
    return true;
  }

  const Item& item_of(const Party& party) const {
    return played_[party.player].part->items[party.item];
  }
  bool collects(const Party& party) const {
    const RankClass& k = *played_[party.player].part->k;
    return second_side(k.actions[item_of(party).at.action].kind);
  }
  std::string describe_item(const Party& party) const {
    const Player& player = played_[party.player];
    return describe(who(player), *player.part->k, item_of(party).at);
  }

  // Runs every stream until nothing moves. O(items), each stream revisited when its rank advances.
  void play() {
    std::vector<std::size_t> work;
    for (std::size_t r = 0; r < played_.size(); ++r) work.push_back(r);
    while (!work.empty()) {
      const std::size_t r = work.back();
      work.pop_back();
      bool moved = true;
      while (moved) {
        moved = false;
        for (std::size_t s = 0; s < kStreams; ++s) moved |= advance(r, s, work);
      }
    }
    report_stuck();
  }

  bool advance(std::size_t r, std::size_t s, std::vector<std::size_t>& work) {
    Player& player = played_[r];
    const auto& queue = player.part->streams[s];
    bool moved = false;
    while (player.head[s] < queue.size()) {
      const std::size_t i = queue[player.head[s]];
      if (!player.done[i] && !start(r, i, work)) break;
      ++player.head[s];
      moved = true;
    }
    return moved;
  }

  bool waits_hold(const Player& player, std::size_t i) const {
    const auto& after = player.part->items[i].after;
    return std::ranges::all_of(after, [&](std::size_t a) { return player.done[a]; });
  }

  // Whether the item at the head of its stream completes now. The last party to come to a meeting
  // completes it for all.
  bool start(std::size_t r, std::size_t i, std::vector<std::size_t>& work) {
    Player& player = played_[r];
    if (!waits_hold(player, i)) return false;
    if (player.meeting[i] == kNothing) return player.done[i] = true;
    Meeting& meeting = meetings_[player.meeting[i]];
    const bool posts = meeting.buffered && !collects({r, i});
    if (meeting.buffered && !posts)
      return player.done[i] = meeting.arrived == meeting.awaited;
    if (!arrived_.emplace(r, i).second) return false;
    const bool complete = ++meeting.arrived == meeting.awaited;
    if (complete) {
      for (const Party& party : meeting.parties) {
        if (!meeting.buffered) played_[party.player].done[party.item] = true;
        if (party.player != r) work.push_back(party.player);
      }
    }
    if (posts) player.done[i] = true;
    return posts || complete;
  }

  // What holds up the head of a stream: an earlier item of the rank, or a party that has not come.
  Party cause(const Party& stuck) const {
    const Player& player = played_[stuck.player];
    for (const std::size_t a : item_of(stuck).after)
      if (!player.done[a]) return {stuck.player, a};
    if (player.meeting[stuck.item] == kNothing) return stuck;
    const Meeting& meeting = meetings_[player.meeting[stuck.item]];
    for (const Party& party : meeting.parties) {
      const bool late = !arrived_.contains({party.player, party.item});
      if (late && !(meeting.buffered && collects(party))) return party;
    }
    return stuck;
  }

  // The item that now blocks the stream that `party` is queued in.
  Party head_of(const Party& party) const {
    const Player& player = played_[party.player];
    const auto s = static_cast<std::size_t>(item_of(party).stream);
    return {party.player, player.part->streams[s][player.head[s]]};
  }

  void report_stuck() {
    for (std::size_t r = 0; r < played_.size(); ++r) {
      for (std::size_t s = 0; s < kStreams; ++s) {
        const auto& queue = played_[r].part->streams[s];
        if (played_[r].head[s] == queue.size()) continue;
        return report_cycle({r, queue[played_[r].head[s]]});
      }
    }
  }

  // Follows causes until one repeats. One cycle is enough to act on.
  void report_cycle(Party at) {
    std::vector<Party> path;
    const auto seen = [&](const Party& x) {
      return std::ranges::find_if(path, [&](const Party& y) {
        return x.player == y.player && x.item == y.item;
      });
    };
    while (seen(at) == path.end()) {
      path.push_back(at);
      at = head_of(cause(at));
    }
    std::string chain;
    for (auto it = seen(at); it != path.end(); ++it)
      chain += describe_item(*it) + " waits for " + describe_item(cause(*it)) + ", behind ";
    const Player& player = played_[at.player];
    problems_.add(Rule::progress, who(player), *player.part->k, item_of(at).at, "progress",
                  "a deadlock: " + chain + describe_item(at), "break the cycle");
  }

  const Program& p_;
  Problems& problems_;
  std::vector<Part> parts_;
  std::vector<Player> played_;
  std::map<Channel, Calls> channels_;
  std::vector<Meeting> meetings_;
  std::set<std::pair<std::size_t, std::size_t>> arrived_;
  bool mismatched_ = false;
};

}  // namespace

void check_ranks(const Program& program, std::int64_t micro_batches, Problems& problems) {
  Ranks(program, micro_batches, problems).run();
}

}  // namespace program::checker
