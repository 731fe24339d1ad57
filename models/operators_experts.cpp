// Operators of mixtures of experts. Each token goes to `chosen` of E experts [mixtral] section 2.2;
// routing is balanced (routing_window): every expert gets rows x chosen / E of a sample's tokens
// (where E does not divide that, the first so many get fewer), none is dropped. Buffers are that
// size, times the load where the busiest rank is stated to have more (GraphOptions::expert_load).
#include <cmath>

#include "models/operator_work.hpp"

namespace models {

// Per logit: maximum, exp, sum, divide, and one comparison per expert that is kept.
constexpr double kRouteForward = 4;
// Per logit: softmax's derivative (two products, a sum, a difference).
constexpr double kRouteInputGradient = 4;

Routing top_k(SegmentBuilder& b, const std::string& name, TensorIndex logits, std::int64_t rows,
              std::int64_t experts, std::int64_t chosen, const Router& router) {
  Routing routing;
  routing.gates = b.tensor(name + ".gates", TensorRole::activation, rows * chosen);
  routing.places = b.tensor(name + ".places", TensorRole::tokens, rows * chosen);
  Operator op = shaped(name, OpKind::top_k, rows, experts, chosen);
  op.inputs = {logits};
  op.outputs = {routing.gates, routing.places};
  op.saved = {routing.gates, routing.places};
  if (!router.chosen_alone()) op.saved.push_back(logits);
  op.router = router;
  op.flops_forward = flops(kRouteForward + static_cast<double>(chosen), rows, experts);
  op.flops_input_gradient = flops(kRouteInputGradient, rows, experts);
  op.elements_forward = op.elements_backward = rows * (experts + 2 * chosen);
  b.add(std::move(op));
  return routing;
}

TensorIndex dispatch(SegmentBuilder& b, const std::string& name, TensorIndex x, TensorRole role,
                     TensorIndex places, std::int64_t rows, std::int64_t n, std::int64_t chosen,
                     std::int64_t copies) {
  const TensorIndex y = b.tensor(name + ".out", role, copies * n);
  Operator op = shaped(name, OpKind::dispatch, rows, n, chosen);
  op.inputs = {x, places};
  op.outputs = {y};
  op.saved = {places};
  op.flops_input_gradient = flops(static_cast<double>(chosen), rows, n);  // the copies' sum
  op.elements_forward = 2 * copies * n;
  op.elements_backward = (copies + rows) * n;
  b.add(std::move(op));
  return y;
}

TensorIndex expert_exchange(SegmentBuilder& b, const std::string& name, TensorIndex x,
                            std::int64_t rows, std::int64_t n) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n);
  Operator op = shaped(name, OpKind::expert_exchange, rows, n, 0);
  op.inputs = {x};
  op.outputs = {y};
  b.add(std::move(op));
  return y;
}

TensorIndex expert_linear(SegmentBuilder& b, const std::string& name, TensorIndex x,
                          LinearShape shape, ParameterIndex weight, std::int64_t origins,
                          TensorRole role, ParameterIndex bias, std::int64_t bias_ways,
                          bool last) {
  const TensorIndex y = b.tensor(name + ".out", role, shape.rows * shape.n);
  Operator op = shaped(name, OpKind::expert_linear, shape.rows, shape.n, shape.k);
  op.inputs = {x};
  op.outputs = {y};
  op.parameters = {weight};
  op.adds_last_bias = last;
  if (bias >= 0) {
    op.parameters.push_back(bias);
    op.scale = static_cast<double>(bias_ways);  // ranks that divide its columns
  }
  if (trained(b, weight)) op.saved = {b.kept_input(x)};
  count_product(op, 1, trained(b, weight));
  op.groups = b.parameter_at(weight).shape.front();
  op.origins = origins;
  op.parameter_elements = parameter_elements(b, op);
  b.add(std::move(op));
  return y;
}

TensorIndex combine(SegmentBuilder& b, const std::string& name, TensorIndex x, Routing routing,
                    std::int64_t rows, std::int64_t n, std::int64_t chosen, bool weighs,
                    TensorIndex kept) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n);
  Operator op = shaped(name, OpKind::combine, rows, n, chosen);
  op.weighs = weighs;
  op.inputs = {x, routing.gates, routing.places};
  op.outputs = {y};
  op.saved = {kept == kNoTensor ? x : kept, routing.gates, routing.places};
  const double k = static_cast<double>(chosen);
  op.flops_forward = flops(2 * k, rows, n);
  op.flops_input_gradient = flops(3 * k, rows, n);  // dx = gate dy; dgate = x . dy
  op.elements_forward = (chosen + 1) * rows * n + 2 * rows * chosen;
  op.elements_backward = (2 * chosen + 1) * rows * n + 3 * rows * chosen;  // x, dx, dy
  b.add(std::move(op));
  return y;
}

TensorIndex experts(SegmentBuilder& b, TensorIndex x, const Routing& routing,
                    const ExpertsShape& s, const ExpertsInit& init) {
  const std::int64_t f = s.ffn_hidden, h = s.hidden;
  const std::int64_t rows = std::llround(static_cast<double>(s.rows * s.chosen) * s.load);
  const TensorRole outward = s.ways > 1 ? TensorRole::sent : TensorRole::activation;
  // On tensor ranks that hold different experts, each is whole.
  const auto divided = [&](int axis, int groups) {
    return s.ways == s.data_ways ? Split{axis, s.tensor, groups} : Split{};
  };
  const auto of_experts = [&](Parameter p) {
    p.expert_ways = s.ways;
    p.data_ways = s.data_ways;
    p.shape[0] /= s.ways;
    p.elements /= s.ways;
    p.trainable = !init.frozen;
    return b.parameter(std::move(p));
  };
  const auto weights = [&](const char* name, std::int64_t out, std::int64_t in, Split split,
                           double stddev) {
    return of_experts(make_parameter(name, {s.experts, out, in}, split, Init::normal, stddev));
  };
  const auto biases = [&](const char* name, std::int64_t out, Split split) -> ParameterIndex {
    if (!s.biases) return -1;
    Parameter p = make_parameter(name, {s.experts, out}, split, Init::zero);
    p.decays = false;
    return of_experts(std::move(p));
  };
  const auto exchanged = [&](const char* name, TensorIndex from) {
    return s.ways > 1 ? expert_exchange(b, name, from, rows, h) : from;
  };
  const TensorIndex sent =
      dispatch(b, "moe.dispatch", x, outward, routing.places, s.rows, h, s.chosen, rows);
  const TensorIndex here = exchanged("moe.to_experts", sent);
  const ParameterIndex first =
      weights("moe.gate_up.weight", 2 * f, h, divided(1, 2), init.first_stddev);
  const ParameterIndex first_bias = biases("moe.gate_up.bias", 2 * f, divided(1, 2));
  const TensorIndex both =
      expert_linear(b, "moe.gate_up", here, {rows, 2 * f / s.tensor, h}, first, s.ways,
                    TensorRole::activation, first_bias);
  const char* const name = s.gate == OpKind::geglu ? "moe.geglu" : "moe.swiglu";
  const TensorIndex activated = gated(b, name, s.gate, both, rows, f / s.tensor);
  const ParameterIndex second =
      weights("moe.proj.weight", h, f, divided(2, 1), init.second_stddev);
  const ParameterIndex second_bias = biases("moe.proj.bias", h, divided(1, 1));
  const TensorIndex made =
      expert_linear(b, "moe.proj", activated, {rows, h, f / s.tensor}, second, s.ways, outward,
                    second_bias, s.tensor, s.biases);
  const TensorIndex back = exchanged("moe.from_experts", made);
  // Where rows are weighed before they come back, what was made of them is not kept: the gates that
  // went with them are.
  const double gates = b.kept.returned_row * static_cast<double>(rows);
  const TensorIndex weighed =
      gates > 0 && !b.inference() ? b.written_beside(sent, gates) : kNoTensor;
  return combine(b, "moe.combine", back, routing, s.rows, h, s.chosen, s.weighs, weighed);
}

}  // namespace models
