#pragma once
// Internal: data ranks on GPUs of several kinds. Those on slower GPUs take fewer micro-batches of a
// step (Strategy::shares), so that all end it together. Pure; thread-safe.

#include <cstdint>
#include <span>
#include <vector>

#include "core/units.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/search/space.hpp"
#include "planner/strategy/pins.hpp"

namespace planner {

// Of the structures those whose data ranks may take shares, each with all of its stages on GPUs of
// one kind: data is the outermost degree. Empty where all GPUs are alike.
std::vector<Structure> uneven_structures(std::span<const Structure> structures,
                                         const Question& question, const Constraints& constraints);

// Of each kind of GPU: how many data ranks have it. Empty: a data rank would have several.
std::vector<std::int64_t> data_ranks_of_kinds(const Question& question, const Strategy& strategy);

// A step of a data rank that takes m micro-batches lasts fixed + m x each.
struct Pace {
  std::int64_t ranks = 0;
  core::Seconds fixed{}, each{};
};
// By kind the micro-batches of each of its ranks, `all` together, of the least longest step; of
// equals the most even. Empty: there are none. Looked for near the optimum of real numbers.
std::vector<std::int64_t> best_shares(std::span<const Pace> paces, std::int64_t all);

}  // namespace planner
