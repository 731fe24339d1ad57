#pragma once
// Where a pipeline's boundaries lie: layers in order, divided over stages so that the slowest stage
// is as fast as it can be, within the memory of each. Exact. Pure; thread-safe.
//
// Symbols: L layers, p stages; t(l) time of a layer and micro-batch, forward and backward; the
// first stage also has the time of the embeddings, the last that of the head. A stage's period is
// the sum of its layers' times [pipedream] section 3.1; under gpipe, 1f1b and the interleaved
// schedules the slowest period sets the step.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "models/spec.hpp"

namespace planner {

// What a layer, the embeddings or the head adds to its stage.
struct StageLoad {
  std::int64_t time = 0;               // picoseconds of a micro-batch
  std::int64_t state = 0;              // bytes that persist
  std::int64_t kept = 0;               // bytes of a micro-batch, from forward to backward
  friend bool operator==(const StageLoad&, const StageLoad&) = default;
};

struct StageLoads {
  std::vector<StageLoad> layers;
  std::int64_t repeat = 1;             // equal layers: `layers` holds one of so many
  // Of each layer its index in `layers`, which lives longer; null: they are one by one.
  const std::vector<int>* entries = nullptr;
  StageLoad embeddings, head;
  std::int64_t working = 0;            // bytes that any stage needs beside, at its busiest instant
  std::int64_t count() const {
    return entries != nullptr ? std::ssize(*entries)
                              : static_cast<std::int64_t>(layers.size()) * repeat;
  }
  const StageLoad& layer(std::size_t l) const {
    return layers[entries != nullptr ? static_cast<std::size_t>((*entries)[l])
                  : repeat > 1       ? 0
                                     : l];
  }
};

// Of a stage on GPUs of several kinds: its time over that of the loads' GPU, and its memory.
struct StagePace {
  double slowness = 1;
  std::int64_t bytes = INT64_MAX;
};

struct StageLimits {
  std::int64_t stages = 1;
  std::int64_t bytes = INT64_MAX;      // of a stage
  std::vector<std::int64_t> in_flight{};  // by stage: micro-batches kept at once; empty: 1 each
  std::vector<StagePace> paces{};      // by stage, then `bytes` is none's; empty: all alike
  // Some division into as many stages: the least time is its longest at most, where it holds.
  const std::vector<std::int64_t>* known = nullptr;
};

// Layers per stage, each at least 1, of least longest stage time; nullopt: no division fits the
// memory. Of equals: equal layers as even as can be, with fewer at the ends; unequal ones the
// division of the earliest boundaries. REQUIRES: 1 <= stages <= count(); repeat > 1 of one layer.
// Where layers differ, no stage keeps more micro-batches than the one before it.
// Equal layers: O(p log(L p)); others O(p L). Of stages with paces the longest time is the least,
// too, to a part in 10^9; neighbours that are alike are as even as memory lets them: O(L).
// preferred: returned where each of its stages holds.
std::optional<std::vector<std::int64_t>> divide(
    const StageLoads& loads, const StageLimits& limits,
    const std::vector<std::int64_t>* preferred = nullptr);

// Layers per stage as nanotron divides them (models/base.py, build_model): layers in order, each of
// its matrices' elements, then the head; a stage takes layers until its share of the whole is
// passed, the layer that passes it included. Each stage has at least one here, where nanotron
// leaves the head alone or the last stage empty. REQUIRES: 1 <= stages <= layers of a transformer.
std::vector<std::int64_t> stages_by_cost(const models::ModelSpec& spec, std::int64_t stages);

// Longest stage time of a division, and whether each stage's memory holds.
std::int64_t longest_time(const StageLoads& loads, const std::vector<std::int64_t>& stages);
bool fits(const StageLoads& loads, const StageLimits& limits,
          const std::vector<std::int64_t>& stages);

}  // namespace planner
