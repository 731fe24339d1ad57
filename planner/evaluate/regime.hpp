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

}  // namespace planner
