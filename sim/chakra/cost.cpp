#include "sim/chakra/cost.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/cost/kernel.hpp"
#include "sim/cost/nccl.hpp"
#include "sim/chakra/schema.hpp"
#include "sim/program/collective.hpp"

namespace engine {
namespace {

using namespace chakra;
using program::Algorithm;
using program::Collective;

constexpr core::DType kByte = core::DType::u8;
constexpr double kMostPayload = 1e18;
constexpr std::array<std::string_view, kCommTypes> kNames{
    "all_reduce", "reduce",     "all_gather",     "gather",         "scatter",
    "broadcast",  "all_to_all", "reduce_scatter", "reduce_scatter", "barrier"};

// Those that the Program has too.
std::optional<Collective> known(std::uint8_t type) {
  switch (type) {
    case kAllReduce:
    case kBarrier: return Collective::all_reduce;
    case kAllGather: return Collective::all_gather;
    case kReduceScatter:
    case kReduceScatterBlock: return Collective::reduce_scatter;
    case kBroadcast:
    case kReduce: return Collective::broadcast;  // a reduce is one backwards
    default: return std::nullopt;
  }
}

bool has(Collective c, Algorithm a) {
  if (c == Collective::broadcast) return a == Algorithm::direct;
  if (c != Collective::all_reduce) return a == Algorithm::ring;
  return a == Algorithm::ring || a == Algorithm::tree || a == Algorithm::naive_all_reduce;
}

core::Bytes part_of(core::Bytes payload, std::int64_t size) {
  return core::Bytes(payload.value() / size);
}

// One rank's (K-1)/K of S, all parts at once.
core::Picoseconds pairwise_time(core::Bytes wire, const cost::Place& place,
                                const cost::Machine& m) {
  const cost::Link link = cost::link_of(place, m);
  return core::to_picoseconds(link.latency + wire / link.bandwidth);
}

ChakraCost known_cost(Collective c, std::optional<Algorithm> algorithm, core::Bytes bytes, int size,
                      int index) {
  const Algorithm own = c == Collective::broadcast ? Algorithm::direct : Algorithm::ring;
  const Algorithm as = algorithm.value_or(own);
  return {"", program::name(as), program::payload_bytes(c, as, size, 1, bytes.value(), kByte),
          program::wire_bytes(c, as, size, index, bytes.value(), kByte), {}};
}

// All-to-all, gather and scatter; the latter two with the first rank as root.
ChakraCost pairwise_cost(std::uint8_t type, core::Bytes bytes, std::int64_t size, int index) {
  const core::Bytes whole(program::padded(bytes.value(), size));
  const core::Bytes part = part_of(whole, size);
  core::Bytes wire = whole - part;
  if (type == kScatter && index > 0) wire = {};
  if (type == kGather) wire = index > 0 ? part : core::Bytes();
  return {"", program::name(Algorithm::direct), whole, wire, {}};
}

core::Picoseconds known_time(Collective c, std::optional<Algorithm> algorithm, core::Bytes payload,
                             const cost::Place& place, const cost::Machine& m) {
  const bool nccl = !algorithm && m.fabric.has_value();
  if (nccl)
    return cost::nccl_collective(c, payload, place, *m.fabric, std::nullopt, place.paired).time;
  const Algorithm own = c == Collective::broadcast ? Algorithm::direct : Algorithm::ring;
  return core::to_picoseconds(cost::collective_time(c, algorithm.value_or(own), place,
                                                    payload.value(), kByte, m));
}

core::Result<ChakraCost> message_cost(const ChakraNode& node, std::span<const int> ranks,
                                      const cost::Machine* machine) {
  ChakraCost c{"send", "direct", core::Bytes(node.size), core::Bytes(node.size), {}};
  if (machine == nullptr || ranks.front() == ranks.back()) return c;
  const cost::Place place = place_of_ranks(ranks, machine->gpus_per_node);
  c.time = core::to_picoseconds(
      node.incast > 0
          ? cost::incast_time(place, static_cast<int>(node.incast), c.payload, *machine)
          : cost::collective_time(Collective::send, Algorithm::direct, place, node.size, kByte,
                                  *machine));
  return c;
}

}  // namespace

cost::Place place_of_ranks(std::span<const int> ranks, int gpus_per_node) {
  cost::Place place{.size = static_cast<int>(ranks.size()), .nodes = 0, .per_node = 0};
  int here = 0, node = -1;
  for (const int rank : ranks) {
    if (rank / gpus_per_node != node) ++place.nodes, here = 0, node = rank / gpus_per_node;
    place.per_node = std::max(place.per_node, ++here);
  }
  place.paired = ranks.size() == 2 && ranks[1] == ranks[0] + 1 && ranks[0] % 2 == 0;
  return place;
}

core::Result<ChakraCost> transfer_cost(const ChakraTrace& trace, const ChakraNode& node,
                                       std::span<const int> ranks, int index,
                                       const cost::Machine* machine) {
  if (node.type != kCollective) return message_cost(node, ranks, machine);
  const auto size = static_cast<std::int64_t>(ranks.size());
  if (static_cast<double>(node.size) * static_cast<double>(size) > kMostPayload)
    return core::Problem{place_of(trace, node), "a transfer of at most 10^18 bytes",
                         fmt::format("{} bytes among {} ranks", node.size, size), ""};
  const std::optional<Collective> c = known(node.comm_type);
  const std::string& text = trace.texts[node.algorithm];
  const auto algorithm = program::algorithm_from_name(text);
  if (!text.empty() && !(c && algorithm && has(*c, *algorithm)))
    return core::Problem{place_of(trace, node),
                         fmt::format("an algorithm of {}, or none", kNames[node.comm_type]),
                         '"' + text + '"', ""};
  const bool parts = node.comm_type == kAllGather || node.comm_type == kGather;
  const core::Bytes bytes(node.comm_type == kBarrier ? 0 : node.size * (parts ? size : 1));
  ChakraCost cost = c ? known_cost(*c, algorithm, bytes, static_cast<int>(size), index)
                      : pairwise_cost(node.comm_type, bytes, size, index);
  cost.collective = kNames[node.comm_type];
  if (machine == nullptr || size == 1) return cost;
  const cost::Place place = place_of_ranks(ranks, machine->gpus_per_node);
  if (c)
    cost.time = known_time(*c, algorithm, bytes, place, *machine);
  else if (node.comm_type == kAllToAll && machine->fabric)
    cost.time = cost::exchange_time(cost.payload, place, *machine->fabric);
  else
    cost.time = pairwise_time(cost.payload - part_of(cost.payload, size), place, *machine);
  return cost;
}

core::Picoseconds local_time(const ChakraNode& node, const cost::Machine* machine) {
  if (node.duration > 0 || machine == nullptr) return core::Picoseconds(node.duration);
  const core::Bytes bytes(node.size);
  if (node.type == kMemLoad || node.type == kMemStore) return cost::host_copy_time(bytes, *machine);
  if (node.type != kComp || (node.operations <= 0 && node.size == 0)) return {};
  const core::FlopsPerSecond peak = machine->peak[static_cast<std::size_t>(core::DType::f16)];
  core::Seconds time = cost::memory_time(bytes, *machine);
  if (peak.value() > 0)
    time = std::max(time, core::Flops{node.operations} / (peak * machine->gemm_efficiency));
  return core::to_picoseconds(std::min(time, core::Seconds{1e6}) + machine->launch);
}

}  // namespace engine
