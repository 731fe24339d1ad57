// Operator graphs of model files: the file's operators in topological order, divided into layers
// where one value alone goes on (analyse). Layers are templates of their own, since their operators
// have names of their own. The first layer reads the model's input; the loss is the epilogue.
#include <cmath>
#include <map>
#include <set>

#include "core/check.hpp"
#include "models/builder.hpp"

namespace models {

namespace {

using Kind = OperatorSpec::Kind;

class LayerBuilder {
 public:
  LayerBuilder(const GraphSpec& spec, const GraphAnalysis& analysis, bool inference)
      : spec_(spec), a_(analysis), inference_(inference) {
    for (const int i : a_.order)
      for (const int from : a_.inputs[at(i)]) ++readers_[from];
  }

  // Operators [first, layer.last] of the order, on the value that goes in.
  Segment build(int first, const GraphAnalysis::Layer& layer, int input) {
    SegmentBuilder b("layer", inference_);
    tensors_.clear();
    tensors_[input] = b.tensor("x", TensorRole::activation, elements_at(input));
    const TensorIndex x = tensors_[input];
    first_ = x;
    for (int position = first; position <= layer.last; ++position) {
      const int i = a_.order[at(position)];
      tensors_[i] = append(b, i);
    }
    Segment segment = std::move(b).finish(x, tensors_.at(layer.output));
    segment.shares_gradients = false;
    return segment;
  }

  // Operators of one part, and the messages between: sent at once, received before the first use.
  // What was sent may go at the end, when compute waits for nothing else.
  Segment build_part(const std::vector<std::int64_t>& parts, std::int64_t part) {
    SegmentBuilder b("layer", inference_);
    tensors_.clear();
    const PartValues own = part_values(parts, part), other = part_values(parts, 3 - part);
    TensorIndex input = first_ = kNoTensor;
    if (own.reads_input)
      input = first_ = tensors_[kModelInput] =
          b.tensor("x", TensorRole::activation, elements_at(kModelInput));
    std::vector<TensorIndex> sent;
    for (const int i : a_.order) {
      const bool mine = parts[at(i)] == part;
      const bool joins = spec_.operators[at(i)].kind == Kind::concat;
      if (joins ? own.joined.contains(i) : mine) tensors_[i] = append(b, i);
      else if (own.received.contains(i)) tensors_[i] = cut_receive(b, i);
      if (!joins && mine && other.received.contains(i)) cut_send(b, i), sent.push_back(tensors_[i]);
    }
    if (!sent.empty()) {
      Operator op;
      op.name = "sent";
      op.kind = OpKind::cut_sent;
      op.inputs = sent;
      b.add(std::move(op));
    }
    const bool makes_output = parts[at(a_.output)] == part;
    Segment segment =
        std::move(b).finish(input, makes_output ? tensors_.at(a_.output) : kNoTensor);
    segment.shares_gradients = false;
    return segment;
  }

  std::int64_t elements_at(int value) const {
    return elements_of(value == kModelInput ? spec_.input_shape : a_.shapes[at(value)]);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static ImageShape image(const Shape& shape) { return {shape[0], shape[1], shape[2]}; }

  // What a part reads: values that others make, and joins, of which each reader has its own.
  struct PartValues {
    std::set<int> received, joined;
    bool reads_input = false;
  };
  PartValues part_values(const std::vector<std::int64_t>& parts, std::int64_t part) const {
    PartValues values;
    for (auto i = a_.order.rbegin(); i != a_.order.rend(); ++i) {
      const bool joins = spec_.operators[at(*i)].kind == Kind::concat;
      const bool mine = parts[at(*i)] == part && (!joins || *i == a_.output);
      if (joins && mine) values.joined.insert(*i);
      if (!mine && !values.joined.contains(*i)) continue;
      for (const int from : a_.inputs[at(*i)]) {
        if (from == kModelInput) values.reads_input = true;
        else if (spec_.operators[at(from)].kind == Kind::concat) values.joined.insert(from);
        else if (parts[at(from)] != part) values.received.insert(from);
      }
    }
    return values;
  }

  static Operator crossing(OpKind kind, const std::string& of, int value) {
    Operator op;
    op.name = of;
    op.kind = kind;
    op.k = value;
    return op;
  }
  void cut_send(SegmentBuilder& b, int value) const {
    Operator op = crossing(OpKind::cut_send, "send." + spec_.operators[at(value)].name, value);
    op.inputs = {tensors_.at(value)};
    b.add(std::move(op));
  }
  TensorIndex cut_receive(SegmentBuilder& b, int value) const {
    const std::string& of = spec_.operators[at(value)].name;
    const TensorIndex y = b.tensor(of + ".received", TensorRole::activation, elements_at(value));
    Operator op = crossing(OpKind::cut_receive, "receive." + of, value);
    op.outputs = {y};
    b.add(std::move(op));
    return y;
  }

  // A ReLU takes the place of a sum of products: nothing else reads that, and its own backward pass
  // does not.
  bool may_replace(int value, TensorIndex input) const {
    if (value == kModelInput || readers_.at(value) > 1 || input == first_) return false;
    const Kind made_by = spec_.operators[at(value)].kind;
    return made_by == Kind::convolution || made_by == Kind::linear || made_by == Kind::add;
  }

  // Weights start at sqrt(2 / inputs) [he2015].
  ParameterIndex weight(SegmentBuilder& b, const OperatorSpec& op,
                        std::vector<std::int64_t> shape) const {
    std::int64_t inputs = 1;
    for (std::size_t axis = 1; axis < shape.size(); ++axis) inputs *= shape[axis];
    const double stddev = std::sqrt(2.0 / static_cast<double>(inputs));
    return b.parameter(
        make_parameter(op.name + ".weight", std::move(shape), {}, Init::normal, stddev));
  }
  ParameterIndex vector(SegmentBuilder& b, const std::string& name, std::int64_t n,
                        Init init) const {
    return b.parameter(make_parameter(name, {n}, {}, init));
  }

  TensorIndex append(SegmentBuilder& b, int i) {
    const OperatorSpec& op = spec_.operators[at(i)];
    const Shape& from = a_.input_shapes[at(i)];
    const Shape& to = a_.shapes[at(i)];
    const int value = a_.inputs[at(i)].front();
    const TensorIndex x = tensors_.at(value);
    const std::int64_t n = elements_of(to), rows = to.size() == 2 ? to[0] : 1;
    switch (op.kind) {
      case Kind::convolution: return convolve(b, op, x, image(from), image(to));
      case Kind::linear: {
        const ParameterIndex w = weight(b, op, {op.width, from.back()});
        const ParameterIndex own = bias(b, op);
        return linear(b, op.name, x, {rows, op.width, from.back()}, w, own);
      }
      case Kind::relu:
        return unary(b, op.name, OpKind::relu, x, rows, n / rows,
                     {.in_place = may_replace(value, x)});
      case Kind::gelu:
        return unary(b, op.name, OpKind::gelu, x, rows, n / rows,
                     {.form = Activation::gelu_tanh});
      case Kind::max_pool:
      case Kind::average_pool:
        return pool(b, op.name, x, image(from), image(to), {op.kernel, op.stride, op.padding},
                    op.kind == Kind::max_pool ? Pool::maximum : Pool::average);
      case Kind::local_response_norm:
        return local_response_norm(b, op.name, x, image(from), op.window);
      case Kind::layer_norm: {
        const ParameterIndex gamma = vector(b, op.name + ".weight", to.back(), Init::one);
        const ParameterIndex beta = vector(b, op.name + ".bias", to.back(), Init::zero);
        return layer_norm(b, op.name, x, rows, to.back(), {gamma, beta});
      }
      case Kind::dropout: return inference_ ? x : dropout(b, op.name, x, n);
      case Kind::add: return sum(b, op.name, x, tensors_.at(a_.inputs[at(i)][1]), n);
      case Kind::concat: {
        std::vector<TensorIndex> all;
        for (const int each : a_.inputs[at(i)]) all.push_back(tensors_.at(each));
        return concat(b, op.name, all, rows);
      }
      case Kind::flatten: break;
    }
    PLANNER_CHECK(false, "a flatten is no operator of the graph");
  }

  ParameterIndex bias(SegmentBuilder& b, const OperatorSpec& op) const {
    return op.bias ? vector(b, op.name + ".bias", op.width, Init::zero) : -1;
  }

  TensorIndex convolve(SegmentBuilder& b, const OperatorSpec& op, TensorIndex x, ImageShape from,
                       ImageShape to) const {
    const ParameterIndex w =
        weight(b, op, {op.width, from.channels / op.groups, op.kernel, op.kernel});
    const ParameterIndex own = bias(b, op);
    return convolution(b, op.name, x, from, to, {op.kernel, op.stride, op.padding}, op.groups, w,
                       own);
  }

  const GraphSpec& spec_;
  const GraphAnalysis& a_;
  const bool inference_;
  std::map<int, int> readers_;         // by value
  std::map<int, TensorIndex> tensors_; // by value, of the layer being built
  TensorIndex first_ = kNoTensor;      // its input
};

Segment build_epilogue(const ModelSpec& spec, const Shape& shape, bool inference) {
  SegmentBuilder b("epilogue", inference);
  const std::int64_t n = elements_of(shape);
  const bool classes = spec.loss == Loss::cross_entropy;
  const TensorIndex y =
      b.tensor("x", classes ? TensorRole::logits : TensorRole::activation, n);
  if (inference) return std::move(b).finish(y, y);
  if (classes) {
    const std::int64_t rows = n / shape.back();
    const TensorIndex targets = b.tensor("targets", TensorRole::tokens, rows);
    cross_entropy_loss(b, y, targets, rows, shape.back(), 1);
  } else {
    squared_error_loss(b, y, b.tensor("targets", TensorRole::features, n), n);
  }
  return std::move(b).finish(y, kNoTensor);
}

Segment build_prologue(const GraphSpec& spec, bool inference) {
  SegmentBuilder start("prologue", inference);
  const TensorIndex input =
      start.tensor(spec.input, TensorRole::features, elements_of(spec.input_shape));
  return std::move(start).finish(input, input);
}

}  // namespace

ModelGraph build_part(const ModelSpec& spec, const GraphOptions& options,
                      const std::vector<std::int64_t>& parts, std::int64_t part) {
  ModelGraph graph;
  graph.spec = spec;
  graph.options = options;
  const GraphAnalysis analysis = analyse(spec.graph);
  PLANNER_CHECK(analysis.issues.empty(), "check_spec refuses such a graph");
  graph.spec.layers = 1;
  graph.prologue = build_prologue(spec.graph, options.inference);
  graph.layer_template = {0};
  graph.templates.push_back(
      LayerBuilder(spec.graph, analysis, options.inference).build_part(parts, part));
  graph.epilogue = build_epilogue(spec, analysis.output_shape, options.inference);
  return graph;
}

ModelGraph build_operator_graph(const ModelSpec& spec, const GraphOptions& options) {
  ModelGraph graph;
  graph.spec = spec;
  graph.options = options;
  const GraphAnalysis analysis = analyse(spec.graph);
  PLANNER_CHECK(analysis.issues.empty(), "check_spec refuses such a graph");
  graph.spec.layers = std::ssize(analysis.layers);
  LayerBuilder builder(spec.graph, analysis, options.inference);
  graph.prologue = build_prologue(spec.graph, options.inference);
  int first = 0, from = kModelInput;
  for (const GraphAnalysis::Layer& layer : analysis.layers) {
    graph.layer_template.push_back(static_cast<int>(graph.templates.size()));
    graph.templates.push_back(builder.build(first, layer, from));
    first = layer.last + 1;
    from = layer.output;
  }
  graph.epilogue = build_epilogue(spec, analysis.output_shape, options.inference);
  return graph;
}

}  // namespace models
