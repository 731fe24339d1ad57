#pragma once
// Internal: the rules of papers, printed beside the exact figures and never asserted.

#include <vector>

#include "planner/plan/plan.hpp"

namespace planner {

// samples: micro-batch of the figures for activations. Transformers alone; empty for chains.
std::vector<RuleOfThumb> rules_of_thumb(const models::ModelSpec& model, std::int64_t parameters,
                                        std::int64_t seq_len, std::int64_t samples);

}  // namespace planner
