#include "sim/cost/link.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "sim/cost/nccl.hpp"

namespace cost {
namespace {

using program::Algorithm;
using program::Collective;

int log2_up(int n) {
  int levels = 0;
  while ((1 << levels) < n) ++levels;
  return levels;
}

bool bridged(const Place& place, const Machine& machine) {
  return machine.pair.value() > 0 && (place.paired || (machine.meshed && place.size == 2));
}

// Hops that the ring's steps wait for, one after another. A ring over N nodes of a step sequence of
// K - 1 crosses N - 1 network hops and passes the rest inside nodes.
core::Seconds ring_latency(const Place& place, const Machine& machine, int passes) {
  const int network = place.nodes - 1;
  const int inside = place.size - 1 - network;
  const core::Seconds hop =
      bridged(place, machine) ? machine.pair_latency : machine.link_latency;
  return static_cast<double>(passes) * (static_cast<double>(inside) * hop +
                                        static_cast<double>(network) * machine.internode_latency);
}

// Binary heap tree, a level at a time: each parent takes (gives) both children's whole vectors over
// its one link.
core::Seconds tree_time(const Place& place, core::Bytes payload, const Link& link) {
  const int levels = log2_up(place.size + 1) - 1;
  const std::int64_t children = std::min(2, place.size - 1);
  const core::Seconds level = link.latency + (payload * children) / link.bandwidth;
  return static_cast<double>(2 * levels) * level;
}

// A message to each other rank: those inside the node, and those over the network, of which the
// group's ranks in a node have their share between them, go at the same time; all are sent before
// any is awaited, so one latency shows. On GPUs as NCCL's grouped messages.
core::Seconds pairwise_time(core::Bytes payload, const Place& place, const Machine& machine) {
  if (machine.fabric) return core::to_seconds(exchange_time(payload, place, *machine.fabric));
  const core::Bytes part = payload / place.size;
  const core::Seconds near = part * (place.per_node - 1) / machine.link;
  if (place.nodes == 1) return machine.link_latency + near;
  const double share = static_cast<double>(place.per_node) / machine.gpus_per_node;
  const std::int64_t outward = std::int64_t{place.per_node} * (place.size - place.per_node);
  const core::Seconds far = part * outward / (machine.internode * share);
  return machine.internode_latency + std::max(near, far);
}

}  // namespace

Place place_of(std::int64_t first, std::int64_t size, std::int64_t stride,
               std::int64_t per_node) {
  Place place{.size = static_cast<int>(size),
              .nodes = 1,
              .per_node = static_cast<int>(size),
              .paired = size == 2 && stride == 1 && first % 2 == 0};
  const std::int64_t offset = first % per_node, last = offset + (size - 1) * stride;
  if (size <= 1 || last < per_node) return place;
  if (stride >= per_node) {
    place.nodes = static_cast<int>(size);
    place.per_node = 1;
  } else if (per_node % stride == 0) {
    const std::int64_t in_first = (per_node - offset + stride - 1) / stride;
    place.nodes = static_cast<int>(last / per_node) + 1;
    place.per_node = static_cast<int>(place.nodes > 2 ? per_node / stride
                                                      : std::max(in_first, size - in_first));
  } else {
    std::int64_t node = 0, here = 0, most = 0, nodes = 1;
    for (std::int64_t at = offset; at <= last; at += stride) {
      if (at / per_node != node) ++nodes, here = 0, node = at / per_node;
      most = std::max(most, ++here);
    }
    place.nodes = static_cast<int>(nodes);
    place.per_node = static_cast<int>(most);
  }
  return place;
}

Place place_of(const program::Mesh& mesh, program::Group group, int rank, int gpus_per_node) {
  const std::vector<int> members = mesh.members(group, rank);
  const auto [low, high] = std::ranges::minmax(members);
  const auto size = static_cast<std::int64_t>(members.size());
  const std::int64_t stride = size > 1 ? (high - low) / (size - 1) : 1;
  return place_of(low, size, stride, gpus_per_node);
}

Link link_of(const Place& place, const Machine& machine) {
  if (place.nodes <= 1) {
    return bridged(place, machine) ? Link{machine.pair_latency, machine.pair}
                                   : Link{machine.link_latency, machine.link};
  }
  const double share = static_cast<double>(place.per_node) / machine.gpus_per_node;
  return {machine.internode_latency, std::min(machine.link, machine.internode * share)};
}

double held_share(const Place& place, const Machine& machine) {
  return machine.hold.value() == 0 ? 0 : link_of(place, machine).bandwidth / machine.hold;
}

std::optional<CollectiveCost> nccl_assumed(Collective collective, Algorithm algorithm,
                                           const Place& place, core::Bytes payload,
                                           const Machine& machine) {
  const bool ring = algorithm == Algorithm::ring && collective != Collective::send;
  if (!ring || !machine.fabric || place.size <= 1) return std::nullopt;
  // Over nodes NCCL sums through trees where it finds them faster; of two ranks both are alike.
  const bool chooses =
      collective == Collective::all_reduce && place.nodes > 1 && place.size > 2;
  const std::optional<Method> method =
      chooses ? std::nullopt : std::optional<Method>(Method::ring);
  return nccl_collective(collective, payload, place, *machine.fabric, method, place.paired);
}

static core::Seconds punctual_time(Collective collective, Algorithm algorithm,
                                   const Place& place, std::int64_t elements,
                                   core::DType wire_type, const Machine& machine) {
  const Link link = link_of(place, machine);
  const core::Bytes payload =
      program::payload_bytes(collective, algorithm, place.size, 1, elements, wire_type);
  // Round a ring as between two: the hop over the slowest link is the last to end.
  if (collective == Collective::send) return link.latency + payload / link.bandwidth;
  if (algorithm == Algorithm::tree) return tree_time(place, payload, link);
  // Index 0 is the root of a broadcast, and as busy as any other rank otherwise.
  const core::Bytes wire =
      program::wire_bytes(collective, algorithm, place.size, 0, elements, wire_type);
  if (collective == Collective::exchange) return pairwise_time(payload, place, machine);
  if (const auto assumed = nccl_assumed(collective, algorithm, place, payload, machine))
    return core::to_seconds(assumed->time);
  if (algorithm == Algorithm::ring) {
    const int passes = collective == Collective::all_reduce ? 2 : 1;
    return ring_latency(place, machine, passes) + wire / link.bandwidth;
  }
  // Naive: every message is sent before any is awaited, so one latency is all that shows.
  return link.latency + wire / link.bandwidth;
}

core::Seconds collective_time(Collective collective, Algorithm algorithm, const Place& place,
                              std::int64_t elements, core::DType wire_type,
                              const Machine& machine) {
  PLANNER_CHECK(algorithm != Algorithm::parameter_server);
  if (place.size <= 1) return core::Seconds{};
  const core::Seconds time =
      punctual_time(collective, algorithm, place, elements, wire_type, machine);
  if (collective == Collective::send) return time;
  return time + machine.rank_wait * static_cast<double>(place.size);
}

core::Seconds incast_time(const Place& place, int senders, core::Bytes bytes,
                          const Machine& machine) {
  if (senders <= 0) return core::Seconds{};
  const Link link = link_of(place, machine);
  return link.latency + (bytes * senders) / link.bandwidth;
}

}  // namespace cost
