#include "planner/stage/f8_weights.hpp"

#include <algorithm>

namespace planner::stage {
namespace {

using models::OpKind;
using models::Operator;

constexpr std::int64_t kMultiple = 16;

// By tensor: whether it says how rows are weighed or where they go.
std::vector<bool> gates_of(const models::Segment& layer) {
  std::vector<bool> gates(layer.tensors.size(), false);
  const auto mark = [&](models::TensorIndex t) { gates[static_cast<std::size_t>(t)] = true; };
  const auto order = topological_order(layer);
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    const Operator& op = layer.graph[*at];
    if (op.kind == OpKind::top_k) mark(op.inputs.front());
    if (op.kind == OpKind::row_gate) mark(op.inputs.back());
    const bool passes = op.kind == OpKind::sequence_gather || op.kind == OpKind::tensor_copy;
    if (passes && gates[static_cast<std::size_t>(op.outputs.front())]) mark(op.inputs.front());
  }
  return gates;
}

}  // namespace

std::vector<bool> products_in_f8(const models::Segment& segment) {
  const std::vector<bool> gates = gates_of(segment);
  std::vector<bool> found;
  for (const auto v : topological_order(segment)) {
    const Operator& op = segment.graph[v];
    const bool product = op.kind == OpKind::linear || op.kind == OpKind::expert_linear;
    found.push_back(product && !op.parameters.empty() && op.n % kMultiple == 0 &&
                    op.k % kMultiple == 0);
    if (!found.back()) continue;
    const auto y = static_cast<std::size_t>(op.outputs.front());
    const auto p = static_cast<std::size_t>(op.parameters.front());
    found.back() = !gates[y] && segment.tensors[y].role != models::TensorRole::logits &&
                   !segment.parameters[p].adapter;
  }
  return found;
}

std::vector<bool> read_in_f8(const models::Segment& layer) {
  const std::vector<bool> products = products_in_f8(layer);
  std::vector<bool> found(layer.parameters.size(), false);
  std::size_t position = 0;
  for (const auto v : topological_order(layer)) {
    if (!products[position++]) continue;
    const auto p = static_cast<std::size_t>(layer.graph[v].parameters.front());
    const models::Parameter& weight = layer.parameters[p];
    found[p] = weight.trainable && !weight.tensor_partial;
  }
  return found;
}

}  // namespace planner::stage
