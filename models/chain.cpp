// Feed-forward chains: widths[0] features, then one dense layer per further width. The layers of
// the memory laws (O(N) activations, sqrt(N) checkpoints) and of MNIST-size networks.
#include <cmath>
#include <compare>
#include <map>

#include "models/builder.hpp"

namespace models {

namespace {

// Layers that agree here share a template.
struct LayerKey {
  std::int64_t in = 0, out = 0;
  Activation activation = Activation::identity;
  TensorRole output = TensorRole::activation;
  friend auto operator<=>(const LayerKey&, const LayerKey&) = default;
};

// One sample is one row. Weights start at 1 / sqrt(inputs), so that a row of layers neither
// explodes nor dies.
Segment build_layer(const LayerKey& key, bool inference) {
  SegmentBuilder b("layer", inference);
  const TensorIndex x = b.tensor("x", TensorRole::activation, key.in);
  const double stddev = 1.0 / std::sqrt(static_cast<double>(key.in));
  const ParameterIndex weight =
      b.parameter(make_parameter("weight", {key.out, key.in}, {}, Init::normal, stddev));
  const ParameterIndex bias = b.parameter(make_parameter("bias", {key.out}, {}, Init::zero));
  const TensorIndex y =
      dense(b, "dense", x, {1, key.out, key.in}, weight, bias, key.activation, key.output);
  return std::move(b).finish(x, y);
}

Segment build_prologue(std::int64_t width, bool inference) {
  SegmentBuilder b("prologue", inference);
  const TensorIndex x = b.tensor("features", TensorRole::features, width);
  return std::move(b).finish(x, x);
}

Segment build_epilogue(const ModelSpec& spec, TensorRole role, bool inference) {
  SegmentBuilder b("epilogue", inference);
  const std::int64_t n = spec.widths.back();
  const TensorIndex y = b.tensor("x", role, n);
  if (inference) return std::move(b).finish(y, y);
  if (spec.loss == Loss::cross_entropy) {
    const TensorIndex targets = b.tensor("targets", TensorRole::tokens, 1);
    cross_entropy_loss(b, y, targets, 1, n, 1);
  } else {
    squared_error_loss(b, y, b.tensor("targets", TensorRole::features, n), n);
  }
  return std::move(b).finish(y, kNoTensor);
}

}  // namespace

ModelGraph build_chain(const ModelSpec& spec, const GraphOptions& options) {
  ModelGraph graph;
  graph.spec = spec;
  graph.options = options;
  graph.prologue = build_prologue(spec.widths.front(), options.inference);
  const TensorRole last_role =
      spec.loss == Loss::cross_entropy ? TensorRole::logits : TensorRole::activation;
  const std::size_t layers = spec.widths.size() - 1;
  graph.spec.layers = static_cast<std::int64_t>(layers);
  std::map<LayerKey, int> template_of;
  for (std::size_t i = 0; i < layers; ++i) {
    const bool last = i + 1 == layers;
    const LayerKey key{spec.widths[i], spec.widths[i + 1],
                       last ? Activation::identity : spec.activation,
                       last ? last_role : TensorRole::activation};
    const auto [at, added] = template_of.emplace(key, static_cast<int>(graph.templates.size()));
    if (added) graph.templates.push_back(build_layer(key, options.inference));
    graph.layer_template.push_back(at->second);
  }
  graph.epilogue = build_epilogue(spec, last_role, options.inference);
  return graph;
}

}  // namespace models
