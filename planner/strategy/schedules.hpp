#pragma once
// What a strategy's schedule asks for, and the passes of its stages. Pure; thread-safe.

#include <cstdint>

#include "planner/strategy/strategy.hpp"
#include "sim/program/collective.hpp"
#include "sim/program/schedule.hpp"

namespace planner {

// What all-reduces gradients. REQUIRES: resolved (automatic counts as ring).
program::Algorithm algorithm_of(GradSync sync);

// How many chunks a model of so many layers fills: where ranks hold several, the first may be the
// embeddings alone and the last the head alone, as of Llama 3 [llama3] section 3.3.2.
inline std::int64_t chunk_places(std::int64_t layers, std::int64_t virtual_stages) {
  return layers + (virtual_stages > 1 ? 2 : 0);
}

// Whether a schedule over `pipeline` ranks can be made of so many micro-batches.
bool schedule_takes(Schedule schedule, std::int64_t pipeline, std::int64_t micro_batches);

// Which part of the model, in its order, a rank's chunk is.
std::int64_t place_of_chunk(Schedule schedule, std::int64_t rank, std::int64_t ranks,
                            std::int64_t chunk);

// Whether a rank receives a pass's message before the pass begins, into a landing buffer: not where
// ranks take turns (naive), nor for a single pass.
bool receives_ahead(const Strategy& strategy);

// Whether what a pass sent is released only when the next pass of its kind has computed: where
// passes of one kind follow each other, so that the message travels beside that one.
bool releases_late(const Strategy& strategy);

// Passes of a training stage over its micro-batches.
program::RankSchedule schedule_of(const Strategy& strategy, int stage, std::int64_t micro_batches);

}  // namespace planner
