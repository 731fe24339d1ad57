#include "sim/chakra/match.hpp"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <tuple>

#include <fmt/format.h>

#include "sim/chakra/schema.hpp"

namespace engine {
namespace {

using namespace chakra;

// Of all durations together: what the clock holds, with room for two steps.
constexpr double kMostTraced = 2e18;  // 23 days

std::int64_t capped_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? std::numeric_limits<std::int64_t>::max() : sum;
}

class Matcher {
 public:
  Matcher(const std::vector<ChakraTrace>& traces, const std::vector<ChakraGroup>& groups,
          const cost::Machine* machine)
      : traces_(traces), machine_(machine), all_(traces.size()) {
    std::iota(all_.begin(), all_.end(), 0);
    for (const ChakraGroup& g : groups) listed_[g.name] = &g;
    std::uint32_t nodes = 0;
    for (const ChakraTrace& t : traces) {
      out_.first.push_back(nodes);
      nodes += static_cast<std::uint32_t>(t.nodes.size());
    }
    out_.first.push_back(nodes);
    out_.duration.resize(nodes);
    out_.task.assign(nodes, kNobody);
    out_.partner.assign(nodes, kNobody);
  }

  core::Result<ChakraTasks> run() {
    for (const ChakraTrace& t : traces_)
      if (!read(t)) return problem_;
    if (!meet_all()) return problem_;
    if (total_ > kMostTraced)
      return core::Problem{traces_.front().file, "a step of at most 23 days", "a longer one", ""};
    for (std::uint32_t n = 0; n < out_.task.size(); ++n)
      if (out_.task[n] == kNobody) add_task({&n, 1});
    out_.first_seat.push_back(static_cast<std::uint32_t>(out_.seats.size()));
    for (auto& [key, t] : traffic_) out_.traffic.push_back(t);
    return std::move(out_);
  }

 private:
  struct Group {
    std::vector<int> ranks;
    std::vector<std::vector<std::uint32_t>> nodes;  // by member: its collectives in order
  };
  using GroupKey = std::pair<std::string, std::vector<int>>;
  using MessageKey = std::tuple<int, int, std::uint32_t>;  // source, destination, tag
  struct Message {
    std::vector<std::uint32_t> sends, receives;
  };
  using TrafficKey = std::tuple<std::string, std::string, std::string, int>;

  bool refuse(const ChakraTrace& t, const ChakraNode& n, std::string expected, std::string found,
              std::string fix = "") {
    problem_ = {{place_of(t, n), std::move(expected), std::move(found), std::move(fix)}};
    return false;
  }
  const ChakraTrace& trace_of(std::uint32_t node) const {
    const auto after = std::ranges::upper_bound(out_.first, node);
    return traces_[static_cast<std::size_t>(after - out_.first.begin() - 1)];
  }
  const ChakraNode& node_of(std::uint32_t node) const {
    const ChakraTrace& t = trace_of(node);
    return t.nodes[node - out_.first[static_cast<std::size_t>(t.rank)]];
  }

  bool read(const ChakraTrace& t) {
    for (const ChakraGroup& g : t.groups) own_[g.name] = &g;
    std::map<std::uint32_t, Group*> known;  // by text of this trace
    std::map<TrafficKey, ChakraTraffic> of_rank;
    std::uint32_t id = out_.first[static_cast<std::size_t>(t.rank)];
    for (const ChakraNode& n : t.nodes) {
      const bool transfers = n.type >= kSend && n.type <= kCollective;
      if (transfers ? !read_transfer(t, n, id, known, of_rank) : !read_local(t, n, id, of_rank))
        return false;
      total_ += static_cast<double>(out_.duration[id++]);
    }
    own_.clear();
    for (auto& [key, entry] : of_rank) {
      const auto [at, fresh] = traffic_.try_emplace(key, entry);
      if (!fresh && entry.wire > at->second.wire) at->second = entry;
    }
    return true;
  }

  bool read_local(const ChakraTrace& t, const ChakraNode& n, std::uint32_t id,
                  std::map<TrafficKey, ChakraTraffic>& of_rank) {
    const bool copies = n.type == kMemLoad || n.type == kMemStore;
    const bool asks = copies || n.operations > 0;
    if (n.duration == 0 && asks && machine_ == nullptr && (n.size > 0 || n.operations > 0))
      return refuse(t, n, "a duration, or a machine to find it for", "neither",
                    "name one: --gpu h100-sxm-80g");
    out_.duration[id] = local_time(n, machine_).value();
    const ChakraCost copy{"copy", "direct", core::Bytes(n.size), core::Bytes(n.size), {}};
    if (copies && n.size > 0) count(t, n, copy, 1, out_.duration[id], of_rank);
    return true;
  }

  bool read_transfer(const ChakraTrace& t, const ChakraNode& n, std::uint32_t id,
                     std::map<std::uint32_t, Group*>& known,
                     std::map<TrafficKey, ChakraTraffic>& of_rank) {
    std::vector<int> pair;
    std::span<const int> ranks;
    if (n.type == kCollective) {
      const auto at = known.find(n.group);
      Group* group = at == known.end() ? known[n.group] = group_of(t, n) : at->second;
      if (group == nullptr) return false;
      ranks = group->ranks;
      member(*group, t.rank).push_back(id);
    } else {
      if (!join_message(t, n, id, pair)) return false;
      // To itself: between two streams of a rank, over no link.
      if (pair.front() == pair.back()) return out_.duration[id] = n.duration, true;
      ranks = pair;
    }
    const auto index = static_cast<int>(std::ranges::lower_bound(ranks, t.rank) - ranks.begin());
    const core::Result<ChakraCost> cost = transfer_cost(t, n, ranks, index, machine_);
    if (!cost.ok()) return problem_ = cost.problems(), false;
    if (n.duration == 0 && machine_ == nullptr && n.type != kReceive && cost->payload.value() > 0 &&
        ranks.size() > 1)
      return refuse(t, n, "a duration, or a machine to find it for", "neither",
                    "name one: --gpu h100-sxm-80g");
    out_.duration[id] = machine_ == nullptr ? n.duration : cost->time.value() + n.beside;
    if (n.type != kReceive && cost->payload.value() > 0 && ranks.size() > 1)
      count(t, n, *cost, static_cast<int>(ranks.size()), out_.duration[id], of_rank);
    return true;
  }

  static void count(const ChakraTrace& t, const ChakraNode& n, const ChakraCost& cost, int size,
                    std::int64_t duration, std::map<TrafficKey, ChakraTraffic>& of_rank) {
    const TrafficKey key{t.texts[n.what], std::string(cost.collective), std::string(cost.algorithm),
                         size};
    const auto at = of_rank.try_emplace(key).first;
    ChakraTraffic& entry = at->second;
    std::tie(entry.what, entry.collective, entry.algorithm, entry.group_size) = key;
    entry.busiest_rank = t.rank;
    ++entry.count;
    entry.payload = capped_sum(entry.payload, cost.payload.value());
    entry.wire = capped_sum(entry.wire, cost.wire.value());
    entry.seconds += core::to_seconds(core::Picoseconds(duration)).value();
  }

  // ---- collectives ----

  std::vector<std::uint32_t>& member(Group& group, int rank) {
    const auto at = std::ranges::lower_bound(group.ranks, rank);
    return group.nodes[static_cast<std::size_t>(at - group.ranks.begin())];
  }

  Group* group_of(const ChakraTrace& t, const ChakraNode& n) {
    const std::string& name = t.texts[n.group];
    const std::vector<int>* ranks = nullptr;
    if (const auto at = listed_.find(name); at != listed_.end()) ranks = &at->second->ranks;
    else if (const auto own = own_.find(name); own != own_.end()) ranks = &own->second->ranks;
    else if (name.empty() || name == "0") ranks = &all_;
    if (ranks == nullptr) {
      refuse(t, n, fmt::format("a process group of {}", kGroupsFile), '"' + name + '"',
             "list its ranks there: {\"" + name + "\": [0, 1]}");
      return nullptr;
    }
    if (ranks->empty()) ranks = &all_;
    if (!std::ranges::binary_search(*ranks, t.rank) ||
        ranks->back() >= static_cast<int>(traces_.size())) {
      refuse(t, n, fmt::format("a process group of ranks 0 to {}, this one among them",
                               traces_.size() - 1),
             fmt::format("\"{}\" of {} to {}", name, ranks->front(), ranks->back()));
      return nullptr;
    }
    const auto [at, fresh] = groups_.try_emplace({name, *ranks});
    if (fresh) at->second = {*ranks, std::vector<std::vector<std::uint32_t>>(ranks->size())};
    return &at->second;
  }

  bool meet(const Group& group, const std::string& name) {
    const std::size_t most = std::ranges::max_element(group.nodes, {}, [](const auto& nodes) {
                               return nodes.size();
                             })->size();
    for (std::size_t k = 0; k < most; ++k) {
      std::vector<std::uint32_t> seats;
      for (std::size_t m = 0; m < group.ranks.size(); ++m) {
        if (group.nodes[m].size() > k) seats.push_back(group.nodes[m][k]);
        if (group.nodes[m].size() > k && !agree(seats.front(), seats.back())) return false;
      }
      if (seats.size() < group.ranks.size()) return refuse_absence(group, name, seats.front(), k);
      add_task(seats);
    }
    return true;
  }
  bool refuse_absence(const Group& group, const std::string& name, std::uint32_t seat,
                      std::size_t k) {
    std::size_t m = 0;
    while (group.nodes[m].size() > k) ++m;
    return refuse(trace_of(seat), node_of(seat),
                  fmt::format("the {}. collective of group \"{}\" on rank {} too", k + 1, name,
                              group.ranks[m]),
                  fmt::format("{} there", group.nodes[m].size()));
  }
  bool agree(std::uint32_t first, std::uint32_t other) {
    const ChakraNode& a = node_of(first);
    const ChakraNode& b = node_of(other);
    if (a.size == b.size && a.comm_type == b.comm_type) return true;
    return refuse(trace_of(other), b,
                  fmt::format("comm_type {} of {} bytes, as {} has it", a.comm_type, a.size,
                              place_of(trace_of(first), a)),
                  fmt::format("comm_type {} of {} bytes", b.comm_type, b.size));
  }

  // ---- messages ----

  bool join_message(const ChakraTrace& t, const ChakraNode& n, std::uint32_t id,
                    std::vector<int>& pair) {
    const bool sends = n.type == kSend;
    const int source = n.source < 0 && sends ? t.rank : n.source;
    const int destination = n.destination < 0 && !sends ? t.rank : n.destination;
    const int peer = sends ? destination : source;
    if ((sends ? source : destination) != t.rank || peer < 0 ||
        peer >= static_cast<int>(traces_.size()))
      return refuse(t, n, fmt::format("a {} rank {} {} one of ranks 0 to {}",
                                      sends ? "send of" : "receive of", t.rank,
                                      sends ? "to" : "from", traces_.size() - 1),
                    fmt::format("comm_src {}, comm_dst {}", n.source, n.destination));
    Message& m = messages_[{source, destination, n.tag}];
    (sends ? m.sends : m.receives).push_back(id);
    pair = {std::min(source, destination), std::max(source, destination)};
    return true;
  }

  // A workload that was made for a simulator records no times, and its sends do not wait for their
  // receives: ASTRA-sim's collectives of messages send first on all ranks. A recorded message is
  // a meeting, as NCCL has it.
  static bool is_eager(const ChakraNode& send, const ChakraNode& receive) {
    return send.duration == 0 && receive.duration == 0 && send.size > 0;
  }

  bool meet(const MessageKey& key, const Message& m) {
    const auto& [source, destination, tag] = key;
    const std::size_t pairs = std::min(m.sends.size(), m.receives.size());
    for (std::size_t k = 0; k < pairs; ++k) {
      const ChakraNode& send = node_of(m.sends[k]);
      const ChakraNode& receive = node_of(m.receives[k]);
      if (send.size != receive.size || (send.incast > 0) != (receive.incast > 0))
        return refuse(trace_of(m.receives[k]), receive,
                      fmt::format("{} bytes, as {} sends", send.size,
                                  place_of(trace_of(m.sends[k]), send)),
                      fmt::format("{}", receive.size));
      if (send.incast > 0 || is_eager(send, receive)) {  // the receive not before the send
        out_.partner[m.sends[k]] = m.receives[k];
        out_.partner[m.receives[k]] = m.sends[k];
        if (send.incast == 0) out_.duration[m.receives[k]] = 0;  // ends with the send
        continue;
      }
      out_.duration[m.receives[k]] = out_.duration[m.sends[k]];
      add_task(std::array{m.sends[k], m.receives[k]});
    }
    if (m.sends.size() == m.receives.size()) return true;
    const std::uint32_t odd =
        m.sends.size() > pairs ? m.sends[pairs] : m.receives[pairs];
    return refuse(trace_of(odd), node_of(odd),
                  fmt::format("as many receives as sends from rank {} to {} with tag {}", source,
                              destination, tag),
                  fmt::format("{} sends, {} receives", m.sends.size(), m.receives.size()));
  }

  bool meet_all() {
    for (const auto& [key, group] : groups_)
      if (!meet(group, key.first)) return false;
    for (const auto& [key, message] : messages_)
      if (!meet(key, message)) return false;
    return true;
  }

  void add_task(std::span<const std::uint32_t> seats) {
    const auto task = static_cast<std::uint32_t>(out_.first_seat.size());
    out_.first_seat.push_back(static_cast<std::uint32_t>(out_.seats.size()));
    for (const std::uint32_t node : seats) {
      out_.seats.push_back(node);
      out_.task[node] = task;
    }
  }

  const std::vector<ChakraTrace>& traces_;
  const cost::Machine* machine_;
  std::vector<int> all_;
  std::map<std::string, const ChakraGroup*> listed_, own_;
  std::map<GroupKey, Group> groups_;
  std::map<MessageKey, Message> messages_;
  std::map<TrafficKey, ChakraTraffic> traffic_;
  ChakraTasks out_;
  core::Problems problem_;
  double total_ = 0;
};

}  // namespace

core::Result<ChakraTasks> match_chakra(const std::vector<ChakraTrace>& traces,
                                       const std::vector<ChakraGroup>& groups,
                                       const cost::Machine* machine) {
  return Matcher(traces, groups, machine).run();
}

}  // namespace engine
