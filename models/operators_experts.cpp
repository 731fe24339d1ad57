// Operators of mixtures of experts. Each token goes to `chosen` of E experts [mixtral] section 2.2;
// routing is taken as balanced: every expert gets rows x chosen / E tokens, none is dropped.
#include "models/operator_work.hpp"

namespace models {

// Per logit: maximum, exp, sum, divide, and one comparison per expert that is kept.
constexpr double kRouteForward = 4;
// Per logit: softmax's derivative (two products, a sum, a difference).
constexpr double kRouteInputGradient = 4;

Routing top_k(SegmentBuilder& b, const std::string& name, TensorIndex logits, std::int64_t rows,
              std::int64_t experts, std::int64_t chosen) {
  Routing routing;
  routing.gates = b.tensor(name + ".gates", TensorRole::activation, rows * chosen);
  routing.experts = b.tensor(name + ".experts", TensorRole::tokens, rows * chosen);
  Operator op = shaped(name, OpKind::top_k, rows, experts, chosen);
  op.inputs = {logits};
  op.outputs = {routing.gates, routing.experts};
  op.saved = {routing.gates, routing.experts};
  op.flops_forward = flops(kRouteForward + static_cast<double>(chosen), rows, experts);
  op.flops_input_gradient = flops(kRouteInputGradient, rows, experts);
  op.elements_forward = op.elements_backward = rows * (experts + 2 * chosen);
  b.add(std::move(op));
  return routing;
}

TensorIndex dispatch(SegmentBuilder& b, const std::string& name, TensorIndex x,
                     TensorIndex experts, std::int64_t rows, std::int64_t n, std::int64_t chosen) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, chosen * rows * n);
  Operator op = shaped(name, OpKind::dispatch, rows, n, chosen);
  op.inputs = {x, experts};
  op.outputs = {y};
  op.saved = {experts};
  op.flops_input_gradient = flops(static_cast<double>(chosen), rows, n);  // the copies' sum
  op.elements_forward = 2 * chosen * rows * n;
  op.elements_backward = (chosen + 1) * rows * n;
  b.add(std::move(op));
  return y;
}

TensorIndex expert_linear(SegmentBuilder& b, const std::string& name, TensorIndex x,
                          LinearShape shape, std::int64_t experts, ParameterIndex weight) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, shape.rows * shape.n);
  Operator op = shaped(name, OpKind::expert_linear, shape.rows, shape.n, shape.k);
  op.inputs = {x};
  op.outputs = {y};
  op.parameters = {weight};
  if (trained(b, weight)) op.saved = {x};
  count_product(op, 1, trained(b, weight));
  op.groups = experts;
  op.parameter_elements = parameter_elements(b, op);
  b.add(std::move(op));
  return y;
}

TensorIndex combine(SegmentBuilder& b, const std::string& name, TensorIndex x, Routing routing,
                    std::int64_t rows, std::int64_t n, std::int64_t chosen) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n);
  Operator op = shaped(name, OpKind::combine, rows, n, chosen);
  op.inputs = {x, routing.gates, routing.experts};
  op.outputs = {y};
  op.saved = {x, routing.gates, routing.experts};
  const double k = static_cast<double>(chosen);
  op.flops_forward = flops(2 * k, rows, n);
  op.flops_input_gradient = flops(3 * k, rows, n);  // dx = gate dy; dgate = x . dy
  op.elements_forward = (chosen + 1) * rows * n + 2 * rows * chosen;
  op.elements_backward = (2 * chosen + 1) * rows * n + 3 * rows * chosen;  // x, dx, dy
  b.add(std::move(op));
  return y;
}

}  // namespace models
