#include "sim/cost/nccl.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/check.hpp"

namespace cost {
namespace {

using program::Collective;
using hw_profiles::LinkKind;

constexpr double kMicro = 1e-6, kGiga = 1e9;
constexpr int kMethods = 5, kProtocols = 3;
using PerProtocol = std::array<double, kProtocols>;
using PerNodes = std::array<double, 3>;  // one node, two, more
using PerGeneration = std::array<PerNodes, 4>;

// Microseconds and GB/s of NVIDIA/nccl v2.28.9, src/graph/tuning.cc; rows ring, tree, nvls,
// nvls_tree, pat, columns LL, LL128, Simple.
using LatencyTable = std::array<PerProtocol, kMethods>;
constexpr LatencyTable kBase{{{6.6, 14, 8.4}, {6.8, 14, 8.4}, {0, 0, 0}, {0, 0, 0}, {8, 8, 8}}};
constexpr LatencyTable kNvlink{
    {{.6, 1.9, 3.4}, {.6, 1.25, 4}, {0, 0, 25}, {0, 0, 25}, {0, 0, 4}}};
constexpr LatencyTable kPci{{{1, 2.5, 5.7}, {1, 1.9, 4}, {0, 0, 0}, {0, 0, 0}, {0, 0, 4}}};
constexpr LatencyTable kNet{
    {{2.7, 4, 14}, {5, 8.5, 14}, {0, 0, 18}, {0, 0, 20.9}, {0, 0, 14}}};
constexpr PerGeneration kLlMost{
    {{39, 39, 20.4}, {87.7, 22.5, 19}, {141, 45, 35}, {282, 90, 70}}};
constexpr PerGeneration kRingLl128{
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 36.7}, {73.4, 34.6, 73.4}}};
constexpr PerGeneration kTreeLl128{
    {{20, 20, 20}, {20, 20, 20}, {36.7, 36.7, 29}, {55.6, 31.67, 20}}};
constexpr PerGeneration kTreeSimple{
    {{26.5, 18.5, 10}, {24, 23.6, 17.8}, {38.7, 41.4, 36}, {70, 42.8, 24}}};
constexpr std::array<double, 4> kNvlsEfficiency{0, 0, 0.85, 0.74};
// Channel rates that the search of src/graph/search.cc tries on sm90; newer chips: any.
constexpr std::array kHopperRates{60., 50., 40., 30., 24., 20., 15., 12., 11., 6., 3.};
// Tree bandwidth by log2(bytes / 64), Simple protocol.
constexpr std::array kTreeCorrection{.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5,
                                     .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9};
// Seconds of measured time per second of NCCL's model between protocols and for multicast: the one
// constant of the time model, from all-reduces on 8 x A100 and 8 x H200 (stas00/ml-engineering).
constexpr double kMeasuredPerModel = 2;

struct Shape {
  double ranks, nodes, per_node;
  double levels;  // log2(nodes)
  int column;     // of the tables by node count
};

Shape shape_of(const Place& place) {
  return {static_cast<double>(place.size), static_cast<double>(place.nodes),
          static_cast<double>(place.size) / place.nodes,
          place.nodes > 1 ? std::ceil(std::log2(place.nodes)) : 0.0,
          std::min(place.nodes, 3) - 1};
}

std::size_t at(auto value) { return static_cast<std::size_t>(value); }

int passes_of(Collective c) { return c == Collective::all_reduce ? 2 : 1; }

double network_share(const Shape& s, const Fabric& f) {
  return f.network.value() / kGiga * std::min(1.0, s.per_node / f.gpus_per_node);
}

double inside(const Place& place, const Fabric& f, bool paired) {
  const bool bridge = paired && place.size == 2 && f.pair.value() > 0;
  return (bridge ? f.pair : f.ring).value() / kGiga;
}

// Bus bandwidth of a large ring, GB/s.
double ring_bandwidth(const Place& place, const Shape& s, const Fabric& f, bool paired) {
  const double in = inside(place, f, paired);
  return place.nodes > 1 ? std::min(in, network_share(s, f)) : in;
}

// Payload per second of NVLS inside a node: each GPU's links carry the vector n + 1 times per n.
double multicast_bandwidth(const Shape& s, const Fabric& f) {
  const double most = f.nvlink.value() / kGiga / (s.per_node + 1);
  double rate = most;
  if (f.generation == 2) {
    rate = 3;
    for (const double r : kHopperRates)
      if (r <= most) {
        rate = r;
        break;
      }
  }
  const double bus = 2 * rate * kNvlsEfficiency[at(f.generation)] * (s.per_node - 1);
  return bus * s.per_node / (2 * std::max(1.0, s.per_node - 1));
}

// What a tree over nodes leaves of the network: a node sends the vector once to one peer, and on
// average twice where it has parent and children.
double tree_network(const Shape& s, const Fabric& f) {
  return network_share(s, f) / (s.nodes > 2 ? 2 : 1);
}

double protocol_share(double bus, double cap_ll, double cap_ll128, Protocol p) {
  if (p == Protocol::ll) return std::min(cap_ll, bus / 2);
  if (p == Protocol::ll128) return std::min(0.92 * bus, cap_ll128);
  return bus;
}

// Payload bytes per second, GB/s.
double payload_rate(Collective c, Method m, Protocol p, const Place& place, const Shape& s,
                    const Fabric& f, bool paired) {
  const double ring = ring_bandwidth(place, s, f, paired);
  const double ll = kLlMost[at(place.nodes > 1 ? 1 : f.generation)][at(s.column)];
  const auto per_channel = [&](const PerGeneration& table) {
    return f.channels * table[at(f.generation)][at(s.column)];
  };
  switch (m) {
    case Method::ring:
      return protocol_share(ring, ll, per_channel(kRingLl128), p) * s.ranks /
             (passes_of(c) * (s.ranks - 1));
    case Method::tree: {
      const double in = std::min(0.92 * inside(place, f, paired), per_channel(kTreeSimple));
      const double share = p == Protocol::ll      ? std::min(in / 3.8, ll)
                           : p == Protocol::ll128 ? std::min(in * 7 / 9, per_channel(kTreeLl128))
                                                  : in;
      const double rate = share / 2;
      return s.nodes > 1 ? std::min(rate, tree_network(s, f)) : rate;
    }
    case Method::nvls:
      // Gathers and scatters count (n - 1) / n of a channel where an all-reduce counts 2
      // (tuning.cc).
      return multicast_bandwidth(s, f) *
             (c == Collective::all_reduce ? 1 : (s.per_node - 1) / s.per_node);
    case Method::nvls_tree: return std::min(multicast_bandwidth(s, f), tree_network(s, f));
    case Method::pat: return 0.75 * ring * s.ranks / (s.ranks - 1);
  }
  return ring;
}

const LatencyTable& local_table(const Fabric& f) {
  return f.nvlink.value() > 0 && f.switched ? kNvlink : kPci;
}

// Latency for either purpose: `in` and `net` are one hop inside and between nodes.
double latency(Collective c, Method m, const Shape& s, double in, double net) {
  const double network_steps = s.nodes - 1;
  switch (m) {
    case Method::ring:
      return passes_of(c) * ((s.ranks - 1 - network_steps) * in + network_steps * net);
    case Method::tree: return 2 * ((s.per_node - 1) * in + s.levels * net);
    case Method::nvls: return in;
    case Method::nvls_tree: return in + 2 * s.levels * net;
    case Method::pat: return s.levels * net / 3.5 + 2.8 * s.ranks;
  }
  return 0;
}

// NCCL's own estimate, microseconds.
double model_time(Collective c, Method m, Protocol p, double bytes, const Place& place,
                  const Shape& s, const Fabric& f, bool paired) {
  const double in = local_table(f)[at(m)][at(p)];
  const double net = kNet[at(s.per_node <= 1 ? Method::tree : m)][at(p)] +
                     (p == Protocol::simple ? 2.0 : 1.0);
  double lat = kBase[at(m)][at(p)] + latency(c, m, s, in, net);
  double rate = payload_rate(c, m, p, place, s, f, paired);
  if (m == Method::tree && p == Protocol::simple && bytes >= 64) {
    const int step = std::ilogb(bytes / 64);
    if (step < static_cast<int>(kTreeCorrection.size())) rate *= kTreeCorrection[at(step)];
  }
  const bool long_ring = m == Method::ring && p == Protocol::simple && s.nodes > 1 &&
                         c == Collective::all_reduce && bytes >= 64 * f.channels * s.ranks;
  if (long_ring) lat *= 1.4;
  return lat + bytes / (1000 * rate);
}

bool has_protocol(Method m, Protocol p, const Fabric& f) {
  if (m == Method::nvls || m == Method::nvls_tree || m == Method::pat)
    return p == Protocol::simple;
  return p != Protocol::ll128 || f.switched;
}

// Measured latency of one hop, microseconds.
double real_hop(Method m, Protocol p, const Fabric& f) {
  const LatencyTable& table = local_table(f);
  if (m == Method::nvls || m == Method::nvls_tree) return kMeasuredPerModel * table[at(m)][at(p)];
  const auto& ring = table[at(Method::ring)];
  return f.hop.value() / kMicro + kMeasuredPerModel * (ring[at(p)] - ring[at(Protocol::ll)]);
}

double real_time(Collective c, Method m, Protocol p, double bytes, const Place& place,
                 const Shape& s, const Fabric& f, bool paired) {
  const auto& net = kNet[at(m == Method::ring ? Method::ring : Method::tree)];
  const double net_hop = f.network_hop.value() / kMicro * net[at(p)] / net[at(Protocol::simple)];
  return latency(c, m, s, real_hop(m, p, f), net_hop) +
         bytes / (1000 * payload_rate(c, m, p, place, s, f, paired));
}

core::Picoseconds picoseconds(double microseconds) {
  return core::to_picoseconds(core::Seconds(microseconds * kMicro));
}

}  // namespace

std::string_view name(Method method) {
  constexpr std::array<std::string_view, kMethods> names{"ring", "tree", "nvls", "nvls_tree",
                                                         "pat"};
  return names[at(method)];
}

std::string_view name(Protocol protocol) {
  constexpr std::array<std::string_view, kProtocols> names{"LL", "LL128", "Simple"};
  return names[at(protocol)];
}

Fabric make_fabric(const hw_profiles::Profile& profile) {
  const hw_profiles::Node& node = profile.node;
  const int capability = profile.gpu.compute_capability.value_or(0);
  Fabric f;
  f.generation = capability >= 100 ? 3 : capability >= 90 ? 2 : capability >= 80 ? 1 : 0;
  f.switched = node.link == LinkKind::nvswitch;
  f.multicast = f.switched && f.generation >= 2;
  f.channels = f.switched ? 24 : node.link == LinkKind::host_staged ? 2 : 4;
  f.gpus_per_node = node.gpus_per_node;
  f.ring = node.link_bandwidth;
  // Each staged copy passes the host's memory twice, for all GPUs at once.
  if (node.link == LinkKind::host_staged && node.host_bandwidth)
    f.ring = std::min(f.ring, *node.host_bandwidth / (2.0 * node.gpus_per_node));
  f.pair = node.pair_bandwidth.value_or(core::BytesPerSecond{});
  f.nvlink = profile.gpu.nvlink_effective.value_or(core::BytesPerSecond{});
  f.network = node.internode_bandwidth;
  f.hop = node.link_latency;
  f.network_hop = node.internode_latency;
  return f;
}

bool allowed(Collective c, Method m, const Place& place, const Fabric& f) {
  const bool gathers = c == Collective::all_gather || c == Collective::reduce_scatter;
  switch (m) {
    case Method::ring: return true;
    case Method::tree: return c == Collective::all_reduce;
    case Method::nvls:
      return f.multicast && place.nodes == 1 && place.size > 2 && c != Collective::broadcast;
    case Method::nvls_tree:
      return f.multicast && place.nodes > 1 && place.per_node > 1 &&
             c == Collective::all_reduce;
    case Method::pat: return gathers && place.nodes > 1 && place.per_node == 1;
  }
  return false;
}

CollectiveCost nccl_collective(Collective c, core::Bytes payload, const Place& place,
                               const Fabric& f, std::optional<Method> method, bool paired) {
  if (place.size <= 1) return {};
  PLANNER_CHECK(!method || allowed(c, *method, place, f), "a method the fabric does not have");
  const Shape s = shape_of(place);
  const double bytes = static_cast<double>(payload.value());
  CollectiveCost best;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kMethods * kProtocols; ++i) {
    const auto m = static_cast<Method>(i / kProtocols);
    const auto p = static_cast<Protocol>(i % kProtocols);
    if (method ? *method != m : !allowed(c, m, place, f)) continue;
    if (!has_protocol(m, p, f)) continue;
    const double estimate = model_time(c, m, p, bytes, place, s, f, paired);
    if (estimate >= least) continue;
    least = estimate;
    best.method = m;
    best.protocol = p;
  }
  best.time =
      picoseconds(real_time(c, best.method, best.protocol, bytes, place, s, f, paired));
  return best;
}

core::Picoseconds message_time(core::Bytes bytes, const Place& place, const Fabric& f,
                               bool paired) {
  const Shape s = shape_of(place);
  const double hop = place.nodes > 1 ? f.network_hop.value() : f.hop.value();
  const double rate = ring_bandwidth(place, s, f, paired);
  return picoseconds(hop / kMicro + static_cast<double>(bytes.value()) / (1000 * rate));
}

core::Picoseconds exchange_time(core::Bytes payload, const Place& place, const Fabric& f) {
  if (place.size <= 1) return {};
  const Shape s = shape_of(place);
  const double bytes = static_cast<double>(payload.value()) / s.ranks;
  const double near = bytes * (s.per_node - 1) / (1000 * inside(place, f, false));
  const double far = bytes * s.per_node * (s.ranks - s.per_node) /
                     (1000 * network_share(s, f));
  const double hop = place.nodes > 1 ? f.network_hop.value() : f.hop.value();
  return picoseconds((s.ranks - 1) * hop / kMicro + std::max(near, far));
}

}  // namespace cost
