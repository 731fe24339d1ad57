#include "sim/program/program.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace program {

std::string_view name(Term term) {
  constexpr std::string_view kNames[] = {"weights",     "gradients", "optimizer",
                                         "activations", "logits",    "communication"};
  return kNames[static_cast<int>(term)];
}

std::string_view name(Stream stream) {
  constexpr std::string_view kNames[] = {"compute", "gradient", "parameter", "context",
                                         "send",    "receive",  "send_back", "receive_back"};
  return kNames[static_cast<int>(stream)];
}

std::string_view name(ActionKind kind) {
  constexpr std::string_view kNames[] = {
      "alloc",      "free", "load",    "forward",    "input_gradient", "weight_gradient",
      "fence",      "zero", "cast",    "accumulate", "dequantise",     "copy",     "square_sum",
      "scale_step", "optimizer",       "collective", "send", "receive", "push",    "serve_push",
      "serve_pull", "pull"};
  return kNames[static_cast<int>(kind)];
}

bool uses(const RankClass& k, Stream stream) {
  return std::ranges::any_of(k.actions, [&](const Action& a) { return a.stream == stream; });
}

int Program::class_of(int rank) const {
  const bool apart = mesh.is_server(rank);
  const Coordinates c = apart ? Coordinates{} : mesh.coordinates(rank);
  const bool serves = apart || (servers > 0 && servers_colocated && c.data < servers);
  for (std::size_t i = 0; i < classes.size(); ++i) {
    const RankClass& k = classes[i];
    if (k.is_worker == apart || k.is_server != serves) continue;
    if (apart || (k.stage == c.pipeline && k.has_replica(c.data))) return static_cast<int>(i);
  }
  PLANNER_CHECK(false, "a rank has no class");
  return -1;
}

std::vector<int> Program::ranks_of(int class_index) const {
  std::vector<int> ranks;
  for (int r = 0; r < mesh.ranks(); ++r)
    if (class_of(r) == class_index) ranks.push_back(r);
  return ranks;
}

int Program::part_of(int rank) const {
  if (mesh.is_server(rank)) return rank - mesh.workers();
  if (servers > 0) return mesh.coordinates(rank).data;
  return mesh.index(Group::shard, rank);
}

ResolvedRange resolve(const RankClass& k, const View& v, const Call& call, int part) {
  const std::size_t at = static_cast<std::size_t>(layer_index(v, call));
  const auto layer = static_cast<std::size_t>(call.layer + v.layer_shift);
  // Arguments that are left out have no buffer.
  const std::int64_t base = v.buffer == kNone ? 0 : k.buffers[v.buffer].base;
  switch (v.range) {
    case Range::whole:
      return {0, k.buffers[v.buffer].instance_elements(static_cast<int>(at))};
    case Range::fixed:
      return {v.offset, v.elements};
    case Range::layer_parameters:
      return {k.layer_offset[layer] + v.offset - base, v.elements};
    case Range::frozen_layer_parameters:
      return {k.frozen_layer_offset[layer] + v.offset, v.elements};
    default:
      break;
  }
  const Span& s = k.spans[layer];
  const std::int64_t begin = std::min(s.part_of(part) * s.shard_elements, s.elements);
  const std::int64_t own = std::min(s.shard_elements, s.elements - begin);
  switch (v.range) {
    case Range::span:
      return {s.offset - base, s.elements};
    case Range::span_chunk:
      return {s.offset + begin - base, own};
    case Range::unit_chunk:
      return {begin, own};
    case Range::span_shard:
      return {s.shard_offset - base, own};
    default:
      return {s.scale_offset, (s.shard_elements + kQuantisationBlock - 1) / kQuantisationBlock};
  }
}

}  // namespace program
