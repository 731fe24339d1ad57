#pragma once
// Time of one collective on idle links: steps x latency + wire bytes / bandwidth, by algorithm and
// by the links that the group spans. Wire bytes are those of sim/program/collective.hpp. Rings on
// GPUs are NCCL's, with the protocol that it would choose (nccl.hpp). Pure functions; thread-safe.
//
// A group inside a node moves at the node's link bandwidth per GPU. A group over several nodes
// is bound by the node's network, of which it has the share of the node's GPUs that belong to it:
// the other groups of the same kind communicate at the same time (NCCL's view of a ring,
// src/graph/tuning.cc).

#include <optional>

#include "core/units.hpp"
#include "sim/cost/machine.hpp"
#include "sim/program/collective.hpp"
#include "sim/program/mesh.hpp"

namespace cost {

struct CollectiveCost;  // sim/cost/nccl.hpp

struct Place {
  int size = 1;      // ranks of the group
  int nodes = 1;     // that it spans
  int per_node = 1;  // ranks on the node with most of them
  bool paired = false;  // two ranks that a bridge joins where the node has bridges: 2i and 2i + 1
};

// Where `size` ranks at equal distance lie when ranks fill nodes in order. O(1) where the distance
// divides a node or spans it, as with all usual degrees; O(size) otherwise.
Place place_of(std::int64_t first, std::int64_t size, std::int64_t stride, std::int64_t per_node);

// Where the group of `rank` lies.
Place place_of(const program::Mesh& mesh, program::Group group, int rank, int gpus_per_node);

struct Link {
  core::Seconds latency{};           // of one hop on the slowest link
  core::BytesPerSecond bandwidth{};  // per rank and direction
};
Link link_of(const Place& place, const Machine& machine);

// Of a transfer's time beside computing, what the computing of a rank stands still: its cores move
// the bytes. 0 where engines of their own do.
double held_share(const Place& place, const Machine& machine);

// What NCCL is assumed to run for a collective whose time is taken from its model. Empty: one that
// another model times (plain messages, the Program's tree), or a group of one rank.
std::optional<CollectiveCost> nccl_assumed(program::Collective collective,
                                           program::Algorithm algorithm, const Place& place,
                                           core::Bytes payload, const Machine& machine);

// elements as in program::payload_bytes (unpadded). Not parameter_server (see below).
core::Seconds collective_time(program::Collective collective, program::Algorithm algorithm,
                              const Place& place, std::int64_t elements, core::DType wire_type,
                              const Machine& machine);

// One server takes the pushes of `senders` workers (or sends as many replies) of `bytes` each over
// its one link: incast.
core::Seconds incast_time(const Place& place, int senders, core::Bytes bytes,
                          const Machine& machine);

}  // namespace cost
