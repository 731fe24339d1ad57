#include "sim/cost/nccl.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "core/check.hpp"
#include "sim/cost/nccl_model.hpp"

namespace cost {
namespace {

using program::Collective;
using hw_profiles::LinkKind;

// Seconds of measured time per second of NCCL's model between protocols and for multicast: the one
// constant of the time model, from all-reduces on 8 x A100 and 8 x H200 (stas00/ml-engineering).
constexpr double kMeasuredPerModel = 2;
// NCCL's pipelines (src/init.cc, src/transport/nvls.cc): a buffer's bytes, and into how many steps
// it is cut.
constexpr double kBufferSteps = 8, kSimpleBuffer = 4 << 20, kNvlsChunk = 128 << 10;
constexpr double kLlChunk = 32 << 10, kLl128Chunk = 576 << 10;
constexpr double kLl128Kept = 120.0 / 128;  // 8 of 128 bytes are flags; LL: every other one
// By generation, inside a node and over several (src/transport/nvls.cc).
constexpr std::array<std::array<double, 2>, 4> kNvlsChannels{{{0, 0}, {0, 0}, {16, 16}, {24, 32}}};

bool has_protocol(Method m, Protocol p, const Fabric& f) {
  if (p != Protocol::simple && !f.low_latency) return false;
  if (m == Method::nvls || m == Method::nvls_tree || m == Method::pat)
    return p == Protocol::simple;
  return p != Protocol::ll128 || f.linked;
}

bool reduces_in_switch(Method m) { return m == Method::nvls || m == Method::nvls_tree; }

// Latency of one hop inside a node, microseconds, as measured.
double node_hop(Method m, Protocol p, const Fabric& f) {
  const LatencyTable& table = local_steps(f);
  if (reduces_in_switch(m)) return kMeasuredPerModel * table[at(m)][at(p)];
  const auto& ring = table[at(Method::ring)];
  return f.hop.value() / kMicro + kMeasuredPerModel * (ring[at(p)] - ring[at(Protocol::ll)]);
}

// Latency of one hop between nodes: the network's Simple step, the other protocols in proportion
// of NCCL's.
double network_hop(Method m, Protocol p, const Fabric& f) {
  const auto& net = kNetStep[at(m == Method::ring ? Method::ring : Method::tree)];
  return f.network_hop.value() / kMicro * net[at(p)] / net[at(Protocol::simple)];
}

double kept(Protocol p) {
  return p == Protocol::ll ? 0.5 : p == Protocol::ll128 ? kLl128Kept : 1.0;
}

// Payload of NCCL's tree, GB/s: a chain inside each node, whose links carry the sums up and the
// result down, and a tree over nodes.
double chain_rate(Protocol p, const Shape& s, const Fabric& f) {
  double in = s.in * kept(p);
  if (p == Protocol::ll) in = std::min(in, ll_most(s, f));
  if (p == Protocol::ll128) in = std::min(in, tree_ll128_most(s, f));
  return s.nodes > 1 ? std::min(in / 2, s.tree_out() * kept(p)) : in / 2;
}

// Chunk of one channel of NCCL's LL128 trees, NVLS and NVLS trees, as src/enqueue.cc cuts it:
// smaller the fewer of them a message has.
double ll128_chunk(double bytes, const Shape& s) {
  double chunk = kLl128Chunk;
  const double steps = (1 + s.levels + 0.1 * s.per_node) / s.per_node, channels = 2 * s.paths;
  const auto few = [&](double per) { return bytes / (channels * chunk) < steps * per; };
  while (few(64) && chunk > 131072) chunk /= 2;
  while (few(16) && chunk > 32768) chunk /= 2;
  return chunk;
}

struct Cut {
  double below, to;  // chunks in flight, bytes
};
double message_chunk(Method m, double bytes, double heads, const Shape& s, const Fabric& f) {
  constexpr std::array kInNode{Cut{64, 65536}, Cut{8, 32768}, Cut{2, 16384}};
  constexpr std::array kOverNodes{Cut{32, 262144}, Cut{16, 131072}, Cut{4, 65536},
                                  Cut{1, 32768}};
  const double stated = static_cast<double>(f.nvls_chunk.value());
  double chunk = stated > 0 ? stated : kNvlsChunk;
  if (m == Method::nvls_tree && s.nodes >= 4 && stated == 0) chunk = std::min(chunk, 65536.0);
  const auto cut = [&](const Cut& c) {
    if (bytes < c.below * heads * chunk) chunk = std::min(chunk, c.to);
  };
  if (m == Method::nvls) std::ranges::for_each(kInNode, cut);
  else std::ranges::for_each(kOverNodes, cut);
  return chunk;
}

int channels_of(Method m, const Shape& s, const Fabric& f) {
  const auto& multicast = kNvlsChannels[at(f.generation)];
  if (reduces_in_switch(m)) return static_cast<int>(multicast[s.nodes > 1 ? 1 : 0]);
  return static_cast<int>(2 * s.paths);
}

// Bytes that NCCL's channels have in one step of a pipeline together.
double step_bytes(Method m, Protocol p, double bytes, const Shape& s, const Fabric& f) {
  if (reduces_in_switch(m)) {
    const double heads = channels_of(m, s, f) * s.per_node;
    return heads * message_chunk(m, bytes, heads, s, f);
  }
  const double buffer = static_cast<double>(f.buffer.value());
  const double chunk = p == Protocol::ll      ? kLlChunk
                       : p == Protocol::ll128 ? ll128_chunk(bytes, s)
                       : (buffer > 0 ? buffer : kSimpleBuffer) / kBufferSteps;
  return channels_of(m, s, f) * chunk;
}

// Microseconds for each 1000 bytes of a step to pass all hops of the pipeline, one after another.
double through(Method m, Protocol p, const Shape& s, const Fabric& f) {
  const double between = s.levels > 0 ? 2 * s.levels / (s.out * kept(p)) : 0;
  // Into the switch's buffers, the sums out of them and back, the results out.
  if (reduces_in_switch(m)) return between + 3 / multicast_rate(s, f);
  return between + 2 * (s.per_node - 1) / (s.in * kept(p));
}

// A ring moves n-ths of the payload in each of its steps. Trees and NVLS are pipelines: the first
// step's bytes pass hop after hop, the rest behind them at the pace of the slowest.
double real_time(Collective c, Method m, Protocol p, double bytes, const Shape& s,
                 const Fabric& f) {
  const double start = steps_latency(c, m, s, node_hop(m, p, f), network_hop(m, p, f));
  const double rate = m == Method::tree ? chain_rate(p, s, f) : common_rate(c, m, p, s, f);
  if (m == Method::ring || m == Method::pat) return start + bytes / (1000 * rate);
  const double first = std::min(bytes, step_bytes(m, p, bytes, s, f));
  return start + (first * std::max(through(m, p, s, f), 1 / rate) + (bytes - first) / rate) / 1000;
}

// Twice as many as channels of the least rate that NCCL's search takes on NVLink fit its links
// (src/graph/search.cc, connect.cc): 12 of a V100, 24 of an A100. Newer chips: 24 as seen of them,
// by higher rates of a channel.
int linked_channels(core::BytesPerSecond nvlink) {
  constexpr double kLeastRate = 20;
  constexpr int kMost = 24;
  return std::clamp(2 * static_cast<int>(nvlink.value() / kGiga / kLeastRate), 2, kMost);
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
  f.linked = links_all(node.link);
  f.meshed = node.link == LinkKind::nvlink_mesh;
  f.multicast = f.linked && !f.meshed && f.generation >= 2 && node.nccl_nvls.value_or(true);
  f.nvlink = profile.gpu.nvlink_effective.value_or(core::BytesPerSecond{});
  f.channels = f.linked ? linked_channels(f.nvlink)
                        : node.link == LinkKind::host_staged ? 2 : 4;
  f.nics = node.nics;
  f.gpus_per_node = node.gpus_per_node;
  f.ring = node.link_bandwidth;
  // Each staged copy passes the host's memory twice, for all GPUs at once.
  if (node.link == LinkKind::host_staged && node.host_bandwidth)
    f.ring = std::min(f.ring, *node.host_bandwidth / (2.0 * node.gpus_per_node));
  f.pair = node.pair_bandwidth.value_or(core::BytesPerSecond{});
  f.network = node.internode_bandwidth;
  f.network_efficiency = node.internode_efficiency.value_or(1);
  f.tree_wait = node.tree_wait.value_or(core::Seconds{});
  f.hop = node.link_latency;
  f.network_hop = node.internode_latency;
  f.stated_latency = node.nccl_latency.value_or(core::Seconds{});
  f.low_latency = node.nccl_low_latency.value_or(true);
  f.buffer = node.nccl_buffer.value_or(core::Bytes{});
  f.nvls_chunk = node.nccl_nvls_chunk.value_or(core::Bytes{});
  return f;
}

int nvls_channels(const Fabric& f) {
  return static_cast<int>(kNvlsChannels[at(f.generation)].front());
}

core::Bytes nvls_chunk(const Fabric& f) {
  constexpr core::Bytes kOwn(static_cast<std::int64_t>(kNvlsChunk));
  return f.nvls_chunk.value() > 0 ? f.nvls_chunk : kOwn;
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
  const Shape wire = shape_of(place, f, f.network, paired);
  const double bytes = static_cast<double>(payload.value());
  CollectiveCost best;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kMethods * kProtocols; ++i) {
    const auto m = static_cast<Method>(i / kProtocols);
    const auto p = static_cast<Protocol>(i % kProtocols);
    if (method ? *method != m : !allowed(c, m, place, f)) continue;
    if (!has_protocol(m, p, f)) continue;
    const double estimate = model_time(c, m, p, bytes, wire, f);
    if (estimate >= least) continue;
    least = estimate;
    best.method = m;
    best.protocol = p;
  }
  const bool tree = best.method == Method::tree || best.method == Method::nvls_tree;
  const Shape achieved = shape_of(place, f, f.network * f.network_efficiency, paired);
  best.channels = channels_of(best.method, achieved, f);
  const double late = tree ? f.tree_wait.value() * place.size : 0;
  best.time =
      picoseconds(real_time(c, best.method, best.protocol, bytes, achieved, f) + late / kMicro);
  return best;
}

core::Seconds ring_steps(const Place& place, const Fabric& f) {
  if (place.size <= 1) return {};
  const Shape s = shape_of(place, f, f.network, place.paired);
  const double in = node_hop(Method::ring, Protocol::simple, f);
  const double net = network_hop(Method::ring, Protocol::simple, f);
  const double steps = steps_latency(Collective::all_gather, Method::ring, s, in, net);
  return core::Seconds(steps * kMicro);
}

core::Picoseconds message_time(core::Bytes bytes, const Place& place, const Fabric& f,
                               bool paired) {
  const Shape s = shape_of(place, f, f.network * f.network_efficiency, paired);
  const double hop = place.nodes > 1 ? f.network_hop.value() : f.hop.value();
  const bool straight = f.meshed && place.nodes == 1;  // one link, whatever others the group has
  const double rate = straight ? f.pair.value() / kGiga : s.ring();
  return picoseconds(hop / kMicro + static_cast<double>(bytes.value()) / (1000 * rate));
}

core::Picoseconds exchange_time(core::Bytes payload, const Place& place, const Fabric& f) {
  if (place.size <= 1) return {};
  const Shape s = shape_of(place, f, f.network * f.network_efficiency, false);
  const double bytes = static_cast<double>(payload.value()) / s.ranks;
  const double near = bytes * (s.per_node - 1) / (1000 * s.in);
  const double far = bytes * s.per_node * (s.ranks - s.per_node) / (1000 * s.out);
  const double hop = place.nodes > 1 ? f.network_hop.value() : f.hop.value();
  return picoseconds((s.ranks - 1) * hop / kMicro + std::max(near, far));
}

// That none of k things drawn from n is one of `mine` among them.
static double none_of(double n, double mine, std::int64_t k) {
  double none = 1;
  for (std::int64_t i = 0; i < k; ++i)
    none *= std::max(0.0, n - mine - static_cast<double>(i)) / (n - static_cast<double>(i));
  return none;
}

// Ways to choose k of n, both whole.
static double ways(double n, double k) {
  double all = 1;
  for (double i = 1; i <= k; ++i) all = all * (n - k + i) / i;
  return all;
}

// Of `parts` equal parts of the experts, how many hold some of the k that a token chose, its own
// part apart.
static double others_reached(int parts, const Routed& r) {
  const double experts = static_cast<double>(r.experts), mine = experts / parts;
  if (r.groups == 0) return (parts - 1) * (1 - none_of(experts, mine, r.chosen));
  // A part is one of several in a group; or of its groups, j are chosen.
  const auto groups = static_cast<double>(r.groups), taken = static_cast<double>(r.groups_chosen);
  const double group = experts / groups, of = taken * group;
  if (parts >= r.groups)
    return (parts - 1) * taken / groups * (1 - none_of(of, mine, r.chosen));
  const double within = groups / parts;
  double reached = 0;
  for (double j = std::max(0.0, taken + within - groups); j <= std::min(within, taken); ++j)
    reached += ways(within, j) * ways(groups - within, taken - j) / ways(groups, taken) *
               (1 - none_of(of, j * group, r.chosen));
  return (parts - 1) * reached;
}

core::Picoseconds once_each_time(core::Bytes payload, const Routed& routed, const Place& place,
                                 const Fabric& f) {
  if (place.size <= 1) return {};
  const Shape s = shape_of(place, f, f.network * f.network_efficiency, false);
  const double tokens =
      static_cast<double>(payload.value()) / static_cast<double>(routed.chosen);
  const double near = tokens * others_reached(place.size, routed) / (1000 * s.in);
  const double far =
      place.nodes > 1
          ? tokens * s.per_node * others_reached(place.nodes, routed) / (1000 * s.out)
          : 0;
  const double hops =
      f.hop.value() + (place.nodes > 1 ? f.network_hop.value() : 0);
  return picoseconds(hops / kMicro + std::max(near, far));
}

}  // namespace cost
