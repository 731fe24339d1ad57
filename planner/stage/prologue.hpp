#pragma once
// Internal: what the closed form has to know of the embeddings as well. Pure; thread-safe.

#include "models/graph.hpp"

namespace planner::stage {

// Whether the backward pass of the embeddings needs their weights: lookups do not, a norm does.
inline bool backward_reads_weights(const models::Segment& prologue) {
  for (auto v : models::topological_order(prologue)) {
    const models::OpKind kind = prologue.graph[v].kind;
    if (kind == models::OpKind::layer_norm || kind == models::OpKind::rms_norm) return true;
  }
  return false;
}

}  // namespace planner::stage
