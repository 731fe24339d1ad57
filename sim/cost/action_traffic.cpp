// What this tool's kernels read and write of a GPU's memory. tests/property/cuda_traffic_test.cpp
// counts it on the twin.
#include <algorithm>

#include "core/check.hpp"
#include "sim/cost/action.hpp"
#include "sim/cost/work.hpp"
#include "sim/program/arguments.hpp"

namespace cost {

using models::OpKind;
using models::Operator;
using models::ops::Argument;
using models::ops::Source;
using models::ops::WorkOf;
using program::Action;
using program::ActionKind;
using program::Call;

namespace {

// Elements of an argument that the operator's kernels touch: of a table the rows that are looked
// up, of q, k and v those that are turned or normed.
std::int64_t touched(const Operator& op, const Argument& a, ActionKind kind, std::int64_t samples,
                     std::int64_t elements) {
  const std::int64_t rows = op.rows * samples;
  const bool of_table = a.source == Source::parameter || a.source == Source::gradient_of_parameter;
  if (of_table && work_of(op) == WorkOf::lookup) return std::min(elements, rows * op.n);
  if (of_table && op.kind == OpKind::position_embedding)
    return std::min(elements, op.rows * op.n);
  if (op.kind == OpKind::rope) return rows * op.n;
  if (op.kind == OpKind::square_sums && a.name.ends_with("qkv")) return rows * op.n;
  if (op.kind == OpKind::qk_norm && kind == ActionKind::input_gradient && a.name == "qkv")
    return elements - rows * op.kv_heads * models::value_dim_of(op);
  if (op.kind == OpKind::combine && a.name == "gates" && !op.weighs) return 0;
  return elements;
}

// Whether a kernel of its own adds a bias to what a product has written.
bool adds_bias(const Operator& op, const Argument& a, ActionKind kind) {
  return op.kind == OpKind::expert_linear && op.parameters.size() > 1 &&
         kind == ActionKind::forward && a.source == Source::output;
}

// Whether a kernel of its own reads the argument again: for the sums of a bias.
bool is_summed(const Operator& op, const Argument& a, ActionKind kind) {
  const bool product = is_matrix_product(work_of(op));
  return product && kind == ActionKind::weight_gradient && op.parameters.size() > 1 &&
         a.source == Source::gradient_of_output;
}

}  // namespace

// What is written need not be read, unless the result is added to what is there. Gradients of
// parameters always are.
MemoryTraffic ActionCost::operator_traffic(const Action& action, const Call& call) const {
  const Operator& op = class_->operators[action.op];
  const models::ops::Signature& signature =
      models::ops::signature(program::schema_of(op), program::kernel_of(action.kind));
  const auto runs = program::find_arguments(signature, op, action.arg_count);
  PLANNER_CHECK(runs.has_value(), "an action whose arguments are not those of its operator");
  const bool adds = (action.flags & program::kAccumulate) != 0;
  MemoryTraffic all;
  for (std::size_t i = 0; i < signature.count; ++i) {
    const Argument& a = signature.arguments[i];
    const bool in_place =
        a.written && (a.source == Source::gradient_of_output || a.source == Source::input);
    const bool added = a.source == Source::gradient_of_parameter ||
                       (adds && a.source == Source::gradient_of_input);
    const bool again = adds_bias(op, a, action.kind);
    const int reads = (!a.written || in_place || added ? 1 : 0) +
                      (is_summed(op, a, action.kind) || again ? 1 : 0);
    for (int k = 0; k < (*runs)[i].count; ++k) {
      const int arg = (*runs)[i].first + k;
      const core::Bytes size =
          core::bytes_of(touched(op, a, action.kind, samples_, elements(action, arg, call)),
                         buffer(action, arg).type);
      all.read += size * reads;
      if (a.written) all.written += size * (again ? 2 : 1);
    }
  }
  return all;
}

// Elements are the destination's: what an activation is copied from may have another term. Codes
// are written once in each order; with the greatest magnitude of all, what they are made of is read
// twice.
MemoryTraffic ActionCost::cast_traffic(const Action& action, const Call& call) const {
  const program::Buffer &from = buffer(action, 0), &to = buffer(action, 1);
  if (!to.f8) {
    const std::int64_t n = elements(action, 1, call);
    return {core::bytes_of(n, from.type), core::bytes_of(n, to.type)};
  }
  planner::F8Matrix matrix = *to.f8;
  if (matrix.per_sample()) matrix.groups = samples_;
  return {core::bytes_of(matrix.elements(), from.type) * (matrix.reads_twice() ? 2 : 1),
          matrix.bytes() * (action.arg_count - 1)};
}

double ActionCost::cast_launches(const Action& action) const {
  const program::Buffer& to = buffer(action, 1);
  return to.f8 && to.f8->reads_twice() ? 2 : 1;
}

// args {weight, gradient, [master], slots...}: each is read and written once, the gradient is read.
// Where there is a master copy, this tool's kernels write the weight and do not read it. What
// follows from the norm is a few numbers.
MemoryTraffic ActionCost::update_traffic(const Action& action, const Call& call) const {
  const bool master =
      program_->optimizer.has_master && (action.flags & program::kMasterAlone) == 0;
  const int arrays = action.arg_count - (program::reads_norm(action) ? 1 : 0);
  MemoryTraffic all;
  for (int i = 0; i < arrays; ++i) {
    const core::Bytes size = bytes(action, i, call);
    if (i > 0 || !master || !machine_->executor_kernels) all.read += size;
    if (i != 1) all.written += size;
  }
  return all;
}

MemoryTraffic ActionCost::traffic(const Action& action, const Call& call) const {
  const auto size = [&](int arg) { return bytes(action, arg, call); };
  switch (action.kind) {
    case ActionKind::load:
    case ActionKind::zero: return {{}, size(0)};
    case ActionKind::cast: return cast_traffic(action, call);
    case ActionKind::dequantise: return {size(0), size(1)};
    case ActionKind::accumulate: {
      // A ring's gradients of keys are added to some columns of what they go into.
      const core::Bytes sum = std::min(size(0), size(1));
      return {size(0) + sum, sum};
    }
    case ActionKind::square_sum: return {size(0), {}};
    case ActionKind::scale_step: return {size(1), {}};
    case ActionKind::optimizer: return update_traffic(action, call);
    case ActionKind::forward:
    case ActionKind::input_gradient:
    case ActionKind::weight_gradient: return operator_traffic(action, call);
    default: return {};
  }
}

}  // namespace cost
