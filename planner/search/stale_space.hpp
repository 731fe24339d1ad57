#pragma once
// Internal: strategies that change the mathematics, which --allow-stale adds to a space: pipelines
// without flush (pipedream, pipedream_2bw) of every degree of data, tensor and pipeline, with
// sequence parallelism, with zero1, and with nothing, parts of layers or every layer recomputed;
// and asynchronous parameter servers, on ranks of their own or one on each worker's rank. These go
// with data parallelism alone and are lowered each: a few milliseconds a candidate. Pure.

#include <vector>

#include "planner/search/space.hpp"

namespace planner {

// Nothing of a kind that a pin contradicts.
std::vector<Structure> stale_structures(const Job& job, const SpaceOptions& options,
                                        const Constraints& constraints);

}  // namespace planner
