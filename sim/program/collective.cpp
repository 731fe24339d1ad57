#include "sim/program/collective.hpp"

#include <array>

#include "core/check.hpp"

namespace program {
namespace {

constexpr std::array<std::string_view, 8> kCollectives{
    "all_reduce", "reduce_scatter",   "all_gather", "broadcast",
    "send",       "parameter_server", "copy",       "exchange"};
constexpr std::array<std::string_view, 6> kAlgorithms{
    "ring", "tree", "naive_all_reduce", "parameter_server", "direct", "pairwise"};
constexpr std::array<std::string_view, kTraffics> kTraffic{
    "gradients", "parameters", "tensor", "sequence", "pipeline", "embedding", "loss", "norm",
    "context",   "offload",    "expert", "split", "statistics"};

// Whether the pair is one that the communicators execute.
bool pairs(Collective c, Algorithm a) {
  switch (c) {
    case Collective::all_reduce: return a != Algorithm::direct && a != Algorithm::pairwise;
    case Collective::reduce_scatter:
    case Collective::all_gather: return a == Algorithm::ring;
    case Collective::broadcast:
    case Collective::copy: return a == Algorithm::direct;
    case Collective::send: return a == Algorithm::direct || a == Algorithm::ring;
    case Collective::parameter_server: return a == Algorithm::parameter_server;
    case Collective::exchange: return a == Algorithm::pairwise;
  }
  return false;
}

// Bytes of one of the `parts` equal chunks of the padded vector. Taken before multiplying, so that
// types below a byte round up per message, as they travel.
core::Bytes chunk_bytes(std::int64_t elements, std::int64_t parts, core::DType type) {
  return core::bytes_of(padded(elements, parts) / parts, type);
}

int tree_children(int index, int group) {
  return (2 * index + 1 < group ? 1 : 0) + (2 * index + 2 < group ? 1 : 0);
}

std::int64_t tree_messages(int index, int group) {
  return (index == 0 ? 0 : 1) + tree_children(index, group);
}

ReductionOrder ring_order(int group, int chunk) {
  const int first = (chunk + 1) % group;
  ReductionOrder order{{}, first};
  for (int i = 1; i < group; ++i) order.steps.push_back({first, (first + i) % group});
  return order;
}

ReductionOrder ascending_order(int group) {
  ReductionOrder order{{}, 0};
  for (int i = 1; i < group; ++i) order.steps.push_back({0, i});
  return order;
}

// Highest index first, so that a child's sum is complete before its parent takes it.
ReductionOrder tree_order(int group) {
  ReductionOrder order{{}, 0};
  for (int i = group - 1; i >= 0; --i) {
    for (int child = 2 * i + 1; child <= 2 * i + 2 && child < group; ++child) {
      order.steps.push_back({i, child});
    }
  }
  return order;
}

}  // namespace

std::string_view name(Collective c) { return kCollectives[static_cast<std::size_t>(c)]; }
std::string_view name(Algorithm a) { return kAlgorithms[static_cast<std::size_t>(a)]; }
std::string_view name(Traffic t) { return kTraffic[static_cast<std::size_t>(t)]; }

std::optional<Algorithm> algorithm_from_name(std::string_view text) {
  for (std::size_t i = 0; i < kAlgorithms.size(); ++i) {
    if (kAlgorithms[i] == text) return static_cast<Algorithm>(i);
  }
  return std::nullopt;
}

std::optional<Collective> collective_from_name(std::string_view text) {
  for (std::size_t i = 0; i < kCollectives.size(); ++i) {
    if (kCollectives[i] == text) return static_cast<Collective>(i);
  }
  return std::nullopt;
}

core::Bytes payload_bytes(Collective c, Algorithm a, int group, int servers, std::int64_t elements,
                          core::DType wire_type) {
  PLANNER_CHECK(pairs(c, a), "no such algorithm for this collective");
  PLANNER_CHECK(group >= 1 && elements >= 0);
  if (a == Algorithm::parameter_server) {
    PLANNER_CHECK(servers >= 1);
    return core::bytes_of(padded(elements, servers), wire_type);
  }
  const bool chunks = a == Algorithm::ring && c != Collective::send;
  if (chunks || a == Algorithm::pairwise)
    return chunk_bytes(elements, group, wire_type) * group;
  return core::bytes_of(elements, wire_type);
}

core::Bytes library_bytes(Collective c, int group, std::int64_t elements, core::DType type) {
  const bool chunks = c == Collective::reduce_scatter || c == Collective::all_gather;
  return core::bytes_of(chunks ? padded(elements, group) : elements, type);
}

core::Bytes wire_bytes(Collective c, Algorithm a, int group, int index, std::int64_t elements,
                       core::DType wire_type) {
  PLANNER_CHECK(pairs(c, a), "no such algorithm for this collective");
  PLANNER_CHECK(a != Algorithm::parameter_server, "server_traffic() answers for servers");
  PLANNER_CHECK(group >= 1 && index >= 0 && index < group && elements >= 0);
  if (c == Collective::copy) return core::bytes_of(elements, wire_type);
  const std::int64_t peers = group - 1;
  if (peers == 0) return core::Bytes(0);
  if (c == Collective::send && a == Algorithm::ring) return core::bytes_of(elements, wire_type);
  switch (a) {
    case Algorithm::ring: {
      const std::int64_t passes = c == Collective::all_reduce ? 2 : 1;
      return chunk_bytes(elements, group, wire_type) * (passes * peers);
    }
    case Algorithm::pairwise: return chunk_bytes(elements, group, wire_type) * peers;
    case Algorithm::naive_all_reduce: return core::bytes_of(elements, wire_type) * peers;
    case Algorithm::tree:
      return core::bytes_of(elements, wire_type) * tree_messages(index, group);
    default: break;
  }
  const std::int64_t copies = index != 0 ? 0 : c == Collective::send ? 1 : peers;
  return core::bytes_of(elements, wire_type) * copies;
}

ServerTraffic server_traffic(int workers, int servers, bool colocated, int index,
                             std::int64_t elements, core::DType gradient_type,
                             core::DType weight_type) {
  PLANNER_CHECK(workers >= 1 && servers >= 1 && index >= 0 && index < workers);
  PLANNER_CHECK(!colocated || servers <= workers, "a colocated server is one of the workers");
  const std::int64_t other_servers = servers - (colocated && index < servers ? 1 : 0);
  const std::int64_t other_workers = workers - (colocated ? 1 : 0);
  return {chunk_bytes(elements, servers, gradient_type) * other_servers,
          chunk_bytes(elements, servers, weight_type) * other_workers};
}

ReductionOrder reduction_order(Algorithm a, int group, int chunk) {
  PLANNER_CHECK(group >= 1 && chunk >= 0 && chunk < group);
  PLANNER_CHECK(a != Algorithm::direct && a != Algorithm::pairwise,
                "transfers that reduce nothing");
  if (a == Algorithm::ring) return ring_order(group, chunk);
  if (a == Algorithm::tree) return tree_order(group);
  return ascending_order(group);
}

}  // namespace program
