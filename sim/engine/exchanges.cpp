#include "sim/engine/exchanges.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "sim/program/turns.hpp"

namespace engine {

using program::ActionKind;
using program::Group;

Exchanges::Exchanges(const Scene& scene, const cost::Machine& machine, const FlowOptions& options)
    : scene_(scene),
      wires_(scene.program().mesh.ranks(), machine, options.sharing, options.weak) {
  PLANNER_CHECK(scene.fold().count() == scene.program().mesh.ranks(),
                "messages move between ranks, not between folds of them");
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
  // The sender of a message is the op's own rank, which comes first among its members.
  const program::Mesh& mesh = scene_.program().mesh;
  std::vector<int> members;
  std::vector<std::uint32_t> nodes;
  if (point.kind == ActionKind::send) {
    for (const Party& p : parties) members.push_back(p.rank);
  } else {
    members = mesh.members(t.group, parties.front().rank);
  }
  for (const int rank : members) {
    const auto at = std::ranges::find(parties, rank, &Party::rank);
    PLANNER_CHECK(at != parties.end(), "a member of a group that did not come");
    nodes.push_back(at->node);
  }
  const MessagePlan& plan =
      collective_plan(t, static_cast<int>(members.size()), op.transfer_elements);
  const std::int64_t beside = beside_wires(t, plan, members, op.duration);
  wires_.start(take_token(std::move(nodes)), plan, std::move(members), now, beside);
}

// Of the timed duration what one step has beyond its slowest message. Other algorithms share ports
// among their own messages: these go plain.
std::int64_t Exchanges::beside_wires(const program::Transfer& t, const MessagePlan& plan,
                                     const std::vector<int>& members,
                                     std::int64_t duration) const {
  const bool message = t.algorithm == program::Algorithm::direct &&
                       t.collective == program::Collective::send;
  if (t.algorithm != program::Algorithm::ring && !message) return 0;
  const std::size_t each = message ? 1 : members.size();
  const auto steps = static_cast<std::int64_t>(plan.messages.size() / each);
  std::int64_t slowest = 0;
  for (std::size_t m = 0; m < each; ++m) {
    const Message& of = plan.messages[m];
    const auto alone = wires_.alone(members[static_cast<std::size_t>(of.from)],
                                    members[static_cast<std::size_t>(of.to)], of.bytes);
    if (!alone) return 0;
    slowest = std::max(slowest, *alone);
  }
  return std::max<std::int64_t>(0, duration / steps - slowest);
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
  wires_.start(take_token(std::move(nodes)), plan, std::move(members), now);
  return true;
}

const MessagePlan& Exchanges::collective_plan(const program::Transfer& t, int group,
                                              std::int64_t elements) {
  const PlanKey key{static_cast<int>(t.collective), static_cast<int>(t.algorithm), group, elements,
                    static_cast<int>(t.wire_type)};
  const auto at = plans_.find(key);
  if (at != plans_.end()) return at->second;
  return plans_
      .emplace(key, message_plan(t.collective, t.algorithm, group, elements, t.wire_type))
      .first->second;
}

const MessagePlan& Exchanges::fan_out_plan(int others, std::int64_t bytes) {
  MessagePlan& plan = fan_outs_[{others, bytes}];
  for (int i = static_cast<int>(plan.messages.size()); i < others; ++i)
    plan.messages.push_back({0, i + 1, static_cast<double>(bytes)});
  return plan;
}

void Exchanges::advance(std::int64_t now, std::vector<std::uint32_t>& nodes) {
  done_.clear();
  wires_.advance(now, done_);
  for (const Wires::Done& d : done_) {
    const std::uint32_t node = tokens_[d.token][static_cast<std::size_t>(d.member)];
    if (node != kAbsent) nodes.push_back(node);
    if (--open_[d.token] == 0) free_.push_back(d.token);
  }
}

}  // namespace engine
