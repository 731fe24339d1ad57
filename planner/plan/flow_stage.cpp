#include "planner/plan/flow_stage.hpp"

#include <algorithm>
#include <map>
#include <numeric>

#include <fmt/format.h>

#include "core/parse_units.hpp"
#include "sim/program/traffic.hpp"

namespace planner {
namespace {

// Messages that are played one by one, and edges that are compared to find ranks alike: a minute or
// two of one core each.
constexpr double kMostMessages = 5e8, kMostEdges = 2e7;
// Where routes are hashed so many ranks are played one by one, and of more those that are alike but
// for the hashes.
constexpr int kMostHashedApart = 64;
constexpr std::size_t kMostListed = 4096;  // links
// What a picture of a kind of links has: cells, and the links that are named.
constexpr std::int64_t kMostCells = 96;
constexpr std::size_t kWorstLinks = 3;
// Of a fabric: links between switches, and entries of the table of distances, which has one for
// every switch and every switch that nodes are attached to (two bytes each).
constexpr std::int64_t kMostFabricLinks = 1'000'000, kMostDistances = 50'000'000;

std::int64_t nodes_of(const Plan& plan) {
  const std::int64_t per_node = plan.profile.node.gpus_per_node;
  return (plan.gpus + per_node - 1) / per_node;
}

// Messages of a step, at most: a collective of K members takes K - 1 of each, an all-reduce twice
// as many.
double messages_of(const program::Program& program, std::size_t played) {
  double sum = 0;
  for (const program::TrafficEntry& t : program::traffic(program))
    sum += static_cast<double>(t.count) * 2 * (t.group_size - 1);
  return sum * static_cast<double>(played);
}

std::string rough_text(double count) {
  return core::count_text(static_cast<std::int64_t>(std::min(count, 9e18)));
}

TierLoad tier_load(const std::string& name, const std::vector<LinkLoad>& links) {
  TierLoad tier;
  tier.tier = name;
  tier.links = std::ssize(links);
  tier.links_per_cell = (tier.links + kMostCells - 1) / kMostCells;
  for (std::int64_t l = 0; l < tier.links; ++l) {
    const double share = links[static_cast<std::size_t>(l)].share;
    if (l % tier.links_per_cell == 0) tier.cells.push_back(0);
    tier.cells.back() = std::max(tier.cells.back(), share);
    tier.mean += share / static_cast<double>(tier.links);
  }
  std::vector<std::size_t> order(links.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const std::size_t few = std::min(kWorstLinks, order.size());
  std::ranges::partial_sort(order, order.begin() + static_cast<std::ptrdiff_t>(few), {},
                            [&](std::size_t l) { return std::pair(-links[l].share, l); });
  for (std::size_t i = 0; i < few; ++i) tier.worst.push_back(links[order[i]]);
  tier.most = tier.worst.front().share;
  tier.busiest = tier.worst.front().name;
  return tier;
}

// Why a fabric cannot join the plan's nodes.
core::Problems fabric_problems(const hw_profiles::Fabric& fabric, const Plan& plan) {
  const std::int64_t nodes = nodes_of(plan), per_node = plan.profile.node.gpus_per_node;
  if (fabric.gpus_per_node > 0 && fabric.gpus_per_node != per_node)
    return {{"--fabric", fmt::format("a fabric for the plan's nodes of {} GPUs", per_node),
             fmt::format("{} for nodes of {}", fabric.id, fabric.gpus_per_node),
             fmt::format("plan with --gpus-per-node {}", fabric.gpus_per_node)}};
  if (nodes > room(fabric))
    return {{"--fabric", fmt::format("room for the plan's {} nodes", nodes),
             fmt::format("{} for {}", fabric.id, room(fabric)),
             "add nodes to the fabric's file, or plan fewer --gpus"}};
  const hw_profiles::FabricSize size = size_of(fabric, nodes);
  if (size.links <= kMostFabricLinks && size.switches * size.leaves <= kMostDistances) return {};
  return {{"--fabric",
           fmt::format("at most {} links between switches, and {} switches times leaves",
                       core::count_text(kMostFabricLinks), core::count_text(kMostDistances)),
           fmt::format("{} links, {} switches and {} leaves for the plan's {} nodes",
                       core::count_text(size.links), core::count_text(size.switches),
                       core::count_text(size.leaves), nodes),
           "state larger or fewer switches in the fabric's file, or plan fewer --gpus"}};
}

}  // namespace

FlowStage::FlowStage(const program::Program& program, const cost::Machine& machine,
                     const SimulateOptions& o, const engine::Writes* writes)
    : writes_(writes) {
  if (!o.flows) return;
  const int ranks = program.mesh.ranks();
  auto topology = o.fabric ? std::make_unique<engine::Topology>(ranks, machine, o.flows->weak,
                                                                *o.fabric, o.seed)
                           : std::make_unique<engine::Topology>(ranks, machine, o.flows->weak);
  if (writes != nullptr && !writes->to_nodes) topology->add_storage(*o.checkpoint->storage);
  topology_ = std::move(topology);
  const bool folds = !o.unfold && o.jitter == 0 &&
                     o.flows->sharing == engine::Sharing::shared && engine::can_fold(program) &&
                     engine::count_edges(program) <= kMostEdges &&
                     (!topology_->hashed() || ranks > kMostHashedApart);
  if (folds)
    symmetry_ = std::make_unique<engine::Symmetry>(
        program, engine::groups_of(program, machine.gpus_per_node), *topology_,
        engine::straggler_marks(ranks, o.stragglers), writes);
  // Where no two ranks are alike, hashed routes need no bounds: all of them are played.
  if (symmetry_ && symmetry_->fold().count() == ranks) symmetry_.reset();
}

engine::Scene FlowStage::scene(const program::Program& program, const cost::Machine& machine,
                               const SimulateOptions& o) const {
  return {program, machine,
          {.unfold = o.unfold || (o.flows && !symmetry_),
           .fold = symmetry_ ? &symmetry_->fold() : nullptr, .parts = true,
           .stragglers = o.stragglers, .jitter = o.jitter, .seed = o.seed}};
}

std::optional<engine::FlowOptions> FlowStage::flows(const SimulateOptions& o) const {
  std::optional<engine::FlowOptions> flows = o.flows;
  if (!flows) return flows;
  flows->topology = topology_.get();
  flows->symmetry = symmetry_.get();
  flows->writes = writes_;
  return flows;
}

LinkLoads FlowStage::loads(const engine::Outcome& outcome, core::Seconds step) const {
  LinkLoads loads;
  loads.worst_of_alike = symmetry_ && topology_->hashed();
  loads.layers = topology_->layers();
  std::map<std::string, std::vector<std::uint32_t>> of_tier;
  std::vector<std::string> order;      // of tiers, as their links first come
  const std::vector<engine::TopologyLink>& links = topology_->links();
  for (std::uint32_t l = 0; l < links.size(); ++l) {
    std::vector<std::uint32_t>& tier = of_tier[topology_->tier(l)];
    if (tier.empty()) order.push_back(topology_->tier(l));
    tier.push_back(l);
  }
  const auto load_of = [&](std::uint32_t l) {
    const double bytes = outcome.carried[l] / outcome.steps;
    const double most = links[l].rate * 1e12 * step.value();
    return LinkLoad{topology_->name(l), bytes, most > 0 ? bytes / most : 0};
  };
  for (const std::string& tier : order) {
    std::vector<LinkLoad> of_links;
    for (const std::uint32_t l : of_tier[tier]) of_links.push_back(load_of(l));
    loads.tiers.push_back(tier_load(tier, of_links));
    loads.tiers.back().rate =
        core::BytesPerSecond(links[of_tier[tier].front()].rate * 1e12);
  }
  for (std::uint32_t l = 0; l < links.size() && links.size() <= kMostListed; ++l)
    loads.links.push_back(load_of(l));
  return loads;
}

core::Problems flow_problems(const Plan& plan, const SimulateOptions& o) {
  core::Problems problems;
  if (!o.flows) return problems;
  for (const engine::WeakLink& w : o.flows->weak) {
    if (w.rank >= plan.gpus)
      problems.push_back({"--link-down", fmt::format("a rank below {}", plan.gpus),
                          fmt::format("rank={}", w.rank), "name a rank of the plan"});
    if (w.share == 0 && plan.profile.node.internode_bandwidth.value() <= 0 && !o.fabric)
      problems.push_back({"--link-down", "a network to go around a broken link", "none",
                          "keep a share of the link: rank=3,share=0.5"});
  }
  if (o.fabric) {
    const core::Problems of_fabric = fabric_problems(*o.fabric, plan);
    problems.insert(problems.end(), of_fabric.begin(), of_fabric.end());
  }
  return problems;
}

core::Problems too_many_messages(const program::Program& program, std::size_t played,
                                 const SimulateOptions& o) {
  if (!o.flows) return {};
  const double messages = messages_of(program, played);
  if (messages <= kMostMessages) return {};
  return {{"--collectives flows",
           fmt::format("a step of at most {} messages", rough_text(kMostMessages)),
           fmt::format("{} between {} ranks that are not alike", rough_text(messages), played),
           is_slowed(o) ? "leave out what tells ranks apart: --straggler, --link-down, --jitter"
                        : "leave --unfold out, or plan fewer --gpus"}};
}

bool is_slowed(const SimulateOptions& o) {
  return !o.stragglers.empty() || o.jitter > 0 || (o.flows && !o.flows->weak.empty());
}

hw_profiles::Profile with_fabric(const hw_profiles::Profile& profile, const SimulateOptions& o) {
  hw_profiles::Profile changed = profile;
  if (!o.fabric) return changed;
  changed.node.nics = o.fabric->nics_per_node;
  changed.node.internode_bandwidth = o.fabric->nic_bandwidth * o.fabric->nics_per_node;
  changed.node.internode_efficiency = o.fabric->nic_efficiency;
  return changed;
}

}  // namespace planner
