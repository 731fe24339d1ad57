#pragma once
// What of the parameters a rank holds, where they lie in its flat spaces, and how their gradients
// are added up over ranks: parts of a Program (program.hpp).

#include <cstdint>
#include <string>

#include "core/dtype.hpp"
#include "models/graph.hpp"
#include "sim/program/collective.hpp"

namespace program {

// A contiguous piece of the trained parameters' flat space that is communicated as one: a bucket,
// or a unit (layer) of ZeRO-2 and 3.
struct Span {
  std::int64_t offset = 0;             // elements, in the flat space
  std::int64_t elements = 0;
  std::int64_t shard_elements = 0;     // padded(elements, ranks) / ranks of those that share it
  std::int64_t shard_offset = 0;       // of this span in the flat space of shards
  std::int64_t scale_offset = 0;       // of this span's shard in the space of quantisation scales
  // Data ranks between which the span's experts differ: it is summed and divided over the others
  // of its group alone (Group::expert_data, expert_shard). 1: all hold the same.
  int expert_ways = 1;
  // This rank's part among those that share the span, of its part of the whole group.
  int part_of(int part) const { return part / expert_ways; }
};
inline constexpr std::int64_t kQuantisationBlock = 256;  // elements per scale (adam8bit)

// Where a parameter lives. Two flat spaces per class: trained (weights, gradients and optimizer
// state share its layout, in gradient-ready order) and frozen (weights alone).
struct PlacedParameter {
  models::Parameter parameter;         // name, shard shape, init
  std::string path;                    // "h.7.attn.qkv.weight": layer numbered in the whole model
  bool trained = true;
  std::int64_t offset = 0;             // elements, in its flat space
  bool tied_copy = false;              // the last stage's copy of tied embeddings
};

// A frozen matrix that is stored as codes; its offset is in bytes, from its layer's instance.
struct QuantisedParameter {
  PlacedParameter placed;
  int layer = 0;                       // local
};

// How gradients are added up over ranks, for a reference that must reproduce every bit.
struct Accumulation {
  // true: each micro-batch is reduced over ranks, then added (ZeRO-2, 3); false: each rank adds its
  // micro-batches, then ranks reduce (all-reduce, ZeRO-1, servers).
  bool ranks_first = false;
  Algorithm algorithm = Algorithm::ring;          // over `group` ranks, by span chunks
  int group = 1;
  int replicas = 1;                               // then over replicas by ring (HSDP)
  bool tied_apart = false;  // head and embedding gradients sum apart: first stage + last stage
  core::DType wire_type{};
};

}  // namespace program
