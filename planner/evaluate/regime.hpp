#pragma once
// What a step mostly waits for, as far as errors of predictions differ by it: runs that a planner
// would not recommend are the ones of which least is published. Pure.

#include <cstdint>
#include <string_view>

#include "planner/evaluate/candidate.hpp"
#include "sim/program/mesh.hpp"

namespace planner {

enum class Regime : std::uint8_t {
  tensor_over_nodes, launches, communication, pipeline, computing
};
inline constexpr std::size_t kRegimes = 5;

std::string_view name(Regime regime);
// In a sentence: "runs whose tensor ranks lie in several nodes".
std::string_view words(Regime regime);

// The first that holds: tensor ranks lie in several nodes; the host cannot launch as fast as the
// device computes; a fifth of the step waits for communication; the pipeline stands still for a
// tenth; none of these.
Regime regime_of(const program::Mesh& mesh, int gpus_per_node, const Time& time);

// How a rank's part of the model is cut out, as far as errors of predicted memory differ by it.
enum class MemoryRegime : std::uint8_t { tensor_over_nodes, pipeline, one_stage };
inline constexpr std::size_t kMemoryRegimes = 3;

std::string_view name(MemoryRegime regime);
// The first that holds: tensor ranks lie in several nodes; there are several stages; neither.
MemoryRegime memory_regime_of(const program::Mesh& mesh, int gpus_per_node);
MemoryRegime memory_regime_of(const Strategy& strategy, int gpus_per_node);

}  // namespace planner
