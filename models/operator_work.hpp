#pragma once
// What the operators' definitions share: shapes, and the work of a matrix product. Private to
// models/.

#include "models/builder.hpp"

namespace models {

inline core::Flops flops(double per_element, std::int64_t rows, std::int64_t n) {
  return core::Flops(per_element * static_cast<double>(rows) * static_cast<double>(n));
}

inline Operator shaped(const std::string& name, OpKind kind, std::int64_t rows, std::int64_t n,
                       std::int64_t k) {
  Operator op;
  op.name = name;
  op.kind = kind;
  op.rows = rows;
  op.n = n;
  op.k = k;
  return op;
}

// By the numbers of the kind's schema: operations and elements for each of rows x n.
inline void count_pointwise(Operator& op) {
  const ops::Work& work = ops::schema(op.kind).work;
  op.flops_forward = flops(work.flops_forward, op.rows, op.n);
  op.flops_input_gradient = flops(work.flops_backward, op.rows, op.n);
  op.elements_forward = work.moved_forward * op.rows * op.n;
  op.elements_backward = work.moved_backward * op.rows * op.n;
}

// Forward, dx and (trained) dW of y[rows,n] = x[rows,k] W^T: forward reads x and writes y; dx
// reads dy and writes dx; dW reads dy and x.
inline void count_product(Operator& op, std::int64_t groups, bool trained) {
  const core::Flops once = flops(2.0 * static_cast<double>(op.k * groups), op.rows, op.n);
  op.is_gemm = true;
  op.flops_forward = op.flops_input_gradient = once;
  if (trained) op.flops_weight_gradient = once;
  op.elements_forward = op.rows * groups * (op.n + op.k);
  op.elements_backward = op.elements_forward * (trained ? 2 : 1);
}

inline std::int64_t parameter_elements(const SegmentBuilder& b, const Operator& op) {
  std::int64_t total = 0;
  for (const ParameterIndex p : op.parameters) total += b.parameter_at(p).elements;
  return total;
}

inline bool trained(const SegmentBuilder& b, ParameterIndex p) {
  return p >= 0 && b.parameter_at(p).trainable;
}

}  // namespace models
