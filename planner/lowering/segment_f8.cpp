// Products in 8 bits (--precision fp8, where the executor's kernels run): what a product reads is
// cast right before it, and the copies are freed right after it.
#include <algorithm>

#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"
#include "planner/stage/f8_weights.hpp"

namespace planner::lowering {

using models::TensorIndex;
using models::ops::Kernel;

void SegmentEmitter::find_f8() {
  if (!stage_.policy.casts_f8) return;
  f8_products_ = stage::products_in_f8(segment_);
  const bool codes = stage_.policy.weights_f8 || stage_.policy.reads_codes;
  if (codes && kind_ == SegmentKind::layer) f8_codes_ = stage::read_in_f8(segment_);
}

bool SegmentEmitter::is_codes(models::ParameterIndex p) const {
  return !f8_codes_.empty() && f8_codes_[static_cast<std::size_t>(p)];
}

// Matrices that are stored as codes of few bits are decoded, and multiplied in 16 bits.
bool SegmentEmitter::in_f8(const Op& op) const {
  if (f8_products_.empty()) return false;
  return f8_products_[position_of(op)] && !quantised(op.parameters[0]);
}

View SegmentEmitter::f8_view(const F8Matrix& matrix, std::int32_t of, const std::string& name) {
  const auto [at, added] =
      f8_buffers_.try_emplace({matrix.operand, matrix.by_columns, of}, program::kNone);
  if (added) {
    program::Buffer b;
    b.name = segment_.name + "." + name + (matrix.by_columns ? ".f8_by_columns" : ".f8");
    b.term = matrix.per_sample() ? program::Term::activations : program::Term::communication;
    b.type = core::DType::f8;
    b.elements = {matrix.bytes().value()};
    b.f8 = matrix;
    at->second = builder_.buffer(std::move(b));
  }
  return constant_view(at->second);
}

// The copy of an activation or of its gradient, whose rows have so many columns.
View SegmentEmitter::f8_rows(F8Operand operand, TensorIndex t, std::int64_t columns,
                             bool by_columns) {
  const models::Tensor& tensor = segment_.tensors[static_cast<std::size_t>(t)];
  PLANNER_CHECK(tensor.per_sample % columns == 0, "rows of " + tensor.name + " are not whole");
  const bool gradient = operand == F8Operand::gradient;
  return f8_view({.scaling = *stage_.policy.casts_f8, .operand = operand,
                  .by_columns = by_columns, .groups = stage_.samples,
                  .rows = tensor.per_sample / columns, .columns = columns},
                 t, (gradient ? "d_" : "") + tensor.name);
}

void SegmentEmitter::cast_to_f8(View from, std::initializer_list<View> to) {
  std::vector<View> args{from};
  for (const View& view : to) {
    if (view.buffer == program::kNone) continue;
    builder_.alloc(view);
    args.push_back(view);
  }
  if (args.size() > 1) builder_.emit({.kind = ActionKind::cast, .args = std::move(args)});
}

// Weights that were gathered as codes are multiplied as they are.
View SegmentEmitter::cast_weight(const Op& op, bool by_columns) {
  const models::ParameterIndex p = op.parameters[0];
  if (is_codes(p)) return weight_view(p);
  const models::Parameter& weight = segment_.parameters[static_cast<std::size_t>(p)];
  const auto& shape = weight.shape;
  const std::int64_t columns = shape.back(), rows = shape[shape.size() - 2];
  const View copy = f8_view({.scaling = *stage_.policy.casts_f8, .operand = F8Operand::weight,
                             .by_columns = by_columns,
                             .groups = weight.elements / (rows * columns), .rows = rows,
                             .columns = columns},
                            p, weight.name);
  cast_to_f8(weight_view(p), {copy});
  return copy;
}

void SegmentEmitter::release_weight(const Op& op, View copy) {
  if (!is_codes(op.parameters[0])) builder_.free(copy);
}

void SegmentEmitter::forward_in_f8(const Op& op, std::uint16_t index, Given given) {
  const View x = f8_rows(F8Operand::input, op.inputs[0], op.k, false);
  cast_to_f8(input_view(op.inputs[0]), {x});
  const View w = cast_weight(op, false);
  given.emplace_back("x", x);
  given.emplace_back("w", w);
  builder_.emit({.kind = ActionKind::forward,
                 .args = arguments(op, Kernel::forward, given),
                 .op = index});
  release_weight(op, w);
  builder_.free(x);
}

// Casts the gradient of the result once, in the order of each gradient that is computed from it
// now.
SegmentEmitter::F8Gradient SegmentEmitter::cast_gradient(const Op& op, View d_y, bool of_weight,
                                                         bool of_input) {
  F8Gradient cast;
  if (!in_f8(op)) return cast;
  const TensorIndex y = op.outputs[0];
  if (of_weight) cast.by_columns = f8_rows(F8Operand::gradient, y, op.n, true);
  if (of_input) cast.by_rows = f8_rows(F8Operand::gradient, y, op.n, false);
  cast_to_f8(d_y, {cast.by_columns, cast.by_rows});
  return cast;
}

// Biases sum the gradient as it was before it was cast.
void SegmentEmitter::weight_gradient_in_f8(const Op& op, View d_y, View cast) {
  const View x = f8_rows(F8Operand::input, op.inputs[0], op.k, true);
  cast_to_f8(input_view(op.saved.front()), {x});
  Given given{{"d_y", cast}, {"x", x}};
  if (op.parameters.size() > 1) given.emplace_back("summed", d_y);
  emit_backward(Kernel::weight_gradient, op, given);
  builder_.free(x);
  builder_.free(cast);
}

void SegmentEmitter::input_gradient_in_f8(const Op& op, View cast, View d_x, bool accumulate) {
  const View w = cast_weight(op, true);
  emit_backward(Kernel::input_gradient, op, {{"d_y", cast}, {"w", w}, {"d_x", d_x}}, accumulate);
  release_weight(op, w);
  builder_.free(cast);
}

}  // namespace planner::lowering
