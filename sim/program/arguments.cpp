#include "sim/program/arguments.hpp"

#include <algorithm>

#include "core/check.hpp"

namespace program {

using models::Operator;
using models::ops::Argument;
using models::ops::Kernel;
using models::ops::Signature;
using models::ops::Source;

namespace {

// Outputs that the schema names and the operator has. An optional one is kept by its own operator;
// a copy that another operator keeps may stand in its place.
bool has_output(const Argument& a, const Operator& op) {
  if (a.index >= op.outputs.size()) return false;
  return !a.optional || std::ranges::count(op.saved, op.outputs[a.index]) > 0;
}

// Whether its parameters are trained: all of them are, or none.
bool takes_gradients(const Operator& op) { return op.flops_weight_gradient.value() > 0; }

// Whether the operator does not say if the argument is there.
bool undecided(const Argument& a) {
  if (!a.optional) return false;
  return a.source == Source::gradient_of_input || a.source == Source::beside;
}

// How many arguments the name stands for, as far as the operator decides it. outputs: those that
// have come before it.
std::size_t count_of(const Argument& a, const Operator& op, std::size_t outputs) {
  switch (a.source) {
    case Source::input:
    case Source::gradient_of_input:
      return a.many ? op.inputs.size() : a.optional ? 0 : 1;
    case Source::parameter: return !a.optional || a.index < op.parameters.size() ? 1 : 0;
    case Source::output: return has_output(a, op) ? 1 : 0;
    case Source::kept: return !a.optional || a.index < op.saved.size() ? 1 : 0;
    case Source::narrow: return op.outputs.size() - outputs;
    case Source::gradient_of_parameter:
      return !a.optional || (a.index < op.parameters.size() && takes_gradients(op)) ? 1 : 0;
    case Source::gradient_of_output:
    case Source::beside: return a.optional ? 0 : 1;
  }
  return 0;
}

}  // namespace

bool has_operator(ActionKind kind) {
  return kind == ActionKind::forward || kind == ActionKind::input_gradient ||
         kind == ActionKind::weight_gradient;
}

Kernel kernel_of(ActionKind kind) {
  PLANNER_CHECK(has_operator(kind), "not a kernel of an operator");
  return kind == ActionKind::forward          ? Kernel::forward
         : kind == ActionKind::input_gradient ? Kernel::input_gradient
                                              : Kernel::weight_gradient;
}

ActionKind kind_of(Kernel kernel) {
  return kernel == Kernel::forward          ? ActionKind::forward
         : kernel == Kernel::input_gradient ? ActionKind::input_gradient
                                        : ActionKind::weight_gradient;
}

const models::ops::Schema& schema_of(const Operator& op) {
  if (op.ring_steps == 0) return models::ops::schema(op.kind);
  return op.ring_step == 0 ? models::ops::ring_own : models::ops::ring_block;
}

std::optional<ArgumentRuns> find_arguments(const Signature& signature, const Operator& op,
                                           std::size_t count) {
  ArgumentRuns runs{};
  std::size_t decided = 0, open = 0, outputs = 0;
  for (std::size_t i = 0; i < signature.count; ++i) {
    const Argument& a = signature.arguments[i];
    runs[i].count = static_cast<std::uint8_t>(count_of(a, op, outputs));
    decided += runs[i].count;
    outputs += a.source == Source::output ? runs[i].count : 0;
    open += undecided(a) ? 1 : 0;
  }
  if (count != decided && count != decided + open) return std::nullopt;
  std::size_t at = 0;
  for (std::size_t i = 0; i < signature.count; ++i) {
    if (count > decided && undecided(signature.arguments[i])) runs[i].count = 1;
    runs[i].first = static_cast<std::uint8_t>(at);
    at += runs[i].count;
  }
  return runs;
}

bool has_output(const Operator& op, std::string_view name) {
  const Signature& s = models::ops::signature(schema_of(op), Kernel::forward);
  const std::size_t i = s.find(name);
  return i < s.count && has_output(s.arguments[i], op);
}

std::size_t argument(const Operator& op, Kernel kernel, std::size_t count, std::string_view name) {
  const Signature& s = models::ops::signature(schema_of(op), kernel);
  const auto runs = find_arguments(s, op, count);
  const std::size_t i = s.find(name);
  PLANNER_CHECK(runs && i < s.count && (*runs)[i].count > 0, "an action without this argument");
  return (*runs)[i].first;
}

}  // namespace program
