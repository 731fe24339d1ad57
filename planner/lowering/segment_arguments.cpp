// The arguments of an operator's actions, in the order of its schema. What is a tensor or a
// parameter of the operator has one view; what is not (gradients, keys of other ranks, the loss) is
// given by name.
#include <algorithm>

#include "core/check.hpp"
#include "planner/lowering/segment_emitter.hpp"
#include "sim/program/arguments.hpp"

namespace planner::lowering {

using models::ops::Argument;
using models::ops::Kernel;
using models::ops::Signature;
using models::ops::Source;

void SegmentEmitter::append_own(const Argument& a, const Op& op, std::vector<View>& args) const {
  const std::size_t i = a.index;
  switch (a.source) {
    case Source::input:
      if (a.many)
        for (models::TensorIndex t : op.inputs) args.push_back(input_view(t));
      else
        args.push_back(input_view(op.inputs[i]));
      return;
    case Source::parameter:
      if (i < op.parameters.size()) args.push_back(weight_view(op.parameters[i]));
      return;
    case Source::narrow:  // behind the outputs that have names: all at once
      for (models::TensorIndex t : op.outputs) args.push_back(tensor_view(t));
      return;
    case Source::kept:
      if (i < op.saved.size()) args.push_back(input_view(op.saved[i]));
      return;
    case Source::gradient_of_parameter:
      if (i < op.parameters.size() && trained(op.parameters[i]))
        args.push_back(gradient_view(op.parameters[i]));
      return;
    case Source::output:
    case Source::gradient_of_input:
    case Source::gradient_of_output:
    case Source::beside: return;
  }
}

std::vector<View> SegmentEmitter::arguments(const Op& op, Kernel kernel,
                                            const Given& given) const {
  const Signature& signature = models::ops::signature(program::schema_of(op), kernel);
  std::vector<View> args;
  args.reserve(signature.count + op.inputs.size());
  std::size_t used = 0;
  for (const Argument& a : signature.all()) {
    const std::size_t before = args.size();
    for (const auto& [name, view] : given)
      if (name == a.name) args.push_back(view);
    used += args.size() - before;
    if (args.size() == before) append_own(a, op, args);
  }
  PLANNER_CHECK(used == given.size(), "an argument that the schema of " + op.name + " lacks");
  PLANNER_CHECK(program::find_arguments(signature, op, args.size()).has_value(),
                "not all arguments that the schema of " + op.name + " has");
  return args;
}

std::size_t SegmentEmitter::position_of(const Op& op) const {
  const auto at = std::ranges::find_if(order_, [&](auto v) { return &segment_.graph[v] == &op; });
  return static_cast<std::size_t>(at - order_.begin());
}

std::uint16_t SegmentEmitter::index_of(const Op& op) const { return op_index_[position_of(op)]; }

void SegmentEmitter::emit_backward(Kernel kernel, const Op& op, const Given& given,
                                   bool accumulate) {
  builder_.emit({.kind = program::kind_of(kernel),
                 .args = arguments(op, kernel, given),
                 .op = index_of(op),
                 .flags = static_cast<std::uint8_t>(accumulate ? program::kAccumulate : 0)});
}

}  // namespace planner::lowering
