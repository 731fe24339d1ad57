#include "sim/cost/nccl_model.hpp"

#include <algorithm>

namespace cost {
namespace {

using program::Collective;

using PerNodes = std::array<double, 3>;  // one node, two, more
using PerGeneration = std::array<PerNodes, 4>;

// Microseconds and GB/s of tuning.cc.
constexpr LatencyTable kBase{{{6.6, 14, 8.4}, {6.8, 14, 8.4}, {0, 0, 0}, {0, 0, 0}, {8, 8, 8}}};
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
// What posting a message costs a ring that crosses nodes, on hosts other than AMD's.
constexpr double kPost = 1, kPostSimple = 3;

double per_path(const PerGeneration& table, const Shape& s, const Fabric& f) {
  return s.paths * table[at(f.generation)][at(s.column)];
}

double tree_rate(Protocol p, const Shape& s, const Fabric& f) {
  const double in = std::min(0.92 * s.in, per_path(kTreeSimple, s, f));
  const double kept = s.nodes > 1 ? 120.0 / 128 : 7.0 / 9;
  const double share = p == Protocol::ll      ? std::min(in / 3.8, ll_most(s, f))
                       : p == Protocol::ll128 ? std::min(in * kept, tree_ll128_most(s, f))
                                              : in;
  return s.nodes > 1 ? std::min(share / 2, s.tree_out()) : share / 2;
}

// Of a mesh, a group that is a part of the node has those of its GPUs' links that stay inside it:
// as many in each dimension of a cube, of which n GPUs span log2(n).
core::BytesPerSecond mesh_ring(const Place& place, const Fabric& f) {
  if (place.per_node <= 2) return f.pair;
  const double share = std::log2(place.per_node) / std::log2(f.gpus_per_node);
  return std::max(f.pair, std::min(1.0, share) * f.ring);
}

core::BytesPerSecond inside(const Place& place, const Fabric& f, bool paired) {
  if (f.meshed) return mesh_ring(place, f);
  return paired && place.size == 2 && f.pair.value() > 0 ? f.pair : f.ring;
}

}  // namespace

Shape shape_of(const Place& place, const Fabric& f, core::BytesPerSecond network, bool paired) {
  Shape s;
  s.ranks = place.size;
  s.nodes = place.nodes;
  s.per_node = s.ranks / s.nodes;
  s.levels = place.nodes > 1 ? std::ceil(std::log2(place.nodes)) : 0.0;
  s.column = std::min(place.nodes, 3) - 1;
  s.in = inside(place, f, paired).value() / kGiga;
  s.out = network.value() / kGiga * std::min(1.0, s.per_node / f.gpus_per_node);
  // Two channels run on each path of the search; a path between nodes has a network card.
  const int paths = std::max(1, f.channels / 2);
  s.paths = place.nodes > 1 ? std::clamp(std::min(f.nics, f.gpus_per_node), 1, paths) : paths;
  return s;
}

double multicast_rate(const Shape& s, const Fabric& f) {
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

double ll_most(const Shape& s, const Fabric& f) {
  return kLlMost[at(s.nodes > 1 ? 1 : f.generation)][at(s.column)];
}

double tree_ll128_most(const Shape& s, const Fabric& f) { return per_path(kTreeLl128, s, f); }

double common_rate(Collective c, Method m, Protocol p, const Shape& s, const Fabric& f) {
  const double ring = s.ring();
  switch (m) {
    case Method::ring: {
      const double bus = p == Protocol::ll ? std::min(ll_most(s, f), ring / 2)
                         : p == Protocol::ll128
                             ? std::min(0.92 * ring, per_path(kRingLl128, s, f))
                             : ring;
      return bus * s.ranks / (passes_of(c) * (s.ranks - 1));
    }
    case Method::nvls:
      // Gathers and scatters count (n - 1) / n of a channel where an all-reduce counts 2
      // (tuning.cc).
      return multicast_rate(s, f) *
             (c == Collective::all_reduce ? 1 : (s.per_node - 1) / s.per_node);
    case Method::nvls_tree: return std::min(multicast_rate(s, f), s.tree_out());
    case Method::pat: return 0.75 * ring * s.ranks / (s.ranks - 1);
    case Method::tree: break;
  }
  return ring;
}

double steps_latency(Collective c, Method m, const Shape& s, double in, double net) {
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

double model_time(Collective c, Method m, Protocol p, double bytes, const Shape& s,
                  const Fabric& f) {
  const bool simple = p == Protocol::simple;
  double in = local_steps(f)[at(m)][at(p)];
  if (m == Method::ring && s.nodes > 1) in = std::max(in, simple ? kPostSimple : kPost);
  // Simple waits for a flush of what has arrived as well, as long as the message took.
  const double net = kNetStep[at(s.per_node <= 1 ? Method::tree : m)][at(p)] +
                     f.stated_latency.value() / kMicro * (simple ? 2 : 1);
  double lat = kBase[at(m)][at(p)] + steps_latency(c, m, s, in, net);
  double rate = m == Method::tree ? tree_rate(p, s, f) : common_rate(c, m, p, s, f);
  if (m == Method::tree && simple && bytes >= 64) {
    const int step = std::ilogb(bytes / 64);
    if (step < static_cast<int>(kTreeCorrection.size())) rate *= kTreeCorrection[at(step)];
  }
  const bool long_ring = m == Method::ring && simple && s.nodes > 1 &&
                         c == Collective::all_reduce && bytes >= 64 * s.paths * s.ranks;
  if (long_ring) lat *= 1.4;
  return lat + bytes / (1000 * rate);
}

}  // namespace cost
