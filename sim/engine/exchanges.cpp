#include "sim/engine/exchanges.hpp"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "core/check.hpp"
#include "sim/cost/link.hpp"
#include "sim/cost/nccl.hpp"
#include "sim/program/turns.hpp"

namespace engine {

using program::ActionKind;
using program::Group;

namespace {

const Topology& topology_of(const Scene& scene, const cost::Machine& machine,
                            const FlowOptions& options, std::optional<Topology>& own) {
  if (options.topology != nullptr) return *options.topology;
  return own.emplace(scene.program().mesh.ranks(), machine, options.weak);
}

// Whose duration sim/cost states for the way that the plan goes.
bool is_timed(const program::Transfer& t) {
  return t.algorithm == program::Algorithm::ring ||
         (t.algorithm == program::Algorithm::direct &&
          t.collective == program::Collective::send);
}

}  // namespace

Exchanges::Exchanges(const Scene& scene, const cost::Machine& machine, const FlowOptions& options)
    : scene_(scene), machine_(machine),
      wires_(topology_of(scene, machine, options, own_topology_), options.sharing,
             options.symmetry),
      node_of_(static_cast<std::size_t>(scene.program().mesh.ranks()), kAbsent) {
  const int ranks = scene.program().mesh.ranks();
  const int played = options.symmetry == nullptr ? ranks : options.symmetry->fold().count();
  PLANNER_CHECK(scene.fold().count() == played && wires_.topology().ranks() == ranks,
                "messages move between ranks, or between folds that their links keep");
  if (options.writes != nullptr) begin_writes(*options.writes);
}

std::uint32_t Exchanges::take_token(std::vector<std::uint32_t> nodes) {
  if (free_.empty()) {
    free_.push_back(static_cast<std::uint32_t>(tokens_.size()));
    tokens_.emplace_back();
    open_.push_back(0);
  }
  const std::uint32_t token = free_.back();
  free_.pop_back();
  open_[token] = nodes.size();
  tokens_[token] = std::move(nodes);
  return token;
}

void Exchanges::start(const Timetable& table, const Operation& op, std::span<const Party> parties,
                      std::int64_t now) {
  const MeetingPoint& point = table.points()[op.point];
  const program::Transfer& t = table.rank_class().transfers[point.transfer];
  const Troupe& troupe = troupe_of(t, point.kind == ActionKind::send, parties);
  for (const Party& p : parties) node_of_[static_cast<std::size_t>(p.rank)] = p.node;
  std::vector<std::uint32_t> nodes;
  for (const int rank : troupe.cast.members) {
    std::uint32_t& node = node_of_[static_cast<std::size_t>(rank)];
    PLANNER_CHECK(node != kAbsent, "a member of a group that did not come");
    nodes.push_back(std::exchange(node, kAbsent));
  }
  PLANNER_CHECK(nodes.size() == parties.size(), "somebody came who is no member of the group");
  const MessagePlan& plan = collective_plan(t, troupe, op.transfer_elements);
  const std::uint32_t token = take_token(std::move(nodes));
  if (!is_timed(t)) return wires_.start(token, plan, troupe.cast, now);
  // Of the timed duration what one round has beyond its slowest message. Other algorithms share
  // ports among their own messages: these go plain.
  const Expected slowest = expected(machine_, troupe.slowest_from, troupe.slowest_to,
                                    plan.messages.front().bytes, troupe.share);
  const double part = network_part(t, troupe, op.transfer_elements, plan.rounds * slowest.wire);
  const std::int64_t beside = op.duration / plan.rounds - slowest.latency -
                              static_cast<std::int64_t>(static_cast<double>(slowest.wire) * part);
  wires_.start(token, plan, part < 1 ? thin_cast(troupe, part) : troupe.cast, now, beside);
}

// Of a ring's bytes between nodes, what NCCL's method moves there: by its time, where it is
// shorter than the ring's wires alone take.
double Exchanges::network_part(const program::Transfer& t, const Troupe& troupe,
                               std::int64_t elements, std::int64_t ring_wires) const {
  if (troupe.place.nodes == 1 || ring_wires == 0) return 1;
  const core::Bytes payload = program::payload_bytes(t.collective, t.algorithm, troupe.place.size,
                                                     1, elements, t.wire_type);
  const auto assumed =
      cost::nccl_assumed(t.collective, t.algorithm, troupe.place, payload, machine_);
  if (!assumed || assumed->method == cost::Method::ring) return 1;
  // Few binary digits: sums of such parts are exact, folded and unfolded.
  constexpr double kSteps = 4096;
  const double part =
      static_cast<double>(assumed->time.value()) / static_cast<double>(ring_wires);
  return std::min(1.0, std::ceil(part * kSteps) / kSteps);
}

const Cast& Exchanges::thin_cast(const Troupe& troupe, double part) {
  const auto [at, fresh] = thin_casts_.try_emplace({&troupe, part});
  if (fresh)
    at->second =
        wires_.cast(troupe.folded.members,
                    thinned(troupe.ways, part, wires_.topology(), wires_.symmetry()));
  return at->second;
}

const Exchanges::Troupe& Exchanges::troupe_of(const program::Transfer& t, bool message,
                                              std::span<const Party> parties) {
  int rank = parties.front().rank;
  for (const Party& p : parties) rank = message ? rank : std::min(rank, p.rank);
  const TroupeKey key{static_cast<int>(t.group), static_cast<int>(t.algorithm),
                      static_cast<int>(t.collective), rank};
  const auto at = troupes_.find(key);
  if (at != troupes_.end()) return at->second;
  std::vector<int> ranks = scene_.program().mesh.members(t.group, rank);
  PLANNER_CHECK(!message || (ranks.size() == 2 && ranks.front() == rank));
  return troupes_.emplace(key, make_troupe(t, std::move(ranks))).first->second;
}

Exchanges::Troupe Exchanges::make_troupe(const program::Transfer& t, std::vector<int> ranks) {
  Troupe troupe;
  troupe.size = static_cast<int>(ranks.size());
  const MessagePlan plan =
      message_plan(t.collective, t.algorithm, troupe.size, troupe.size, core::DType::u8);
  const int per_node = machine_.gpus_per_node;
  troupe.place = cost::place_of(scene_.program().mesh, t.group, ranks.front(), per_node);
  if (troupe.place.nodes > 1)
    troupe.share = static_cast<double>(troupe.place.per_node) / per_node;
  const Topology& topology = wires_.topology();
  troupe.folded = fold_group(plan, ranks, topology, wires_.symmetry());
  std::int64_t slowest = -1;
  for (const std::uint32_t m : troupe.folded.first) {
    const int from = ranks[static_cast<std::size_t>(plan.messages[m].from)];
    const int to = ranks[static_cast<std::size_t>(plan.messages[m].to)];
    const std::int64_t time = expected(machine_, from, to, 1e9, troupe.share).time();
    if (time <= slowest) continue;
    slowest = time;
    troupe.slowest_from = from;
    troupe.slowest_to = to;
  }
  troupe.ways = ways_of(plan, troupe.folded, alike_groups(t, std::move(ranks)), topology,
                        wires_.symmetry());
  troupe.cast = wires_.cast(troupe.folded.members, troupe.ways);
  return troupe;
}

// The group itself, and where routes are hashed all others that it stands for.
std::vector<std::vector<int>> Exchanges::alike_groups(const program::Transfer& t,
                                                      std::vector<int> ranks) const {
  std::vector<std::vector<int>> groups{std::move(ranks)};
  if (wires_.symmetry() == nullptr || !wires_.topology().hashed()) return groups;
  const std::vector<int>& of = scene_.fold().of;
  const auto fold_of = [&](int rank) { return of[static_cast<std::size_t>(rank)]; };
  std::set<int> known{groups[0].front()};
  for (int rank = 0; rank < static_cast<int>(of.size()); ++rank) {
    if (fold_of(rank) != fold_of(groups[0].front())) continue;
    std::vector<int> members = scene_.program().mesh.members(t.group, rank);
    if (known.insert(members.front()).second) groups.push_back(std::move(members));
  }
  return groups;
}

const MessagePlan& Exchanges::collective_plan(const program::Transfer& t, const Troupe& troupe,
                                              std::int64_t elements) {
  // Unfolded, groups of one size share a plan.
  const Troupe* own = wires_.symmetry() == nullptr ? nullptr : &troupe;
  const PlanKey key{static_cast<int>(t.collective), static_cast<int>(t.algorithm),
                    troupe.size * 64 + static_cast<int>(t.wire_type), elements, own};
  const auto at = plans_.find(key);
  if (at != plans_.end()) return at->second;
  MessagePlan plan = message_plan(t.collective, t.algorithm, troupe.size, elements, t.wire_type);
  if (own != nullptr) plan = fold_plan(plan, troupe.folded.kinds, troupe.folded.message_kinds);
  return plans_.emplace(key, std::move(plan)).first->second;
}

bool Exchanges::post(const Timetable& table, const Operation& op, Party from, std::int64_t now) {
  const program::Program& p = scene_.program();
  const MeetingPoint& point = table.points()[op.point];
  const program::Transfer& t = table.rank_class().transfers[point.transfer];
  const int worker = p.mesh.is_server(from.rank) ? 0 : from.rank;
  const std::vector<int> workers = p.mesh.members(Group::data, worker);
  std::vector<int> servers;
  for (int s = 0; s < p.servers; ++s)
    servers.push_back(p.servers_colocated ? workers[static_cast<std::size_t>(s)]
                                          : p.mesh.workers() + s);
  std::vector<int> members{from.rank};
  const bool turns = point.kind == ActionKind::serve_pull && program::takes_turns(t);
  if (turns && !program::is_own_turn(p, t, from.rank))
    members.push_back(workers[static_cast<std::size_t>(t.tag - 1)]);
  for (const int rank : point.kind == ActionKind::push ? servers : workers)
    if (rank != from.rank && !turns) members.push_back(rank);
  if (members.size() == 1) return false;
  std::vector<std::uint32_t> nodes(members.size(), kAbsent);
  nodes[0] = from.node;
  const std::int64_t bytes = core::bytes_of(op.transfer_elements, t.wire_type).value();
  const MessagePlan& plan = fan_out_plan(static_cast<int>(members.size()) - 1, bytes);
  auto cast = fan_out_casts_.find(members);
  if (cast == fan_out_casts_.end())
    cast = fan_out_casts_.emplace(members, wires_.cast(plan, members)).first;
  wires_.start(take_token(std::move(nodes)), plan, cast->second, now);
  return true;
}

const MessagePlan& Exchanges::fan_out_plan(int others, std::int64_t bytes) {
  MessagePlan& plan = fan_outs_[{others, bytes}];
  for (int i = static_cast<int>(plan.messages.size()); i < others; ++i)
    plan.messages.push_back({0, i + 1, static_cast<double>(bytes)});
  return plan;
}

// One message of each rank, or of each fold: its weight on a link is the load that the alike ones
// put on one of the alike links.
void Exchanges::begin_writes(const Writes& writes) {
  const Symmetry* symmetry = wires_.symmetry();
  const Fold& fold = scene_.fold();
  Route route;
  std::map<std::uint32_t, double> weights;
  for (std::size_t f = 0; f < fold.first.size(); ++f) {
    const int rank = fold.first[f];
    const double bytes = writes.bytes[static_cast<std::size_t>(rank)];
    if (bytes <= 0) continue;
    wires_.topology().route_write(rank, writes.to_nodes, route);
    weights.clear();
    for (const Network::Hop& h : route.hops)
      weights[symmetry == nullptr ? h.link : symmetry->class_of(h.link)] += h.weight;
    Way way{{}, route.latency};
    for (const auto& [link, weight] : weights) {
      const double alike =
          symmetry == nullptr ? 1 : fold.ranks[f] / symmetry->classes()[link].links;
      way.hops.push_back({link, weight * alike});
    }
    Write& write = writes_.emplace_back();
    write.bytes = bytes;
    write.ranks = fold.ranks[f];
    write.plan.messages.push_back({.bytes = bytes, .copies = 0, .arrivals = 0});
    write.cast = wires_.cast({rank}, {&way, 1});
  }
  unwritten_ = writes_.size();
  for (const Write& write : writes_)   // which stay in their places from now on
    wires_.start(take_token({kAbsent}), write.plan, write.cast, 0);
}

void Exchanges::join(int step, std::int64_t now, std::size_t ranks) {
  if (writes_.empty()) return;
  const auto at = static_cast<std::size_t>(step);
  joined_.resize(std::max(joined_.size(), at + 1), 0);
  if (++joined_[at] == ranks) log_.push_back({now, written(now)});
}

double Exchanges::written(std::int64_t now) const {
  std::vector<double> left;
  for (const Write& write : writes_) left.push_back(write.arrived ? 0 : write.bytes);
  wires_.each_in_flight(now, [&](std::uint32_t token, double bytes) {
    if (token < left.size()) left[token] = bytes;
  });
  double sum = 0;
  for (std::size_t w = 0; w < writes_.size(); ++w)
    sum += (writes_[w].bytes - left[w]) * writes_[w].ranks;
  return sum;
}

void Exchanges::advance(std::int64_t now, std::vector<std::uint32_t>& nodes) {
  done_.clear();
  wires_.advance(now, done_);
  for (const Wires::Done& d : done_) {
    if (d.token < writes_.size() && !std::exchange(writes_[d.token].arrived, true)) {
      --unwritten_;
      written_at_ = now;
      continue;                        // its token stays its own
    }
    const std::uint32_t node = tokens_[d.token][static_cast<std::size_t>(d.member)];
    if (node != kAbsent) nodes.push_back(node);
    if (--open_[d.token] == 0) free_.push_back(d.token);
  }
}

}  // namespace engine
