// The ends of operator graphs: the model's input, or the rows of its tokens, and the loss.
#include <algorithm>

#include "models/builder.hpp"

namespace models {

// Of tokens, those that follow the last ones of a sample.
Segment graph_epilogue(const ModelSpec& spec, const Shape& shape, bool inference) {
  SegmentBuilder b("epilogue", inference);
  const std::int64_t n = elements_of(shape);
  const bool classes = spec.loss == Loss::cross_entropy;
  const TensorIndex y =
      b.tensor("x", classes ? TensorRole::logits : TensorRole::activation, n);
  if (inference) return std::move(b).finish(y, y);
  if (classes) {
    const std::int64_t rows = n / shape.back();
    const std::int64_t tokens = tokens_of(spec.graph);
    const TensorIndex targets = b.tokens("targets", rows, tokens > 0 ? tokens - rows + 1 : 1);
    cross_entropy_loss(b, y, targets, rows, shape.back(), 1);
  } else {
    squared_error_loss(b, y, b.tensor("targets", TensorRole::features, n), n);
  }
  return std::move(b).finish(y, kNoTensor);
}

// Tables of tokens start as GPT-2's do, those of positions as well.
constexpr double kTableStddev = 0.02;

// Rows of the tokens, of several embeddings one behind the other.
static Segment build_embeddings(const GraphSpec& spec, const GraphAnalysis& a, bool inference) {
  SegmentBuilder b("prologue", inference);
  std::vector<TensorIndex> tokens, rows;
  for (const TokenInput& input : spec.token_inputs)
    tokens.push_back(b.tokens(input.name, input.tokens,
                              std::max<std::int64_t>(1, tokens_before(spec, input.name))));
  const auto table = [&](const std::string& name, std::int64_t n, std::int64_t width) {
    return b.parameter(make_parameter(name, {n, width}, {}, Init::normal, kTableStddev));
  };
  for (const int i : a.embeddings) {
    const OperatorSpec& op = spec.operators[static_cast<std::size_t>(i)];
    const auto input = static_cast<std::size_t>(
        std::ranges::find(spec.token_inputs, op.inputs.front(), &TokenInput::name) -
        spec.token_inputs.begin());
    const std::int64_t count = spec.token_inputs[input].tokens;
    const ParameterIndex words = table(op.name + ".weight", spec.vocabulary, op.width);
    TensorIndex y = token_embedding(b, op.name, tokens[input], count, words);
    if (op.positions)
      y = position_embedding(b, op.name + ".add_positions", y, count,
                             table(op.name + ".positions", count, op.width));
    rows.push_back(y);
  }
  const TensorIndex y = rows.size() == 1 ? rows[0] : concat(b, "embedded", rows, 1);
  Segment segment = std::move(b).finish(tokens[0], y);
  segment.shares_gradients = false;
  return segment;
}

Segment graph_prologue(const GraphSpec& spec, const GraphAnalysis& a, bool inference) {
  if (!spec.token_inputs.empty()) return build_embeddings(spec, a, inference);
  SegmentBuilder start("prologue", inference);
  const TensorIndex input =
      start.tensor(spec.input, TensorRole::features, elements_of(spec.input_shape));
  return std::move(start).finish(input, input);
}

}  // namespace models
