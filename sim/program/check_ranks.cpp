// Progress and launches: the ranks' queues played against each other until nothing moves.
#include <algorithm>

#include "sim/program/check_meetings.hpp"
#include "sim/program/turns.hpp"

namespace program::checker {
namespace {

// What is in line with what on a rank. Messages are a rendezvous with either; pushes and replies of
// servers are buffered.
enum class Line : std::uint8_t {
  streams,                             // each stream by itself
  // The whole rank in issue order, but for sends: each is launched when what was issued before is
  // over, holds up the later sends of its stream, and nothing else.
  launches,
};

class Play {
 public:
  Play(const Meetings& meetings, Line line) : meetings_(meetings), line_(line) {
    for (const Player& player : meetings.players()) {
      Rank rank;
      rank.queues.resize(kStreams);
      rank.head.resize(rank.queues.size(), 0);
      rank.done.resize(player.part->items.size(), false);
      rank.here = rank.done;
      ranks_.push_back(std::move(rank));
      const std::size_t r = ranks_.size() - 1;
      for (std::size_t i = 0; i < player.part->items.size(); ++i)
        ranks_[r].queues[queue_of({r, i})].push_back(i);
    }
    arrived_.resize(meetings.all().size(), 0);
  }

  // Runs every queue until nothing moves; the parties of a circle if something is left, each of
  // which waits for the next. O(items), each queue revisited when its rank advances.
  std::vector<Party> circle() {
    std::vector<std::size_t> work;
    for (std::size_t r = 0; r < ranks_.size(); ++r) work.push_back(r);
    while (!work.empty()) {
      const std::size_t r = work.back();
      work.pop_back();
      bool moved = true;
      while (moved) {
        moved = false;
        for (std::size_t q = 0; q < ranks_[r].queues.size(); ++q) moved |= advance(r, q, work);
      }
    }
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      for (std::size_t q = 0; q < ranks_[r].queues.size(); ++q)
        if (ranks_[r].head[q] < ranks_[r].queues[q].size())
          return circle_from({r, ranks_[r].queues[q][ranks_[r].head[q]]});
    return {};
  }

  // What holds up the head of a queue: an earlier item of the rank, or a party that has not come.
  Party cause(const Party& stuck) const {
    if (const std::size_t a = awaits(stuck); a != kNothing) return {stuck.player, a};
    const std::size_t index = meeting_of(stuck);
    if (index == kNothing) return stuck;
    const Meeting& meeting = meetings_.all()[index];
    for (const Party& party : meeting.parties) {
      const bool late = !ranks_[party.player].here[party.item];
      if (late && !(is_buffered(meeting) && is_taker(party))) return party;
    }
    return stuck;
  }

 private:
  struct Rank {
    std::vector<std::vector<std::size_t>> queues;
    std::vector<std::size_t> head;
    std::vector<bool> done;
    std::vector<bool> here;            // came to its meeting
  };

  // The queue of all launches but sends; those of the compute stream stay in it.
  static constexpr std::size_t kLine = 0;

  std::size_t queue_of(const Party& party) const {
    const bool sends = meetings_.item_of(party).meets &&
                       meetings_.action_of(party).kind == ActionKind::send;
    const bool apart = line_ == Line::streams || sends;
    return apart ? static_cast<std::size_t>(meetings_.item_of(party).stream) : kLine;
  }
  std::size_t meeting_of(const Party& party) const {
    return meetings_.players()[party.player].meeting[party.item];
  }
  // Who gives does not wait for those who take.
  static bool is_buffered(const Meeting& meeting) {
    return meeting.kind == MeetingKind::push || meeting.kind == MeetingKind::pull;
  }
  bool is_taker(const Party& party) const { return takes(meetings_.action_of(party).kind); }
  std::size_t awaited(const Meeting& meeting) const {
    if (!is_buffered(meeting)) return meeting.parties.size();
    return static_cast<std::size_t>(std::ranges::count_if(
        meeting.parties, [&](const Party& party) { return !is_taker(party); }));
  }

  bool advance(std::size_t r, std::size_t q, std::vector<std::size_t>& work) {
    Rank& rank = ranks_[r];
    const auto& queue = rank.queues[q];
    bool moved = false;
    while (rank.head[q] < queue.size()) {
      const std::size_t i = queue[rank.head[q]];
      if (!rank.done[i] && !start(r, i, work)) break;
      ++rank.head[q];
      moved = true;
    }
    return moved;
  }

  // An earlier item of the rank that must be over first and is not; kNothing: none.
  std::size_t awaits(const Party& party) const {
    const Rank& rank = ranks_[party.player];
    for (const std::size_t a : meetings_.item_of(party).after)
      if (!rank.done[a]) return a;
    if (line_ == Line::streams || queue_of(party) == kLine) return kNothing;
    const std::size_t head = rank.head[kLine];
    if (head == rank.queues[kLine].size() || rank.queues[kLine][head] > party.item) return kNothing;
    return rank.queues[kLine][head];
  }

  // Whether the item at the head of its queue completes now. The last party to come to a meeting
  // completes it for all.
  bool start(std::size_t r, std::size_t i, std::vector<std::size_t>& work) {
    const Party own{r, i};
    if (awaits(own) != kNothing) return false;
    const std::size_t index = meeting_of(own);
    if (index == kNothing) return ranks_[r].done[i] = true;
    const Meeting& meeting = meetings_.all()[index];
    const bool buffered = is_buffered(meeting), posts = buffered && !is_taker(own);
    if (buffered && !posts) return ranks_[r].done[i] = arrived_[index] == awaited(meeting);
    if (ranks_[r].here[i]) return false;
    ranks_[r].here[i] = true;
    const bool complete = ++arrived_[index] == awaited(meeting);
    if (complete) {
      for (const Party& party : meeting.parties) {
        if (!buffered) ranks_[party.player].done[party.item] = true;
        if (party.player != r) work.push_back(party.player);
      }
    }
    if (posts) ranks_[r].done[i] = true;
    return posts || complete;
  }

  // The item that now blocks the queue that `party` is in.
  Party head_of(const Party& party) const {
    const Rank& rank = ranks_[party.player];
    const std::size_t q = queue_of(party);
    return {party.player, rank.queues[q][rank.head[q]]};
  }

  // Follows causes until one repeats. One circle is enough to act on.
  std::vector<Party> circle_from(Party at) const {
    std::vector<Party> path;
    while (std::ranges::find(path, at) == path.end()) {
      path.push_back(at);
      at = head_of(cause(at));
    }
    path.erase(path.begin(), std::ranges::find(path, at));
    return path;
  }

  const Meetings& meetings_;
  const Line line_;
  std::vector<Rank> ranks_;
  std::vector<std::size_t> arrived_;   // of each meeting
};

// Who waits for whom, and behind what.
std::string chain_of(const Meetings& meetings, const Play& play, const std::vector<Party>& circle,
                     const auto& name) {
  std::string chain;
  for (const Party& party : circle)
    chain += name(party) + " waits for " + meetings.describe(play.cause(party)) + ", behind ";
  return chain + name(circle.front());
}

void report(Rule rule, const Meetings& meetings, const Party& first, Problems& problems,
            std::string expected, std::string found, std::string fix) {
  const Player& player = meetings.players()[first.player];
  problems.add(rule, meetings.who(player), *player.part->k, meetings.item_of(first).at,
               std::move(expected), std::move(found), std::move(fix));
}

const char* name_of(Group group) {
  switch (group) {
    case Group::tensor: return "tensor";
    case Group::data: return "data";
    case Group::shard: return "shard";
    case Group::replica: return "replica";
    case Group::embedding: return "embedding";
    case Group::next: return "next";
    case Group::previous: return "previous";
    case Group::context: return "context";
    case Group::expert: return "expert";
    case Group::expert_data: return "expert_data";
    case Group::expert_shard: return "expert_shard";
    case Group::pipeline: return "pipeline";
  }
  return "";
}

// "rank 0 (stage 0), ..., action 3 (collective), all_reduce of norm in group data (ranks 0, 2)"
std::string with_group(const Program& p, const Meetings& meetings, const Party& party) {
  constexpr std::size_t kShown = 8;
  const Player& player = meetings.players()[party.player];
  if (!meetings.item_of(party).meets) return meetings.describe(party);
  const Transfer& t = player.part->k->transfers[meetings.action_of(party).op];
  std::string text = meetings.describe(party) + ", " + std::string(name(t.collective)) + " of " +
                     std::string(name(t.what)) + " in group " + name_of(t.group);
  if (p.mesh.is_server(player.rank)) return text;
  const std::vector<int> members = p.mesh.members(t.group, player.rank);
  for (std::size_t i = 0; i < members.size() && i < kShown; ++i)
    text += (i == 0 ? " (ranks " : ", ") + std::to_string(members[i]);
  return text + (members.size() > kShown ? ", ...)" : ")");
}

}  // namespace

void check_ranks(const Program& p, std::int64_t micro_batches, bool launches,
                 Problems& problems) {
  const Meetings meetings(p, micro_batches, problems);
  if (!meetings.matched()) return;
  Play streams(meetings, Line::streams);
  if (const std::vector<Party> circle = streams.circle(); !circle.empty()) {
    const auto name = [&](const Party& party) { return meetings.describe(party); };
    return report(Rule::progress, meetings, circle.front(), problems, "progress",
                  "a deadlock: " + chain_of(meetings, streams, circle, name), "break the cycle");
  }
  if (!launches) return;
  Play line(meetings, Line::launches);
  if (const std::vector<Party> circle = line.circle(); !circle.empty()) {
    const auto name = [&](const Party& party) { return with_group(p, meetings, party); };
    report(Rule::launches, meetings, circle.front(), problems,
           "launches that may run one after another on each rank's device",
           "a circle over communicators: " + chain_of(meetings, line, circle, name),
           "launch the calls of different groups in one order on all ranks");
  }
}

}  // namespace program::checker
