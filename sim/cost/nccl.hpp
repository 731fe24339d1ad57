#pragma once
// What NCCL does with a collective, and how long that takes. The CHOICE of algorithm and protocol
// follows NCCL's own model (NVIDIA/nccl v2.28.9, src/graph/tuning.cc): the pair of least
// lat + bytes / bw with its constants, wire rates and the latency that a network's plugin states.
// The TIME does not use that model's latencies, which are three times too short inside a node; it
// takes a hop as measured on the node (link_latency, a low-latency ring step; internode_latency, a
// Simple step over the network) plus twice NCCL's difference between protocols, the node's measured
// rates, and the steps that NCCL cuts a message into (src/enqueue.cc): trees and NVLS are
// pipelines, whose first step passes every hop before the rest follows.
//
// Validity: one collective at a time on idle links. In-network reduction by InfiniBand switches
// (CollNet) is not modelled. Pure functions, O(1), no allocation; thread-safe.

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/units.hpp"
#include "sim/cost/fabric.hpp"
#include "sim/cost/link.hpp"

namespace cost {

// NCCL's algorithms. tree: its pipelined double binary tree, not program::Algorithm::tree.
enum class Method : std::uint8_t { ring, tree, nvls, nvls_tree, pat };
enum class Protocol : std::uint8_t { ll, ll128, simple };
std::string_view name(Method method);
std::string_view name(Protocol protocol);

struct CollectiveCost {
  core::Picoseconds time{};
  Method method = Method::ring;
  Protocol protocol = Protocol::simple;
  int channels = 0;         // that carry a large message; NCCL takes fewer for small ones
};

// payload: S in the conventions of program/collective.hpp. `paired`: the two ranks share a bridge.
// all_reduce, reduce_scatter, all_gather and broadcast; `method` empty: NCCL's choice.
// REQUIRES: a method that this collective and fabric have (see allowed).
CollectiveCost nccl_collective(program::Collective collective, core::Bytes payload,
                               const Place& place, const Fabric& fabric,
                               std::optional<Method> method = std::nullopt, bool paired = false);

// Whether NCCL would consider it: broadcast rings only; pat for gathers with one rank per node;
// nvls inside one node with a reducing switch, nvls_tree across several of them.
bool allowed(program::Collective collective, Method method, const Place& place,
             const Fabric& fabric);

// What the steps of a ring's one pass wait for, one after another, in the Simple protocol: all of
// a gather's time but its bytes'.
core::Seconds ring_steps(const Place& place, const Fabric& fabric);

// A point-to-point message.
core::Picoseconds message_time(core::Bytes bytes, const Place& place, const Fabric& fabric,
                               bool paired = false);

// All-to-all as grouped messages: a rank keeps 1/n of its S, sends the rest inside the node and
// over its share of the network at the same time.
core::Picoseconds exchange_time(core::Bytes payload, const Place& place, const Fabric& fabric);

// Rows on their way to experts, or back, where a kernel sends a token once to each rank that holds
// some of the `chosen` of `experts` that are its own, and over the network once to each node,
// whose ranks forward it (deepseek-ai/DeepEP, README, normal kernels; its hybrid-ep branch). Chosen
// evenly, of groups_chosen of so many equal groups (0: of all). `payload`: as if each expert's copy
// were sent.
struct Routed {
  std::int64_t experts = 0, chosen = 0, groups = 0, groups_chosen = 0;
};
core::Picoseconds once_each_time(core::Bytes payload, const Routed& routed, const Place& place,
                                 const Fabric& fabric);

}  // namespace cost
