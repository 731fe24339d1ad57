#pragma once
// First values of parameters: each element depends on the seed, the parameter's path and its place
// in the whole, unsharded tensor alone, so every layout of ranks starts from the same model.
// Normal elements have the parameter's standard deviation; padding is zero. Pure.

#include <cstdint>
#include <span>
#include <vector>

#include "sim/program/program.hpp"

namespace exec {

// The elements of this rank's shard of the parameter, in double (f32-representable unless
// double_precision). tensor_rank, expert_rank: place in those groups.
std::vector<double> initial_values(const program::PlacedParameter& parameter, std::uint64_t seed,
                                   int tensor_rank, bool double_precision,
                                   int expert_rank = 0);
// Elements [first, first + out.size()) of that shard, by several threads.
void initial_values(const program::PlacedParameter& parameter, std::uint64_t seed, int tensor_rank,
                    bool double_precision, int expert_rank, std::int64_t first,
                    std::span<double> out);

// 64-bit FNV-1a: the random stream of a path.
std::uint64_t stream_of(std::string_view path);

}  // namespace exec
