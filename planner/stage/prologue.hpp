#pragma once
// Internal: what lowering and closed form both have to know of the embeddings. Pure; thread-safe.

#include <string>

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

// The prologue's parameter that the epilogue reads too, for its head or for modules that predict
// further tokens; "": none.
inline std::string tied_table(const models::ModelGraph& graph) {
  for (const models::Parameter& p : graph.epilogue.parameters)
    if (!p.tied_to.empty()) return p.tied_to;
  return "";
}

}  // namespace planner::stage
