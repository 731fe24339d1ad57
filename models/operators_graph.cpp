// Operators of arbitrary graphs: convolutions, pools, local response normalisation, dropout, and
// what joins branches. Counts as in operators.cpp; a mask's byte counts as half an element moved.
#include "core/check.hpp"
#include "models/operator_work.hpp"

namespace models {

// Per element and channel of the window: a square and its sum; then scale and add 2, power and
// divide 2. Backward: the sums again, their counterpart over dy y / d, and five products.
constexpr double kResponseForward = 4, kResponseBackward = 7;

// As the GEMM that it is, per group: rows are the places of the result, k the inputs of a window.
// What moves are the images, each once: a kernel gathers windows on chip.
TensorIndex convolution(SegmentBuilder& b, const std::string& name, TensorIndex x, ImageShape from,
                        ImageShape to, Window window, std::int64_t groups, ParameterIndex weight,
                        ParameterIndex bias, std::int64_t origins) {
  const std::int64_t places = to.height * to.width * origins;
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, to.channels * places);
  Operator op = shaped(name, OpKind::convolution, places, to.channels / groups,
                       from.channels / groups * window.kernel.area());
  op.groups = groups;
  op.origins = origins;
  op.image = from;
  op.window = window;
  op.inputs = {x};
  op.outputs = {y};
  op.parameters = {weight};
  if (bias >= 0) op.parameters.push_back(bias);
  const bool trains = trained(b, weight);
  if (trains) op.saved = {x};
  count_product(op, groups, trains);
  op.elements_forward = b.tensor_at(x).per_sample + to.channels * places;
  op.elements_backward = op.elements_forward * (trains ? 2 : 1);
  op.parameter_elements = parameter_elements(b, op);
  b.add(std::move(op));
  return y;
}

TensorIndex pool(SegmentBuilder& b, const std::string& name, TensorIndex x, ImageShape from,
                 ImageShape to, Window window, Pool kind, std::int64_t origins) {
  const bool maximum = kind == Pool::maximum;
  const std::int64_t places = to.height * to.width * origins, n = to.channels * places;
  const std::int64_t inputs = from.channels * from.height * from.width * origins;
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, n);
  Operator op = shaped(name, maximum ? OpKind::max_pool : OpKind::average_pool, places,
                       to.channels, window.kernel.area());
  op.image = from;
  op.origins = origins;
  op.window = window;
  op.inputs = {x};
  op.outputs = {y};
  if (maximum && !b.inference()) {
    const TensorIndex chosen = b.tensor(name + ".places", TensorRole::mask, n);
    op.outputs.push_back(chosen);
    op.saved = {chosen};
  }
  op.flops_forward = flops(static_cast<double>(op.k), places, to.channels);
  op.flops_input_gradient = flops(maximum ? 1 : static_cast<double>(op.k), places, to.channels);
  op.elements_forward = inputs + n + (maximum ? n / 2 : 0);
  op.elements_backward = op.elements_forward;
  b.add(std::move(op));
  return y;
}

TensorIndex local_response_norm(SegmentBuilder& b, const std::string& name, TensorIndex x,
                                ImageShape shape, std::int64_t window) {
  const std::int64_t places = shape.height * shape.width, n = shape.channels * places;
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, n);
  Operator op = shaped(name, OpKind::local_response_norm, places, shape.channels, window);
  op.inputs = {x};
  op.outputs = {y};
  op.saved = {x};
  const double w = static_cast<double>(window);
  op.flops_forward = flops(2 * w + kResponseForward, places, shape.channels);
  op.flops_input_gradient = flops(4 * w + kResponseBackward, places, shape.channels);
  op.elements_forward = 2 * n;
  op.elements_backward = 3 * n;  // x, dy, dx
  b.add(std::move(op));
  return y;
}

// Per element. Mean 1, variance 3, (x - mean) rstd gamma + beta 4; backward: normalise 2, d_x 6,
// and of the parameters the sums of d_y and of d_y times the normalised 2. What moves is what
// libraries move, which keep the two numbers of a channel: x twice and y; x and d_y twice and d_x.
TensorIndex batch_norm(SegmentBuilder& b, const std::string& name, TensorIndex x,
                       std::int64_t channels, std::int64_t places, NormParameters parameters) {
  const std::int64_t n = channels * places;
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, n);
  Operator op = shaped(name, OpKind::batch_norm, places, channels, channels);
  op.inputs = {x};
  op.outputs = {y};
  op.parameters = {parameters.gamma, parameters.beta};
  op.saved = {x};
  op.flops_forward = flops(8, places, channels);
  op.flops_input_gradient = flops(8, places, channels);
  if (trained(b, parameters.gamma)) op.flops_weight_gradient = flops(2, places, channels);
  op.elements_forward = 3 * n;
  op.elements_backward = 5 * n;
  op.parameter_elements = parameter_elements(b, op);
  b.add(std::move(op));
  return y;
}

// Per element. Sums 3, (x - mean) rstd gamma + beta 4; backward: of the norm, normalise 2, d_y
// times the normalised 1, d_x 1, and two sums 2; of the sums, their part of d_x 3.
TensorIndex synchronised_batch_norm(SegmentBuilder& b, const std::string& name, TensorIndex x,
                                    std::int64_t channels, std::int64_t places,
                                    NormParameters parameters) {
  const std::int64_t n = channels * places;
  const TensorIndex own = b.tensor(name + ".sums", TensorRole::sums, 2 * channels);
  Operator sums = shaped(name + ".sums", OpKind::channel_sums, places, channels, channels);
  sums.inputs = {x};
  sums.outputs = {own};
  sums.saved = {x};
  sums.flops_forward = sums.flops_input_gradient = flops(3, places, channels);
  sums.elements_forward = n;
  sums.elements_backward = 3 * n;      // x, and d_x that it is added to
  b.add(std::move(sums));
  const TensorIndex all = b.tensor(name + ".all_sums", TensorRole::sums, 2 * channels, own);
  Operator reduce = shaped(name + ".reduce", OpKind::data_reduce, 2, channels, channels);
  reduce.inputs = {own};
  reduce.outputs = {all};
  b.add(std::move(reduce));
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, n);
  Operator op = shaped(name, OpKind::channel_norm, places, channels, channels);
  op.inputs = {x, all};
  op.outputs = {y};
  op.parameters = {parameters.gamma, parameters.beta};
  op.saved = {x, all};
  op.flops_forward = flops(4, places, channels);
  op.flops_input_gradient = flops(4, places, channels);
  if (trained(b, parameters.gamma)) op.flops_weight_gradient = flops(2, places, channels);
  op.elements_forward = 2 * n;
  op.elements_backward = 4 * n;        // x, d_y twice, d_x
  op.parameter_elements = parameter_elements(b, op);
  b.add(std::move(op));
  return y;
}

TensorIndex dropout(SegmentBuilder& b, const std::string& name, TensorIndex x, std::int64_t rows,
                    std::int64_t n, std::int64_t origins) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, n);
  const TensorIndex mask = b.tensor(name + ".mask", TensorRole::mask, n);
  Operator op = shaped(name, OpKind::dropout, rows, n / rows, n / rows);
  op.origins = origins;
  op.inputs = {x};
  op.outputs = {y, mask};
  op.saved = {mask};
  count_pointwise(op);
  op.elements_forward += n / 2;        // the mask
  op.elements_backward += n / 2;
  b.add(std::move(op));
  return y;
}

TensorIndex concat(SegmentBuilder& b, const std::string& name,
                   const std::vector<TensorIndex>& inputs, std::int64_t rows) {
  std::int64_t n = 0;
  std::vector<std::int64_t> offsets;
  for (const TensorIndex x : inputs) {
    offsets.push_back(n);
    n += b.tensor_at(x).per_sample / rows;
  }
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n);
  Operator op = shaped(name, OpKind::concat, rows, n, n);
  op.column_offsets = std::move(offsets);
  op.inputs = inputs;
  op.outputs = {y};
  count_pointwise(op);
  b.add(std::move(op));
  return y;
}

TensorIndex slice(SegmentBuilder& b, const std::string& name, TensorIndex x, std::int64_t rows,
                  std::int64_t first, std::int64_t n) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, rows * n);
  Operator op = shaped(name, OpKind::slice, rows, n, b.tensor_at(x).per_sample / rows);
  op.column_offsets = {first};
  op.inputs = {x};
  op.outputs = {y};
  op.saved = {x};
  count_pointwise(op);
  b.add(std::move(op));
  return y;
}

TensorIndex sum(SegmentBuilder& b, const std::string& name, TensorIndex a, TensorIndex c,
                std::int64_t n) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, n);
  Operator op = shaped(name, OpKind::add, 1, n, n);
  op.inputs = {a, c};
  op.outputs = {y};
  count_pointwise(op);
  op.flops_input_gradient = {};        // the gradient is handed on or copied
  op.elements_backward = 0;
  b.add(std::move(op));
  return y;
}

// ---- between ranks that divide operators; rows and n are those of a sample of one rank

static TensorIndex move(SegmentBuilder& b, const std::string& name, OpKind kind, TensorIndex x,
                        std::int64_t rows, std::int64_t n, std::int64_t per_sample,
                        bool keeps = false) {
  const TensorIndex y = b.tensor(name + ".out", TensorRole::activation, per_sample);
  Operator op = shaped(name, kind, rows, n, n);
  op.inputs = {x};
  op.outputs = {y};
  if (keeps) op.saved = {x};
  b.add(std::move(op));
  return y;
}

TensorIndex sample_gather(SegmentBuilder& b, const std::string& name, TensorIndex x,
                          std::int64_t rows, std::int64_t n, std::int64_t ways, bool keeps) {
  return move(b, name, OpKind::sample_gather, x, rows, n, ways * rows * n, keeps);
}

TensorIndex sample_scatter(SegmentBuilder& b, const std::string& name, TensorIndex x,
                           std::int64_t rows, std::int64_t n, std::int64_t ways) {
  PLANNER_CHECK(b.tensor_at(x).per_sample == ways * rows * n, "sums of all ranks' samples");
  return move(b, name, OpKind::sample_scatter, x, rows, n, rows * n);
}

TensorIndex to_columns(SegmentBuilder& b, const std::string& name, TensorIndex x,
                       std::int64_t rows, std::int64_t n, bool keeps) {
  return move(b, name, OpKind::to_columns, x, rows, n, rows * n, keeps);
}

TensorIndex to_samples(SegmentBuilder& b, const std::string& name, TensorIndex x,
                       std::int64_t rows, std::int64_t n, bool keeps) {
  return move(b, name, OpKind::to_samples, x, rows, n, rows * n, keeps);
}

}  // namespace models
