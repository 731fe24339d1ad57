#pragma once
// Internal: NCCL's own model of a collective, by which it chooses algorithm and protocol
// (NVIDIA/nccl v2.28.9, src/graph/tuning.cc): lat + bytes / bw with its constants, on the links as
// NCCL sees them: wire rates, and the latency that a network's plugin states. What the time model
// (nccl.cpp) shares with it is here too. Pure functions, O(1).

#include <array>
#include <cmath>

#include "sim/cost/nccl.hpp"

namespace cost {

constexpr double kMicro = 1e-6, kGiga = 1e9;
constexpr int kMethods = 5, kProtocols = 3;

// Microseconds; rows ring, tree, nvls, nvls_tree, pat, columns LL, LL128, Simple.
using LatencyTable = std::array<std::array<double, kProtocols>, kMethods>;
constexpr LatencyTable kNvlinkStep{
    {{.6, 1.9, 3.4}, {.6, 1.25, 4}, {0, 0, 25}, {0, 0, 25}, {0, 0, 4}}};
constexpr LatencyTable kPciStep{
    {{1, 2.5, 5.7}, {1, 1.9, 4}, {0, 0, 0}, {0, 0, 0}, {0, 0, 4}}};
constexpr LatencyTable kNetStep{
    {{2.7, 4, 14}, {5, 8.5, 14}, {0, 0, 18}, {0, 0, 20.9}, {0, 0, 14}}};

constexpr std::size_t at(auto value) { return static_cast<std::size_t>(value); }
inline const LatencyTable& local_steps(const Fabric& f) {
  return f.nvlink.value() > 0 && f.linked ? kNvlinkStep : kPciStep;
}

// A group and the rates that it meets, GB/s.
struct Shape {
  double ranks = 1, nodes = 1, per_node = 1;
  double levels = 0;        // log2(nodes)
  int column = 0;           // of the tables by node count: one node, two, more
  double in = 0, out = 0;   // a GPU's links; the group's share of the node's network
  double paths = 1;         // channels that NCCL's search finds; it then runs two on each

  double ring() const { return nodes > 1 ? std::min(in, out) : in; }
  // A tree over nodes: a node sends the vector once to one peer, and on average twice where it has
  // parent and children.
  double tree_out() const { return out / (nodes > 2 ? 2 : 1); }
};
// `network`: of the whole node; wire rate for the choice, achieved rate for the time.
Shape shape_of(const Place& place, const Fabric& f, core::BytesPerSecond network, bool paired);

inline int passes_of(program::Collective c) {
  return c == program::Collective::all_reduce ? 2 : 1;
}

// Payload of NVLS inside a node, GB/s: each GPU's links carry the vector n + 1 times per n.
double multicast_rate(const Shape& s, const Fabric& f);
// Payload of a ring or pat, of NVLS over nodes or inside one, GB/s.
double common_rate(program::Collective c, Method m, Protocol p, const Shape& s, const Fabric& f);
// Most that LL's bus carries, and LL128's trees, GB/s.
double ll_most(const Shape& s, const Fabric& f);
double tree_ll128_most(const Shape& s, const Fabric& f);

// Steps one after another, `in` and `net` microseconds each.
double steps_latency(program::Collective c, Method m, const Shape& s, double in, double net);

// NCCL's own estimate, microseconds.
double model_time(program::Collective c, Method m, Protocol p, double bytes, const Shape& s,
                  const Fabric& f);

}  // namespace cost
