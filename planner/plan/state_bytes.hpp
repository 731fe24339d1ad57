#pragma once
// What a checkpoint of a job consists of: its weights and the state of its optimizer, each element
// once, however many ranks hold it. Frozen weights are no part of it: they are where they came
// from. Pure; thread-safe.

#include <vector>

#include "core/result.hpp"
#include "core/units.hpp"
#include "sim/program/program.hpp"

namespace planner {

struct StateBytes {
  core::Bytes all{};                   // of the job
  // The greatest share of a rank, where ranks that hold the same divide it evenly; and of this
  // what is on the device.
  core::Bytes of_rank{}, on_device{};
  std::vector<double> by_rank;         // its share; the sum is `all`, up to rounding
};

// Of ranks that differ by tied embeddings the copies count, too. 0 where nothing is trained.
StateBytes state_bytes(const program::Program& program);

// Of what writes these bytes to storage or another node: there are some.
core::Problems saved_problems(const StateBytes& bytes);

}  // namespace planner
