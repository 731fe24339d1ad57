#include "models/builder.hpp"

#include <algorithm>
#include <cmath>

#include "core/check.hpp"

namespace models {

static std::int64_t product(const std::vector<std::int64_t>& shape) {
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  return elements;
}

Parameter make_parameter(std::string name, std::vector<std::int64_t> full_shape, Split split,
                         Init init, double init_stddev) {
  Parameter p;
  p.name = std::move(name);
  p.shape = full_shape;
  if (split.axis >= 0) {
    std::int64_t& size = p.shape[static_cast<std::size_t>(split.axis)];
    size = (size + split.ways - 1) / split.ways;
  }
  p.elements = product(p.shape);
  p.unsharded_elements = product(full_shape);
  p.decays = full_shape.size() >= 2;
  p.full_shape = std::move(full_shape);
  p.split_axis = split.axis;
  p.split_groups = split.groups;
  p.init = init;
  p.init_stddev = init_stddev;
  return p;
}

TensorIndex SegmentBuilder::tensor(const std::string& name, TensorRole role,
                                   std::int64_t per_sample, TensorIndex in_place_of) {
  if (in_place_of != kNoTensor)
    PLANNER_CHECK(tensor_at(in_place_of).per_sample == per_sample, "in place of another size");
  segment_.tensors.push_back({prefix + name, role, per_sample, in_place_of});
  producer_.push_back(-1);
  return static_cast<TensorIndex>(segment_.tensors.size() - 1);
}

TensorIndex SegmentBuilder::tokens(const std::string& name, std::int64_t rows,
                                   std::int64_t ahead) {
  const TensorIndex t = tensor(name, TensorRole::tokens, rows);
  segment_.tensors[static_cast<std::size_t>(t)].ahead = ahead;
  return t;
}

TensorIndex SegmentBuilder::narrow_copy(TensorIndex of, double bytes) {
  return tensor(without_prefix(tensor_at(of).name) + ".narrow", TensorRole::bytes,
                std::llround(bytes));
}

void SegmentBuilder::keep_beside(Operator& op, double bytes, TensorRole role) {
  if (inference_ || bytes < 1) return;
  const TensorIndex t = tensor(op.name + ".beside", role, static_cast<std::int64_t>(bytes));
  op.outputs.push_back(t);
  op.saved.push_back(t);
}

TensorIndex SegmentBuilder::storage_of(TensorIndex t) const {
  while (tensor_at(t).in_place_of >= 0) t = tensor_at(t).in_place_of;
  return t;
}

bool SegmentBuilder::keeps(TensorIndex x) const {
  const auto reads = [&](const Operator& op) {
    return std::ranges::any_of(
        op.saved, [&](TensorIndex t) { return storage_of(t) == storage_of(x); });
  };
  const auto [first, last] = boost::vertices(segment_.graph);
  return std::any_of(first, last, [&](auto v) { return reads(segment_.graph[v]); });
}

TensorIndex SegmentBuilder::kept_as(Operator& op, TensorIndex y, double bytes) {
  if (inference_ || bytes < 1) return y;
  const TensorIndex copy = narrow_copy(y, bytes);
  op.outputs.push_back(copy);
  return kept_inputs_[y] = copy;
}

TensorIndex SegmentBuilder::kept_as(TensorIndex x, double bytes) {
  const bool made_here = producer_.at(static_cast<std::size_t>(x)) >= 0;
  if (inference_ || bytes < 1 || !made_here || keeps(x)) return x;
  return kept_inputs_[x] = written_beside(x, bytes);
}

TensorIndex SegmentBuilder::written_beside(TensorIndex x, double bytes) {
  const std::int64_t made_by = producer_.at(static_cast<std::size_t>(x));
  PLANNER_CHECK(made_by >= 0, "bytes beside what nothing here makes");
  const TensorIndex copy = narrow_copy(x, bytes);
  segment_.graph[static_cast<std::size_t>(made_by)].outputs.push_back(copy);
  producer_.at(static_cast<std::size_t>(copy)) = made_by;
  return copy;
}

TensorIndex SegmentBuilder::kept_input(TensorIndex x) {
  if (const auto known = kept_inputs_.find(x); known != kept_inputs_.end()) return known->second;
  const std::int64_t made_by = producer_.at(static_cast<std::size_t>(x));
  if (inference_ || kept.product_input <= 0 || made_by < 0 || keeps(x)) return x;
  const auto producer = static_cast<std::size_t>(made_by);
  const bool gathers = segment_.graph[producer].kind == OpKind::sequence_gather;
  const TensorIndex of = gathers ? segment_.graph[producer].inputs.front() : x;
  const std::int64_t source = producer_.at(static_cast<std::size_t>(of));
  const bool again =
      source >= 0 &&
      (segment_.graph[static_cast<std::size_t>(source)].modules & kept.again) != 0;
  if (again) return x;
  const double bytes = kept.product_input * static_cast<double>(tensor_at(of).per_sample);
  const TensorIndex copy = written_beside(x, bytes);
  if (gathers) segment_.graph[producer].saved.push_back(copy);
  return kept_inputs_[x] = gathers ? x : copy;
}

ParameterIndex SegmentBuilder::parameter(Parameter parameter) {
  if (inference_) parameter.trainable = false;
  parameter.name.insert(0, prefix);
  parameter.mtp = !prefix.empty();
  segment_.parameters.push_back(std::move(parameter));
  return static_cast<ParameterIndex>(segment_.parameters.size() - 1);
}

// A routed expert's activation is moe_act; any other mlp_act.
static ModuleSet modules_of(OpKind kind, ModuleSet within) {
  if (kind == OpKind::attention) return both(within, set_of(Module::core_attn));
  if (kind == OpKind::layer_norm || kind == OpKind::rms_norm)
    return both(within, set_of(Module::layernorm));
  if (!ops::is_activation(kind)) return within;
  const bool routed = has(within, Module::moe) && !has(within, Module::shared_experts);
  return both(within, set_of(routed ? Module::moe_act : Module::mlp_act));
}

void SegmentBuilder::add(Operator op) {
  op.modules = modules_of(op.kind, within);
  op.name.insert(0, prefix);
  if (inference_) {
    op.saved.clear();
    op.flops_input_gradient = op.flops_weight_gradient = core::Flops{};
    op.elements_backward = 0;
  }
  const std::vector<TensorIndex> inputs = op.inputs;
  const std::vector<TensorIndex> outputs = op.outputs;
  const auto vertex = boost::add_vertex(std::move(op), segment_.graph);
  for (const TensorIndex input : inputs) {
    const std::int64_t from = producer_.at(static_cast<std::size_t>(input));
    if (from >= 0)
      boost::add_edge(static_cast<std::size_t>(from), vertex, TensorEdge{input}, segment_.graph);
  }
  for (const TensorIndex output : outputs) {
    std::int64_t& producer = producer_.at(static_cast<std::size_t>(output));
    PLANNER_CHECK(producer < 0, "a tensor has one producer");
    producer = static_cast<std::int64_t>(vertex);
  }
}

const Parameter& SegmentBuilder::parameter_at(ParameterIndex index) const {
  return segment_.parameters.at(static_cast<std::size_t>(index));
}

const Tensor& SegmentBuilder::tensor_at(TensorIndex index) const {
  return segment_.tensors.at(static_cast<std::size_t>(index));
}

Segment SegmentBuilder::finish(TensorIndex input, TensorIndex output) && {
  segment_.input = input;
  segment_.output = output;
  return std::move(segment_);
}

}  // namespace models
