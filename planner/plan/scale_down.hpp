#pragma once
// Scale down: a planned job made so small that a host executes it in seconds, to prove its plan.
// The strategy keeps every key but the batch's (micro_batch, grad_accum) and the layers of its
// stages, so the small job has the same degrees, schedule, sharding and checkpoints, and a Program
// of the same shape. What it takes is predicted anew. Pure: depends on the plan alone, not on the
// machine that asks, so every process gets the same job.

#include <cstdint>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "planner/plan/plan.hpp"

namespace planner {

// A figure of the job or model that was made smaller: "sequence length", 1024, 128.
struct ScaledFigure {
  std::string name;
  std::int64_t planned = 0, run = 0;
};

struct ScaledPlan {
  Plan plan;                           // of the small job; holds the chosen candidate alone
  std::vector<ScaledFigure> figures;   // empty: the job was small enough
};

// What all ranks of a small job hold together, and what they compute in a step: a few seconds of
// two cores.
inline constexpr core::Bytes kScaledBytes{std::int64_t{1} << 30};
inline constexpr core::Flops kScaledFlops{1e11};

// Makes the candidate's job smaller, one figure after the other until it is small enough: samples
// of a micro-batch, micro-batches, tokens of a sample, vocabulary, layers, heads, width of a head.
// A figure keeps what the strategy divides by it; a pipeline keeps two micro-batches a stage.
// Problems: a strategy that the smallest such job cannot take either, or one still too large.
// REQUIRES: candidate is one of the plan's.
core::Result<ScaledPlan> scale_down(const Plan& plan, const Candidate& candidate);

// "sequence length 1024 -> 128, layers 48 -> 2"
std::string to_text(const std::vector<ScaledFigure>& figures);

}  // namespace planner
