// Operator graphs: the file's operators as they are written, in the first order in which each finds
// its inputs made, and back. Every value has one gradient, added to by its readers.
#include <algorithm>
#include <optional>
#include <stdexcept>

#include "exec/host/graphs.hpp"
#include "exec/interpret/initialise.hpp"
#include "tests/property/reference_parts.hpp"

namespace tests {
namespace {

using models::OperatorSpec;
using models::Shape;
using Kind = OperatorSpec::Kind;

struct Value {
  Shape shape;                         // of one sample
  Typed y, d;
  bool needs = false, has = false;     // a gradient
};

// One operator, executed: what its backward pass reads.
struct Step {
  const OperatorSpec* op = nullptr;
  std::vector<std::string> inputs;
  Typed mask, mean, rstd;
};

class Graph : Model {
 public:
  explicit Graph(MicroBatch& batch)
      : Model(batch, batch.samples), spec_(batch.spec->graph), samples_(batch.samples) {}

  void train(double* loss) {
    values_[spec_.input] = {spec_.input_shape, b_.inputs, {}, false, false};
    for (const OperatorSpec* op : in_order()) forward(*op);
    apply_loss(values_.at(steps_.back().op->name), loss);
    for (auto step = steps_.rbegin(); step != steps_.rend(); ++step) backward(*step);
  }

 private:
  std::vector<const OperatorSpec*> in_order() const {
    std::vector<const OperatorSpec*> order;
    std::vector<std::string> made{spec_.input};
    const auto ready = [&](const OperatorSpec& op) {
      return std::ranges::count(made, op.name) == 0 &&
             std::ranges::all_of(op.inputs, [&](const std::string& name) {
               return std::ranges::count(made, name) > 0;
             });
    };
    while (order.size() < spec_.operators.size()) {
      const auto next = std::ranges::find_if(spec_.operators, ready);
      order.push_back(&*next);
      made.push_back(next->name);
    }
    return order;
  }

  static std::int64_t rows_of(const Shape& s) { return s.size() == 2 ? s[0] : 1; }
  static std::int64_t count(const Shape& s) { return models::elements_of(s); }
  host::WindowShape window(const OperatorSpec& op, const Shape& x) const {
    return {samples_, x[0], x[1], x[2], op.kernel, op.stride, op.padding};
  }
  host::ConvolutionShape convolution(const OperatorSpec& op, const Shape& x) const {
    return {window(op, x), op.width, op.groups};
  }
  host::ResponseShape response(const OperatorSpec& op, const Shape& x) const {
    return {samples_, x[0], x[1] * x[2], op.window};
  }
  host::ChannelShape channels(const Shape& x) const {
    return {samples_, x[0], count(x) / x[0]};
  }
  LinearShape product(const OperatorSpec& op, const Shape& x) const {
    return {samples_ * rows_of(x), op.width, x.back(), op.width, x.back()};
  }

  Shape shape_after(const OperatorSpec& op, const Shape& x) const {
    switch (op.kind) {
      case Kind::convolution:
      case Kind::max_pool:
      case Kind::average_pool: {
        const host::WindowShape s = window(op, x);
        return {op.kind == Kind::convolution ? op.width : x[0], s.out_height(), s.out_width()};
      }
      case Kind::linear: return x.size() == 1 ? Shape{op.width} : Shape{x[0], op.width};
      case Kind::flatten: return {count(x)};
      case Kind::concat: {
        Shape y = x;
        std::int64_t& joined = y[x.size() == 2 ? 1 : 0];
        for (std::size_t i = 1; i < op.inputs.size(); ++i)
          joined += values_.at(op.inputs[i]).shape[x.size() == 2 ? 1 : 0];
        return y;
      }
      default: return x;
    }
  }

  void forward(const OperatorSpec& op) {
    Step step{&op, op.inputs, {}, {}, {}};
    Value& x = values_.at(op.inputs[0]);
    Value made{shape_after(op, x.shape), {}, {}, false, false};
    made.y = activation(count(made.shape));
    for (const std::string& name : op.inputs) made.needs |= values_.at(name).needs;
    made.needs |= op.kind == Kind::convolution || op.kind == Kind::linear ||
                  op.kind == Kind::layer_norm || op.kind == Kind::batch_norm;
    compute(step, x, made);
    values_[op.name] = std::move(made);
    steps_.push_back(std::move(step));
  }

  void compute(Step& step, Value& x, Value& made) {
    const OperatorSpec& op = *step.op;
    const View y = made.y.at();
    const std::int64_t n = made.y.size();
    switch (op.kind) {
      case Kind::convolution: {
        const auto s = convolution(op, x.shape);
        return host::convolution(y, x.y.at(), weight(op.name + ".weight"), bias(op), s,
                                 workspace(host::convolution_workspace(b_.activation, s)));
      }
      case Kind::linear: {
        const LinearShape s = product(op, x.shape);
        return host::linear(y, x.y.at(), weight(op.name + ".weight"), bias(op), s, false,
                            workspace(host::linear_workspace(b_.activation, s)));
      }
      case Kind::relu: return host::relu(y, x.y.at(), n);
      case Kind::gelu: return host::gelu(y, x.y.at(), n);
      case Kind::max_pool: {
        step.mask = {core::DType::u8, n};
        const auto s = window(op, x.shape);
        return host::max_pool(y, step.mask.at(), x.y.at(), s,
                              workspace(host::pool_workspace(b_.activation, s)));
      }
      case Kind::average_pool: {
        const auto s = window(op, x.shape);
        return host::average_pool(y, x.y.at(), s,
                                  workspace(host::pool_workspace(b_.activation, s)));
      }
      case Kind::local_response_norm: {
        const auto s = response(op, x.shape);
        return host::local_response_norm(
            y, x.y.at(), s, workspace(host::local_response_workspace(b_.activation, s)));
      }
      case Kind::layer_norm: {
        const std::int64_t rows = samples_ * rows_of(x.shape);
        step.mean = step.rstd = {b_.statistic, rows};
        return host::layer_norm(y, step.mean.at(), step.rstd.at(), x.y.at(),
                                weight(op.name + ".weight"), weight(op.name + ".bias"), rows,
                                x.shape.back(), b_.spec->layer_norm_epsilon);
      }
      case Kind::batch_norm:
        return host::batch_norm(y, x.y.at(), weight(op.name + ".weight"), weight(op.name + ".bias"),
                                channels(x.shape), b_.spec->layer_norm_epsilon);
      case Kind::dropout:
        step.mask = {core::DType::u8, n};
        return host::dropout(y, step.mask.at(), x.y.at(),
                             {samples_, 1, n / samples_, 0, n / samples_},
                             {b_.seed, exec::stream_of("dropout " + op.name), b_.first_sample});
      case Kind::add:
        return host::add(y, x.y.at(), values_.at(op.inputs[1]).y.at(), n);
      case Kind::concat:
        return for_columns(op, made, [&](Value& from, const host::ColumnBlock& block) {
          host::put_columns(y, from.y.at(), block);
        });
      case Kind::flatten: return host::copy(y, x.y.at(), n);
      case Kind::embedding:
      case Kind::rms_norm:
      case Kind::swiglu:
      case Kind::attention: break;     // plain_graph.hpp has these
    }
    throw std::invalid_argument("no reference of " + op.name);
  }

  View bias(const OperatorSpec& op) const { return optional(b_.weights, op.name + ".bias"); }

  // use(input, its columns of the join).
  template <class Use>
  void for_columns(const OperatorSpec& op, const Value& joined, Use&& use) {
    const std::int64_t rows = samples_ * rows_of(joined.shape);
    std::int64_t first = 0;
    for (const std::string& name : op.inputs) {
      Value& from = values_.at(name);
      const std::int64_t width = from.y.size() / rows;
      use(from, host::ColumnBlock{rows, joined.y.size() / rows, first, width});
      first += width;
    }
  }

  void apply_loss(Value& result, double* loss) {
    result.d = result.y;               // the loss leaves the gradient where its input was
    result.has = true;
    const std::int64_t columns = result.shape.back(), rows = result.y.size() / columns;
    if (b_.spec->loss == models::Loss::squared_error)
      return host::squared_error(loss, result.d.at(), b_.targets.at(), result.d.size(),
                                 b_.mean_of(b_.global_batch));
    const host::LogitShape s{rows, columns, columns, 0, columns};
    Typed max(b_.statistic, rows), sums(b_.statistic, 2 * rows);
    host::softmax_max(max.at(), result.d.at(), s);
    host::softmax_sum(sums.at(), result.d.at(), max.at(), b_.targets.at(), s);
    host::cross_entropy(loss, result.d.at(), max.at(), sums.at(), b_.targets.at(), s,
                        b_.mean_of(b_.global_batch * (rows / samples_)));
  }

  // Where a reader leaves the gradient of x, and whether it adds to others'.
  std::pair<View, bool> target(Value& x) {
    const bool adds = x.has;
    if (!adds) x.d = activation(count(x.shape));
    x.has = true;
    return {x.d.at(), adds};
  }

  void backward(Step& step) {
    const OperatorSpec& op = *step.op;
    Value &made = values_.at(op.name), &x = values_.at(op.inputs[0]);
    if (!made.has || !made.needs) return;
    weight_gradients(step, made, x);
    if (op.kind == Kind::concat)
      return for_columns(op, made, [&](Value& from, const host::ColumnBlock& block) {
        if (!from.needs) return;
        const auto [d, adds] = target(from);
        host::take_columns(d, made.d.at(), block, adds);
      });
    if (op.kind == Kind::add || op.kind == Kind::flatten) {
      for (const std::string& name : op.inputs) hand_on(made, values_.at(name));
      return;
    }
    if (x.needs) input_gradient(step, made, x);
  }

  void hand_on(Value& made, Value& x) {
    if (!x.needs) return;
    const auto [d, adds] = target(x);
    adds ? host::add_into(d, made.d.at(), x.d.size()) : host::copy(d, made.d.at(), x.d.size());
  }

  void weight_gradients(Step& step, Value& made, Value& x) {
    const OperatorSpec& op = *step.op;
    const View dw = gradient(op.name + ".weight"), db = gradient(op.name + ".bias");
    if (op.kind == Kind::convolution) {
      const auto s = convolution(op, x.shape);
      host::convolution_weight_gradient(dw, db, made.d.at(), x.y.at(), s,
                                        workspace(host::convolution_workspace(b_.activation, s)));
    } else if (op.kind == Kind::linear) {
      const LinearShape s = product(op, x.shape);
      host::linear_weight_gradient(dw, made.d.at(), x.y.at(), s,
                                   workspace(host::linear_workspace(b_.activation, s)));
      if (db) host::bias_gradient(db, made.d.at(), s.rows, s.n, s.n);
    } else if (op.kind == Kind::layer_norm) {
      host::layer_norm_weight_gradient(dw, db, made.d.at(), x.y.at(), step.mean.at(),
                                       step.rstd.at(), step.mean.size(), x.shape.back());
    } else if (op.kind == Kind::batch_norm) {
      host::batch_norm_gradient({}, dw, db, made.d.at(), x.y.at(), weight(op.name + ".weight"),
                                channels(x.shape), b_.spec->layer_norm_epsilon, false);
    }
  }

  void input_gradient(Step& step, Value& made, Value& x) {
    const OperatorSpec& op = *step.op;
    const auto [dx, adds] = target(x);
    const View dy = made.d.at();
    switch (op.kind) {
      case Kind::convolution: {
        const auto s = convolution(op, x.shape);
        return host::convolution_input_gradient(
            dx, dy, weight(op.name + ".weight"), s, adds,
            workspace(host::convolution_workspace(b_.activation, s)));
      }
      case Kind::linear: {
        const LinearShape s = product(op, x.shape);
        return host::linear_input_gradient(dx, dy, weight(op.name + ".weight"), s, adds,
                                           workspace(host::linear_workspace(b_.activation, s)));
      }
      case Kind::relu: return host::relu_gradient(dx, dy, made.y.at(), made.y.size(), adds);
      case Kind::gelu:
        return host::gelu_gradient(dx, dy, x.y.at(), x.y.size(), models::Activation::gelu_tanh,
                                   adds);
      case Kind::max_pool: {
        const auto s = window(op, x.shape);
        return host::max_pool_gradient(dx, dy, step.mask.at(), s, adds,
                                       workspace(host::pool_workspace(b_.activation, s)));
      }
      case Kind::average_pool: {
        const auto s = window(op, x.shape);
        return host::average_pool_gradient(dx, dy, s, adds,
                                           workspace(host::pool_workspace(b_.activation, s)));
      }
      case Kind::local_response_norm: {
        const auto s = response(op, x.shape);
        return host::local_response_norm_gradient(
            dx, dy, x.y.at(), s, adds,
            workspace(host::local_response_workspace(b_.activation, s)));
      }
      case Kind::layer_norm:
        return host::layer_norm_input_gradient(dx, dy, x.y.at(), weight(op.name + ".weight"),
                                               step.mean.at(), step.rstd.at(), step.mean.size(),
                                               x.shape.back(), adds);
      case Kind::batch_norm:
        return host::batch_norm_gradient(dx, {}, {}, dy, x.y.at(), weight(op.name + ".weight"),
                                         channels(x.shape), b_.spec->layer_norm_epsilon, adds);
      case Kind::dropout:
        return host::dropout_gradient(dx, dy, step.mask.at(), x.y.size(), adds);
      default: return;                 // handed on
    }
  }

  const models::GraphSpec& spec_;
  const std::int64_t samples_;
  std::map<std::string, Value> values_;
  std::vector<Step> steps_;
};

}  // namespace

void train_graph(MicroBatch& batch, double* loss) { Graph(batch).train(loss); }

}  // namespace tests
