// Operator graphs of model files: the file's operators in topological order, divided into layers
// where one value alone goes on (analyse). Layers are templates of their own, since their operators
// have names of their own. The first layer reads the model's input; the loss is the epilogue.
#include <cmath>
#include <map>
#include <set>

#include "core/check.hpp"
#include "models/builder.hpp"
#include "models/splits.hpp"

namespace models {

namespace {

using Kind = OperatorSpec::Kind;

class LayerBuilder {
 public:
  LayerBuilder(const GraphSpec& spec, const GraphAnalysis& analysis, const GraphOptions& options)
      : spec_(spec), a_(analysis), inference_(options.inference),
        synchronised_(options.synchronised_norms && !options.inference), ways_(options.split) {
    auto splits = complete_splits(spec, analysis, options.splits, ways_);
    PLANNER_CHECK(splits.ok(), "build_graph refuses splits that do not hold");
    splits_ = std::move(*splits);
    for (const int i : a_.order)
      for (const int from : a_.inputs[at(i)]) readers_[from].push_back(i);
  }

  // Operators [first, layer.last] of the order, on the value that goes in.
  Segment build(int first, const GraphAnalysis::Layer& layer, int input) {
    SegmentBuilder b("layer", inference_);
    tensors_.clear();
    const TensorIndex x = handed_on(b, input);
    first_ = x;
    for (int position = first; position <= layer.last; ++position) {
      const int i = a_.order[at(position)];
      tensors_[{i, made_at(i)}] = append(b, i);
    }
    Segment segment = std::move(b).finish(x, hand_on(b, layer.output));
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
      input = first_ = tensors_[{kModelInput, Place{}}] =
          b.tensor("x", TensorRole::activation, elements_at(kModelInput));
    std::vector<TensorIndex> sent;
    for (const int i : a_.order) {
      const bool mine = parts[at(i)] == part;
      const bool joins = spec_.operators[at(i)].kind == Kind::concat;
      if (joins ? own.joined.contains(i) : mine) tensors_[{i, Place{}}] = append(b, i);
      else if (own.received.contains(i)) tensors_[{i, Place{}}] = cut_receive(b, i);
      if (!joins && mine && other.received.contains(i))
        cut_send(b, i), sent.push_back(tensors_[{i, Place{}}]);
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
        std::move(b).finish(input, makes_output ? tensors_.at({a_.output, Place{}}) : kNoTensor);
    segment.shares_gradients = false;
    return segment;
  }

  std::int64_t elements_at(int value) const { return elements_of_value(a_, value); }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }
  static ImageShape image(const Shape& shape, std::int64_t ways = 1) {
    return {shape[0] / ways, shape[1], shape[2]};
  }

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
    op.inputs = {tensors_.at({value, Place{}})};
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

  // ---- where values lie on the ranks that divide operators (splits.hpp)

  std::string name_of(int value) const {
    if (value != kModelInput) return spec_.operators[at(value)].name;
    return spec_.input.empty() ? "embedded" : spec_.input;
  }

  Place made_at(int value) const {
    return made_place(a_, value, value == kModelInput ? ops::kSample : splits_[at(value)]);
  }
  Place read_at(int i) const { return read_place(spec_, a_, i, splits_[at(i)]); }

  // The value of this segment at that place, moved there if it is not.
  TensorIndex placed(SegmentBuilder& b, int value, const Place& want) {
    const auto there = tensors_.find({value, want});
    if (there != tensors_.end()) return there->second;
    const std::int64_t n = elements_at(value);
    const std::string& name = name_of(value);
    TensorIndex moved = kNoTensor;
    if (want.placement == Placement::samples) {
      const Place made = made_at(value);
      const TensorIndex columns = tensors_.at({value, made});
      moved = to_samples(b, name + ".to_samples", columns, made.rows, n / made.rows,
                         columns == first_);
    } else {
      const TensorIndex own = placed(b, value, {});
      const std::int64_t rows = std::max<std::int64_t>(want.rows, 1);
      moved = want.placement == Placement::whole
                  ? sample_gather(b, name + ".gather", own, 1, n, ways_, own == first_)
                  : to_columns(b, name + ".to_columns", own, rows, n / rows, own == first_);
    }
    return tensors_[{value, want}] = moved;
  }

  // Where a layer hands its value on: as its readers want it, which keep it then, where they agree.
  // Else as it is made, and to the loss as samples.
  Place handed_at(int value) const {
    if (value == a_.output || value == kModelInput) return {};
    const std::vector<int>& readers = readers_.at(value);
    const bool agree = std::ranges::all_of(
        readers, [&](int i) { return read_at(i) == read_at(readers.front()); });
    return agree ? read_at(readers.front()) : made_at(value);
  }
  TensorIndex hand_on(SegmentBuilder& b, int value) { return placed(b, value, handed_at(value)); }
  TensorIndex handed_on(SegmentBuilder& b, int value) {
    const Place at = handed_at(value);
    const std::int64_t ways = at.placement == Placement::whole ? ways_ : 1;
    return tensors_[{value, at}] =
               b.tensor("x", TensorRole::activation, elements_at(value) * ways);
  }

  // This rank's part of a parameter that is divided along `axis`.
  ParameterIndex divided(SegmentBuilder& b, Parameter p, int axis) const {
    p.shape[static_cast<std::size_t>(axis)] /= ways_;
    p.elements /= ways_;
    p.expert_ways = p.data_ways = ways_;
    p.ways_axis = axis;
    return b.parameter(std::move(p));
  }

  // A ReLU takes the place of a sum of products or of a norm of channels: nothing else reads that,
  // and its own backward pass does not.
  bool may_replace(int value, TensorIndex input) const {
    if (value == kModelInput || readers_.at(value).size() > 1 || input == first_) return false;
    if (input != tensors_.at({value, made_at(value)})) return false;
    const Kind made_by = spec_.operators[at(value)].kind;
    return made_by == Kind::convolution || made_by == Kind::linear || made_by == Kind::add ||
           made_by == Kind::batch_norm;
  }

  // Weights start at sqrt(2 / inputs) [he2015].
  ParameterIndex weight(SegmentBuilder& b, const OperatorSpec& op, std::vector<std::int64_t> shape,
                        ops::Factor factor) const {
    std::int64_t inputs = 1;
    for (std::size_t axis = 1; axis < shape.size(); ++axis) inputs *= shape[axis];
    const double stddev = std::sqrt(2.0 / static_cast<double>(inputs));
    Parameter p = make_parameter(op.name + ".weight", std::move(shape), {}, Init::normal, stddev);
    if (factor == ops::kOut) return divided(b, std::move(p), 0);
    if (factor == ops::kIn) return divided(b, std::move(p), 1);
    return b.parameter(std::move(p));
  }
  ParameterIndex vector(SegmentBuilder& b, const std::string& name, std::int64_t n,
                        Init init) const {
    return b.parameter(make_parameter(name, {n}, {}, init));
  }

  // Rows and columns are those of what this rank has of the operator's result.
  TensorIndex append(SegmentBuilder& b, int i) {
    const OperatorSpec& op = spec_.operators[at(i)];
    const Shape& from = a_.input_shapes[at(i)];
    const Shape& to = a_.shapes[at(i)];
    const int value = a_.inputs[at(i)].front();
    const TensorIndex x = placed(b, value, read_at(i));
    // Of all ranks' samples the columns of this one: the same number of elements.
    const std::int64_t ways = splits_[at(i)] == ops::kSample ? 1 : ways_;
    const std::int64_t n = elements_of(to), rows = rows_of(to) * ways;
    switch (op.kind) {
      case Kind::convolution: return convolve(b, i, x);
      case Kind::linear: return multiply(b, i, x);
      case Kind::relu:
        return unary(b, op.name, OpKind::relu, x, rows, n / rows,
                     {.in_place = may_replace(value, x)});
      case Kind::gelu:
        return unary(b, op.name, OpKind::gelu, x, rows, n / rows,
                     {.form = Activation::gelu_tanh});
      case Kind::max_pool:
      case Kind::average_pool:
        return pool(b, op.name, x, image(from, ways), image(to, ways),
                    {op.kernel, op.stride, op.padding},
                    op.kind == Kind::max_pool ? Pool::maximum : Pool::average, ways);
      case Kind::local_response_norm:
        return local_response_norm(b, op.name, x, image(from), op.window);
      case Kind::layer_norm: {
        const ParameterIndex gamma = vector(b, op.name + ".weight", to.back(), Init::one);
        const ParameterIndex beta = vector(b, op.name + ".bias", to.back(), Init::zero);
        return layer_norm(b, op.name, x, rows, to.back(), {gamma, beta});
      }
      case Kind::batch_norm: {
        const std::int64_t channels = to.front();
        const ParameterIndex gamma = vector(b, op.name + ".weight", channels, Init::one);
        const ParameterIndex beta = vector(b, op.name + ".bias", channels, Init::zero);
        const NormParameters of{gamma, beta};
        return synchronised_ ? synchronised_batch_norm(b, op.name, x, channels, n / channels, of)
                             : batch_norm(b, op.name, x, channels, n / channels, of);
      }
      case Kind::dropout:
        return inference_ ? x : dropout(b, op.name, x, ways > 1 ? rows : 1, n, ways);
      case Kind::add: return sum(b, op.name, x, placed(b, a_.inputs[at(i)][1], read_at(i)), n);
      case Kind::concat: {
        std::vector<TensorIndex> all;
        for (const int each : a_.inputs[at(i)]) all.push_back(placed(b, each, read_at(i)));
        return concat(b, op.name, all, rows);
      }
      case Kind::embedding: return slice(b, op.name, x, 1, embedded_before(i), n);
      case Kind::rms_norm:
        return rms_norm(b, op.name, x, rows, to.back(),
                        vector(b, op.name + ".weight", to.back(), Init::one));
      case Kind::attention: return attend(b, i);
      case Kind::swiglu: {
        const std::vector<TensorIndex> parts{x, placed(b, a_.inputs[at(i)][1], read_at(i))};
        return gated(b, op.name, OpKind::swiglu, concat(b, op.name + ".gate_up", parts, rows), rows,
                     n / rows);
      }
      case Kind::flatten: break;
    }
    PLANNER_CHECK(false, "a flatten is no operator of the graph");
  }

  // Elements of a sample that the embeddings before this one make.
  std::int64_t embedded_before(int i) const {
    std::int64_t before = 0;
    for (const int other : a_.embeddings)
      if (other < i) before += elements_of(a_.shapes[at(other)]);
    return before;
  }

  // Queries, keys and values in one row. The core's gradient overwrites what it reads, so it reads
  // a row of its own.
  TensorIndex attend(SegmentBuilder& b, int i) {
    const OperatorSpec& op = spec_.operators[at(i)];
    const Shape& to = a_.shapes[at(i)];
    const std::int64_t ways = splits_[at(i)] == ops::kSample ? 1 : ways_;
    std::vector<TensorIndex> parts;
    for (const int from : a_.inputs[at(i)]) parts.push_back(placed(b, from, read_at(i)));
    const bool own = parts.size() == 1 && parts[0] != first_ &&
                     readers_.at(a_.inputs[at(i)][0]).size() == 1;
    const std::int64_t rows = rows_of(to) * ways, head = to.back() / op.heads;
    TensorIndex qkv = own ? parts[0] : concat(b, op.name + ".qkv", parts, rows);
    const HeadShape heads{op.heads / ways, kv_heads_of(op) / ways, head};
    if (op.qk_norm) {
      const ParameterIndex q = vector(b, op.name + ".q_norm", head, Init::one);
      const ParameterIndex k = vector(b, op.name + ".k_norm", head, Init::one);
      qkv = models::qk_norm(b, op.name + ".qk_norm", qkv, rows, heads, q, k);
    }
    if (op.rotary_base > 0)
      qkv = rope(b, op.name + ".rope", qkv, rows_of(to), heads, head, op.rotary_base, ways);
    return attention(b, op.name, qkv, rows_of(to), heads, {.causal = op.causal, .origins = ways});
  }

  // A bias of columns that are divided is divided with them; of a sum over ranks it is added to
  // each rank's samples of the sum.
  ParameterIndex bias(SegmentBuilder& b, const OperatorSpec& op, ops::Factor factor) const {
    if (!op.bias) return -1;
    Parameter p = make_parameter(op.name + ".bias", {op.width}, {}, Init::zero);
    return factor == ops::kOut ? divided(b, std::move(p), 0) : b.parameter(std::move(p));
  }

  TensorIndex multiply(SegmentBuilder& b, int i, TensorIndex x) {
    const OperatorSpec& op = spec_.operators[at(i)];
    const ops::Factor factor = splits_[at(i)];
    const std::int64_t k = a_.input_shapes[at(i)].back(), rows = rows_of(a_.shapes[at(i)]);
    const ParameterIndex w = weight(b, op, {op.width, k}, factor);
    const ParameterIndex own = bias(b, op, factor);
    if (factor == ops::kSample) return linear(b, op.name, x, {rows, op.width, k}, w, own);
    if (factor == ops::kOut)
      return linear(b, op.name, x, {rows * ways_, op.width / ways_, k}, w, own);
    const TensorIndex parts = linear(b, op.name, x, {rows * ways_, op.width, k / ways_}, w);
    const TensorIndex y =
        sample_scatter(b, op.name + ".scatter", parts, rows, op.width, ways_);
    return own < 0 ? y : bias_add(b, op.name + ".add_bias", y, rows, op.width, own);
  }

  TensorIndex convolve(SegmentBuilder& b, int i, TensorIndex x) {
    const OperatorSpec& op = spec_.operators[at(i)];
    const ops::Factor factor = splits_[at(i)];
    const Shape& of = a_.input_shapes[at(i)];
    const ImageShape from = image(of, factor == ops::kIn ? ways_ : 1);
    const ImageShape to = image(a_.shapes[at(i)], factor == ops::kOut ? ways_ : 1);
    const ParameterIndex w =
        weight(b, op, {op.width, of[0] / op.groups, op.kernel.height, op.kernel.width}, factor);
    const ParameterIndex own = bias(b, op, factor);
    const TensorIndex y =
        convolution(b, op.name, x, from, to, {op.kernel, op.stride, op.padding}, op.groups, w,
                    own, factor == ops::kSample ? 1 : ways_);
    if (factor != ops::kIn) return y;
    return sample_scatter(b, op.name + ".scatter", y, 1, elements_of(a_.shapes[at(i)]), ways_);
  }

  const GraphSpec& spec_;
  const GraphAnalysis& a_;
  const bool inference_, synchronised_;
  const std::int64_t ways_;            // ranks that divide operators
  Splits splits_;
  std::map<int, std::vector<int>> readers_;              // by value
  std::map<std::pair<int, Place>, TensorIndex> tensors_;  // of the layer being built, by value
  TensorIndex first_ = kNoTensor;      // its input
};

}  // namespace

ModelGraph build_part(const ModelSpec& spec, const GraphOptions& options,
                      const std::vector<std::int64_t>& parts, std::int64_t part) {
  ModelGraph graph;
  graph.spec = spec;
  graph.options = options;
  const GraphAnalysis analysis = analyse(spec.graph);
  PLANNER_CHECK(analysis.issues.empty(), "check_spec refuses such a graph");
  graph.spec.layers = 1;
  graph.prologue = graph_prologue(spec.graph, analysis, options.inference);
  graph.layer_template = {0};
  graph.templates.push_back(
      LayerBuilder(spec.graph, analysis, options).build_part(parts, part));
  graph.epilogue = graph_epilogue(spec, analysis.output_shape, options.inference);
  return graph;
}

ModelGraph build_operator_graph(const ModelSpec& spec, const GraphOptions& options) {
  ModelGraph graph;
  graph.spec = spec;
  graph.options = options;
  const GraphAnalysis analysis = analyse(spec.graph);
  PLANNER_CHECK(analysis.issues.empty(), "check_spec refuses such a graph");
  graph.spec.layers = std::ssize(analysis.layers);
  LayerBuilder builder(spec.graph, analysis, options);
  graph.prologue = graph_prologue(spec.graph, analysis, options.inference);
  int first = 0, from = kModelInput;
  for (const GraphAnalysis::Layer& layer : analysis.layers) {
    graph.layer_template.push_back(static_cast<int>(graph.templates.size()));
    graph.templates.push_back(builder.build(first, layer, from));
    first = layer.last + 1;
    from = layer.output;
  }
  graph.epilogue = graph_epilogue(spec, analysis.output_shape, options.inference);
  return graph;
}

}  // namespace models
