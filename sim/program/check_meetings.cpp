// Matching: the ranks' calls are put together, party by party.
#include "sim/program/check_meetings.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "sim/program/checker.hpp"
#include "sim/program/traffic.hpp"
#include "sim/program/turns.hpp"

namespace program::checker {
namespace {

bool meets(ActionKind kind) {
  return kind == ActionKind::collective || kind == ActionKind::send ||
         kind == ActionKind::receive || kind >= ActionKind::push;
}

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
    if (a.signal != kNone) signalled[key(k.signals[a.signal], at.call)] = part.items.size();
    part.items.push_back(std::move(item));
  });
  return part;
}

}  // namespace

bool takes(ActionKind kind) {
  return kind == ActionKind::receive || kind == ActionKind::serve_push ||
         kind == ActionKind::pull;
}

Meetings::Meetings(const Program& p, std::int64_t micro_batches, Problems& problems)
    : p_(p), problems_(problems) {
  for (const RankClass& k : p.classes) parts_.push_back(part_of(k, micro_batches));
  choose();
  for (std::size_t r = 0; r < players_.size(); ++r) enter(r);
  match();
}

std::string Meetings::describe(const Party& party) const {
  const Player& player = players_[party.player];
  return checker::describe(who(player), *player.part->k, item_of(party).at);
}

// All ranks, or one of each class and stage.
void Meetings::choose() {
  const bool all = p_.mesh.ranks() <= kRanksPlayed;
  std::vector<bool> seen(p_.classes.size(), false);
  for (int rank = 0; rank < p_.mesh.ranks(); ++rank) {
    const auto c = static_cast<std::size_t>(p_.class_of(rank));
    if (!all && seen[c]) continue;
    seen[c] = true;
    const Part& part = parts_[c];
    players_.push_back({rank, &part, std::vector<std::size_t>(part.items.size(), kNothing)});
    if (!all && std::ranges::count(seen, false) == 0) break;
  }
}

int Meetings::server_group(int rank) const {
  return p_.mesh.is_server(rank) ? 0 : p_.mesh.members(Group::data, rank).front();
}

Channel Meetings::channel_of(const Player& player, const Item& item) const {
  const Action& a = player.part->k->actions[item.at.action];
  const Transfer& t = player.part->k->transfers[a.op];
  if (a.kind == ActionKind::collective)
    return {MeetingKind::collective, t.group, a.stream,
            p_.mesh.members(t.group, player.rank).front(), 0, 0};
  if (a.kind == ActionKind::send || a.kind == ActionKind::receive) {
    const int peer = p_.mesh.members(t.group, player.rank).back();
    const bool sends = a.kind == ActionKind::send;
    return {MeetingKind::message, {}, {}, sends ? player.rank : peer, sends ? peer : player.rank,
            t.tag};
  }
  const bool up = a.kind == ActionKind::push || a.kind == ActionKind::serve_push;
  const int turn = turn_of(p_, t, a.kind, player.rank);
  return {up ? MeetingKind::push : MeetingKind::pull, {}, {}, server_group(player.rank), turn, 0};
}

bool Meetings::has_peer(const Player& player, const Item& item) const {
  const RankClass& k = *player.part->k;
  const Group group = k.transfers[k.actions[item.at.action].op].group;
  if (k.chunks() > 1) return true;     // the chain of chunks goes on from the last rank
  if (group == Group::next) return k.stage + 1 < p_.mesh.pipeline;
  return group != Group::previous || k.stage > 0;
}

// Members of a collective are all on one side of its channel.
void Meetings::enter(std::size_t r) {
  const Player& player = players_[r];
  for (std::size_t i = 0; i < player.part->items.size(); ++i) {
    const Item& item = player.part->items[i];
    if (!item.meets) continue;
    if (!has_peer(player, item)) {
      mismatch(r, i, "a stage on that side", "none");
      continue;
    }
    const ActionKind kind = player.part->k->actions[item.at.action].kind;
    channels_[channel_of(player, item)][{r, takes(kind)}].push_back(i);
  }
}

// Parties that a channel must have, as (player, side).
std::vector<std::pair<std::size_t, bool>> Meetings::parties(const Channel& c) const {
  std::vector<std::pair<std::size_t, bool>> all;
  for (std::size_t r = 0; r < players_.size(); ++r) {
    const int rank = players_[r].rank;
    const RankClass& k = *players_[r].part->k;
    if (c.kind == MeetingKind::message) {
      if (rank == c.first) all.emplace_back(r, false);
      if (rank == c.second) all.emplace_back(r, true);
    } else if (c.kind == MeetingKind::collective) {
      if (!p_.mesh.is_server(rank) && in_group(c, rank)) all.emplace_back(r, false);
    } else if (server_group(rank) == c.first) {
      const bool comes = c.second == 0 || (k.is_worker && c.second == turn_of_worker(p_, rank));
      if (k.is_worker && comes) all.emplace_back(r, c.kind == MeetingKind::pull);
      if (k.is_server) all.emplace_back(r, c.kind == MeetingKind::push);
    }
  }
  return all;
}

// A rank that stands for its equals is in the group whenever one of these is.
bool Meetings::in_group(const Channel& c, int rank) const {
  const Coordinates x = p_.mesh.coordinates(rank);
  if (c.group == Group::embedding && x.pipeline != 0 && x.pipeline != p_.mesh.pipeline - 1)
    return false;
  return p_.mesh.members(c.group, rank).front() == c.first;
}

void Meetings::mismatch(std::size_t r, std::size_t item, std::string expected,
                        std::string found) {
  const Player& player = players_[r];
  matched_ = false;
  problems_.add(Rule::matching, who(player), *player.part->k, player.part->items[item].at,
                std::move(expected), std::move(found),
                "all parties issue the same transfers in the same order");
}

// The parties' lists must agree item by item; agreeing items become meetings.
void Meetings::match() {
  for (const auto& [channel, calls] : channels_) {
    const auto all = parties(channel);
    std::size_t most = 0;
    for (const auto& [party, items] : calls) most = std::max(most, items.size());
    std::size_t n = 0;
    while (n < most && match_one(channel, calls, all, n)) ++n;
  }
}

bool Meetings::match_one(const Channel& channel, const Calls& calls,
                         const std::vector<std::pair<std::size_t, bool>>& all, std::size_t n) {
  Meeting meeting{channel.kind, {}};
  for (const auto& party : all) {
    const auto it = calls.find(party);
    if (it != calls.end() && it->second.size() > n)
      meeting.parties.push_back({party.first, it->second[n]});
  }
  if (meeting.parties.empty()) return false;
  const Party reference = meeting.parties.front();
  for (const auto& party : all) {
    const auto it = calls.find(party);
    if (it != calls.end() && it->second.size() > n) continue;
    mismatch(reference.player, reference.item,
             "a counterpart on " + who(players_[party.first]),
             "that rank issues " + std::to_string(it == calls.end() ? 0 : it->second.size()) +
                 " of them");
    return false;
  }
  for (const Party& party : meeting.parties) {
    if (item_of(party).terms == item_of(reference).terms) continue;
    mismatch(party.player, party.item, "the transfer of " + describe(reference),
             "another transfer, type or size");
    return false;
  }
  for (const Party& party : meeting.parties)
    players_[party.player].meeting[party.item] = meetings_.size();
  meetings_.push_back(std::move(meeting));
  return true;
}

}  // namespace program::checker
