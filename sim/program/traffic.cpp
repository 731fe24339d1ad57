#include "sim/program/traffic.hpp"

#include <algorithm>
#include <map>
#include <tuple>

#include "core/check.hpp"
#include "sim/program/each_action.hpp"
#include "sim/program/turns.hpp"

namespace program {
namespace {

constexpr std::string_view kServerEntry = "parameter_server.server";

// Calls that agree in everything that decides their volume.
struct Issue {
  ActionKind kind{};                   // collective, send, push or serve_pull
  Transfer transfer;
  std::int64_t elements = 0;
  // Of the span of which this is one rank's part; of 0 elements: no part.
  std::int64_t divided = 0;
  int expert_ways = 1;
  std::int64_t times = 0;              // per step and rank
};

using IssueKey = std::tuple<ActionKind, std::uint16_t, std::int64_t, std::int64_t, int>;

// The span whose part a collective works on: its last parts are shorter. nullptr: no part.
const Span* divided_span(const RankClass& k, const Action& action, const Call& call) {
  if (action.kind != ActionKind::collective) return nullptr;
  const Range range = k.views[action.first_arg + action.arg_count - 1u].range;
  const bool part = range == Range::span_chunk || range == Range::unit_chunk ||
                    range == Range::span_shard;
  return part ? &k.spans[call.layer] : nullptr;
}

bool sends(ActionKind kind) {
  return kind == ActionKind::collective || kind == ActionKind::send || kind == ActionKind::push ||
         kind == ActionKind::serve_pull || kind == ActionKind::copy;
}

class Counter {
 public:
  explicit Counter(const RankClass& k) : class_(k) {}

  void add(const Action& action, const Call& call, std::int64_t times) {
    if (!sends(action.kind)) return;
    const Span* span = divided_span(class_, action, call);
    counts_[{action.kind, action.op, transfer_elements(class_, action, call),
             span != nullptr ? span->elements : 0, span != nullptr ? span->expert_ways : 1}] +=
        times;
  }

  std::vector<Issue> issues() const {
    std::vector<Issue> all;
    for (const auto& [key, times] : counts_) {
      const auto& [kind, op, elements, divided, ways] = key;
      PLANNER_CHECK(op < class_.transfers.size(), "a communicating action names its transfer");
      if (times > 0) all.push_back({kind, class_.transfers[op], elements, divided, ways, times});
    }
    return all;
  }

 private:
  const RankClass& class_;
  std::map<IssueKey, std::int64_t> counts_;
};

std::vector<Issue> issues_of(const RankClass& k) {
  Counter counter(k);
  for_each_action(k, [&](const Action& action, const Call& call, std::int64_t times) {
    counter.add(action, call, times);
  });
  return counter.issues();
}

EntryKey key_of(const Program& p, ActionKind kind, const Transfer& t) {
  if (kind == ActionKind::copy) return {t.what, name(t.collective), t.algorithm, 1};
  const int workers = p.mesh.group_size(Group::data);
  if (kind == ActionKind::push)
    return {t.what, name(Collective::parameter_server), t.algorithm, workers};
  if (kind == ActionKind::serve_pull) return {t.what, kServerEntry, t.algorithm, workers};
  return {t.what, name(t.collective), t.algorithm, p.mesh.group_size(t.group)};
}

struct Volume {
  std::int64_t count = 0;
  core::Bytes payload{}, wire{};
  std::int64_t elements = 0;           // without padding
};

// One push or reply, to all workers or to the one whose turn it is. Stand-alone servers have no
// index among the workers, and need none.
Volume server_volume(const Program& p, const Issue& issue, int rank) {
  const int workers = p.mesh.group_size(Group::data);
  const bool apart = p.mesh.is_server(rank);
  const int index = apart ? 0 : p.mesh.index(Group::data, rank);
  const core::DType type = issue.transfer.wire_type;
  const ServerTraffic t =
      server_traffic(workers, p.servers, p.servers_colocated, index, issue.elements, type, type);
  const core::Bytes whole =
      payload_bytes(Collective::parameter_server, Algorithm::parameter_server, workers, p.servers,
                    issue.elements, type);
  const std::int64_t n = issue.elements;
  if (issue.kind == ActionKind::push) return {1, whole, t.push_per_worker, n};
  if (!takes_turns(issue.transfer)) return {1, whole, t.reply_per_server, n};
  // In turns each worker elsewhere is sent one of equal parts.
  if (is_own_turn(p, issue.transfer, rank)) return {1, whole, core::Bytes(0), n};
  return {1, whole, t.reply_per_server / (apart ? workers : workers - 1), n};
}

Volume volume(const Program& p, const Issue& issue, int rank) {
  if (issue.kind == ActionKind::push || issue.kind == ActionKind::serve_pull)
    return server_volume(p, issue, rank);
  const Transfer& t = issue.transfer;
  if (issue.kind == ActionKind::copy) {
    const core::Bytes all = core::bytes_of(issue.elements, t.wire_type);
    return {1, all, all, issue.elements};
  }
  const int group = p.mesh.group_size(t.group);
  const int index = p.mesh.index(t.group, rank);
  std::int64_t n = issue.elements;
  if (issue.divided > 0)
    n = std::clamp<std::int64_t>(issue.divided - p.part_of(rank) / issue.expert_ways * n, 0, n);
  return {1, payload_bytes(t.collective, t.algorithm, group, 1, n, t.wire_type),
          wire_bytes(t.collective, t.algorithm, group, index, n, t.wire_type), n};
}

using Entries = std::map<EntryKey, TrafficEntry>;

void add_size(std::vector<CallSize>& sizes, const CallSize& more) {
  const auto order = [](const CallSize& s) { return std::tuple(s.group, s.elements, s.type); };
  const auto at = std::ranges::lower_bound(sizes, order(more), {}, order);
  if (at != sizes.end() && order(*at) == order(more))
    at->count += more.count;
  else
    sizes.insert(at, more);
}

Entries entries_of(const Program& p, const std::vector<Issue>& issues, int rank) {
  Entries all;
  for (const Issue& issue : issues) {
    const Volume v = volume(p, issue, rank);
    // What a server says to its own rank counts among what it says to others.
    const bool own = is_own_turn(p, issue.transfer, rank) && issue.kind == ActionKind::serve_pull;
    if (v.wire == core::Bytes(0) && !own) continue;
    const EntryKey key = key_of(p, issue.kind, issue.transfer);
    TrafficEntry& e = all[key];
    std::tie(e.what, e.collective, e.algorithm, e.group_size) = key;
    e.busiest_rank = rank;
    e.count += v.count * issue.times;
    e.payload += v.payload * issue.times;
    e.wire += v.wire * issue.times;
    add_size(e.sizes, {issue.transfer.group, v.elements, issue.transfer.wire_type,
                       v.count * issue.times});
  }
  std::erase_if(all, [](const auto& entry) { return entry.second.wire == core::Bytes(0); });
  return all;
}

// Whether indices of the tensor or of the data axis differ in what they send.
struct Differences {
  bool tensor = false, data = false;
};

Differences differences(const std::vector<Issue>& issues) {
  Differences d;
  for (const Issue& issue : issues) {
    if (issue.kind == ActionKind::push || issue.kind == ActionKind::serve_pull) continue;
    const Transfer& t = issue.transfer;
    const bool alike = t.algorithm == Algorithm::ring || t.algorithm == Algorithm::pairwise ||
                       t.algorithm == Algorithm::naive_all_reduce;
    if (alike) continue;
    if (t.group == Group::tensor) d.tensor = true;
    d.data |= t.group == Group::data || t.group == Group::shard || t.group == Group::replica ||
              t.group == Group::expert_data || t.group == Group::expert_shard;
  }
  return d;
}

// Ranks of a class of which the busiest of each entry is surely one: the lowest id, and every index
// of the axes along which ranks differ. (Whether a worker serves is a matter of its class.)
std::vector<int> candidates(const Program& p, const RankClass& k, const Differences& d) {
  if (!k.is_worker) return {p.mesh.workers()};
  const bool split = p.servers > 0 && p.servers_colocated;
  const int first = split && !k.is_server ? p.servers : 0;
  const int last = split && k.is_server ? p.servers : p.mesh.data;
  std::vector<int> ranks;
  for (int data = first; data < (d.data ? last : first + 1); ++data) {
    for (int tensor = 0; tensor < (d.tensor ? p.mesh.tensor : 1); ++tensor)
      ranks.push_back(p.mesh.rank({tensor, data, k.stage}));
  }
  return ranks;
}

void keep_busier(TrafficEntry& kept, const TrafficEntry& e) {
  const bool lower = e.wire == kept.wire && e.busiest_rank < kept.busiest_rank;
  if (kept.count == 0 || e.wire > kept.wire || lower) kept = e;
}

std::vector<TrafficEntry> values(const Entries& entries) {
  std::vector<TrafficEntry> all;
  for (const auto& [key, entry] : entries) all.push_back(entry);
  return all;
}

}  // namespace

std::optional<EntryKey> entry_of(const Program& program, const RankClass& rank_class,
                                 const Action& action) {
  if (!sends(action.kind)) return std::nullopt;
  return key_of(program, action.kind, rank_class.transfers[action.op]);
}

std::int64_t view_elements(const RankClass& k, const View& view, const Call& call) {
  switch (view.range) {
    case Range::span_chunk:
    case Range::unit_chunk:
    case Range::span_shard: return k.spans[call.layer].shard_elements;
    default: return resolve(k, view, call, 0).elements;
  }
}

std::int64_t transfer_elements(const RankClass& k, const Action& action, const Call& call) {
  PLANNER_CHECK(action.arg_count >= 1, "a communicating action has a view");
  if (action.kind >= ActionKind::push) return k.spans[call.layer].elements;
  return view_elements(k, k.views[action.first_arg + action.arg_count - 1u], call);
}

std::vector<TrafficEntry> traffic(const Program& p) {
  Entries all;
  for (const RankClass& k : p.classes) {
    const std::vector<Issue> issues = issues_of(k);
    for (const int rank : candidates(p, k, differences(issues))) {
      for (const auto& [key, entry] : entries_of(p, issues, rank)) keep_busier(all[key], entry);
    }
  }
  return values(all);
}

std::vector<TrafficEntry> rank_traffic(const Program& p, int rank) {
  PLANNER_CHECK(rank >= 0 && rank < p.mesh.ranks());
  const RankClass& k = p.classes[static_cast<std::size_t>(p.class_of(rank))];
  return values(entries_of(p, issues_of(k), rank));
}

}  // namespace program
