#pragma once
// What the nodes of an execution trace take on a machine, and the bytes of its transfers.
//
// Computation takes what was recorded; where nothing was, the roofline of num_ops (16-bit FLOPs)
// and tensor_size. Collectives of a known algorithm (ours say) are sim/cost's; others NCCL's choice
// on GPUs, rings elsewhere, their bytes counted as a ring's. Exchanges and scatters go pairwise; a
// barrier is an all-reduce of nothing. Pure; thread-safe.

#include <span>
#include <string_view>

#include "core/result.hpp"
#include "core/units.hpp"
#include "sim/cost/link.hpp"
#include "sim/cost/machine.hpp"
#include "sim/chakra/read.hpp"

namespace engine {

struct ChakraCost {
  std::string_view collective, algorithm;
  core::Bytes payload{};               // S in the conventions of program/collective.hpp
  core::Bytes wire{};                  // that the trace's rank sends
  core::Picoseconds time{};            // zero without a machine
};

// Where ranks lie when they fill nodes in order. ranks: ascending.
cost::Place place_of_ranks(std::span<const int> ranks, int gpus_per_node);

// Of a collective node among ranks (ascending; the trace's is the index-th), or of a message
// (source, destination). machine: null: bytes alone. Problems: an algorithm that the collective
// does not have, bytes beyond counting.
core::Result<ChakraCost> transfer_cost(const ChakraTrace& trace, const ChakraNode& node,
                                       std::span<const int> ranks, int index,
                                       const cost::Machine* machine);

// Of anything else: what was recorded, else what num_ops and tensor_size say.
core::Picoseconds local_time(const ChakraNode& node, const cost::Machine* machine);

}  // namespace engine
