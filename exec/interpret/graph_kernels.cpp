// Actions of operator graphs, and of ends that are no transformer's, to their kernels.
#include "exec/host/graph_shapes.hpp"
#include "exec/host/kernels.hpp"
#include "exec/interpret/arguments.hpp"
#include "exec/interpret/initialise.hpp"
#include "exec/interpret/kernel_parts.hpp"
#include "exec/interpret/operator_shapes.hpp"

namespace exec {

using models::OpKind;
using models::Operator;

namespace {

// The draws of an operator are its own: its name is unlike any other's of the graph.
host::Draws draws(const Operator& op, const KernelContext& c) {
  return {c.seed, stream_of("dropout " + op.name), c.first_sample};
}

// Of columns that this rank has of several ranks' samples, each rank's by itself: their samples do
// not follow each other.
void drop(const Operator& op, host::View y, host::View mask, host::View x,
          const KernelContext& c) {
  host::DropoutShape shape{c.samples, op.rows / op.origins, op.n * op.origins, 0, op.n};
  host::Draws own = draws(op, c);
  if (op.origins > 1) {
    shape.first = c.expert_rank * op.n;
    own.first_sample -= c.expert_rank * c.samples_apart;
  }
  const std::int64_t each = c.samples * shape.rows * op.n;
  for (std::int64_t r = 0; r < op.origins; ++r) {
    host::dropout(y.at(r * each), mask.at(r * each), x.at(r * each), shape, own);
    own.first_sample += c.samples_apart;
  }
}

host::ColumnBlock slice_block(const Operator& op, std::int64_t samples) {
  return {op.rows * samples, op.k, op.column_offsets[0], op.n};
}

// use(first row, its type) of each sample: this rank has all rows, or a tensor rank's piece, of a
// sample's types.
template <class Use>
void for_types(const Operator& op, const Operand& types, const KernelContext& c, Use&& use) {
  const std::int64_t each = types.elements / c.samples;
  const std::int64_t first = each == op.rows ? 0 : c.tensor_rank * op.rows;
  for (std::int64_t i = 0; i < c.samples; ++i)
    use(i * op.rows * op.n, view(types).at(i * each + first));
}

}  // namespace

void graph_forward(const Operator& op, std::span<const Operand> args, const KernelContext& c,
                   host::Workspace ws) {
  const std::int64_t samples = c.samples;
  switch (op.kind) {
    case OpKind::convolution: {
      const Forward<ops::convolution> a(op, args);
      return host::convolution(a["y"], a["x"], a["w"], a["b"],
                               host::convolution_shape(op, samples), ws);
    }
    case OpKind::max_pool: {
      const Forward<ops::max_pool> a(op, args);
      return host::max_pool(a["y"], a["places"], a["x"], host::window_shape(op, samples), ws);
    }
    case OpKind::average_pool: {
      const Forward<ops::average_pool> a(op, args);
      return host::average_pool(a["y"], a["x"], host::window_shape(op, samples), ws);
    }
    case OpKind::local_response_norm: {
      const Forward<ops::local_response_norm> a(op, args);
      return host::local_response_norm(a["y"], a["x"], host::response_shape(op, samples), ws);
    }
    case OpKind::batch_norm: {
      const Forward<ops::batch_norm> a(op, args);
      return host::batch_norm(a["y"], a["x"], a["gamma"], a["beta"],
                              host::channel_shape(op, samples), c.norm_epsilon);
    }
    case OpKind::channel_sums: {
      const Forward<ops::channel_sums> a(op, args);
      return host::channel_sums(a["sums"], a["x"], host::channel_shape(op, samples));
    }
    case OpKind::channel_norm: {
      const Forward<ops::channel_norm> a(op, args);
      return host::channel_norm(a["y"], a["x"], a["sums"], a["gamma"], a["beta"],
                                host::channel_shape(op, samples), c.data_ranks, c.norm_epsilon);
    }
    case OpKind::dropout: {
      const Forward<ops::dropout> a(op, args);
      return drop(op, a["y"], a["mask"], a["x"], c);
    }
    case OpKind::concat: {
      const Forward<ops::concat> a(op, args);
      const std::span<const Operand> x = a.all("x");
      for (std::size_t i = 0; i < x.size(); ++i)
        host::put_columns(a["y"], view(x[i]), column_block(op, i, x[i].elements, samples));
      return;
    }
    case OpKind::slice: {
      const Forward<ops::slice> a(op, args);
      return host::take_columns(a["y"], a["x"], slice_block(op, samples), false);
    }
    case OpKind::first_token: {
      const Forward<ops::first_token> a(op, args);
      return host::first_token(a["y"], a["x"], samples, token_rows(op, a.operand("x"), samples),
                               op.n);
    }
    case OpKind::type_embedding: {
      const Forward<ops::type_embedding> a(op, args);
      return for_types(op, a.operand("types"), c, [&](std::int64_t at, host::View types) {
        host::type_embedding(a["y"].at(at), a["x"].at(at), a["wtt"], types, op.rows, op.n);
      });
    }
    default: return expert_forward(op, args, c, ws);
  }
}

void graph_input_gradient(const Operator& op, std::span<const Operand> args, bool accumulate,
                          const KernelContext& c, host::Workspace ws) {
  const std::int64_t samples = c.samples;
  switch (op.kind) {
    case OpKind::convolution: {
      const InputGradient<ops::convolution> a(op, args);
      return host::convolution_input_gradient(a["d_x"], a["d_y"], a["w"],
                                              host::convolution_shape(op, samples), accumulate, ws);
    }
    case OpKind::max_pool: {
      const InputGradient<ops::max_pool> a(op, args);
      return host::max_pool_gradient(a["d_x"], a["d_y"], a["places"],
                                     host::window_shape(op, samples), accumulate, ws);
    }
    case OpKind::average_pool: {
      const InputGradient<ops::average_pool> a(op, args);
      return host::average_pool_gradient(a["d_x"], a["d_y"], host::window_shape(op, samples),
                                         accumulate, ws);
    }
    case OpKind::local_response_norm: {
      const InputGradient<ops::local_response_norm> a(op, args);
      return host::local_response_norm_gradient(a["d_x"], a["d_y"], a["x"],
                                                host::response_shape(op, samples), accumulate, ws);
    }
    case OpKind::batch_norm: {
      const InputGradient<ops::batch_norm> a(op, args);
      const bool trains = a.has("d_gamma");
      return host::batch_norm_gradient(a["d_x"], trains ? a["d_gamma"] : host::View{},
                                       trains ? a["d_beta"] : host::View{}, a["d_y"], a["x"],
                                       a["gamma"], host::channel_shape(op, samples),
                                       c.norm_epsilon, accumulate);
    }
    case OpKind::channel_sums: {
      const InputGradient<ops::channel_sums> a(op, args);
      return host::channel_sums_gradient(a["d_x"], a["d_sums"], a["x"],
                                         host::channel_shape(op, samples), accumulate);
    }
    case OpKind::channel_norm: {
      const InputGradient<ops::channel_norm> a(op, args);
      const bool trains = a.has("d_gamma");
      return host::channel_norm_gradient(
          a["d_x"], a["d_sums"], trains ? a["d_gamma"] : host::View{},
          trains ? a["d_beta"] : host::View{}, a["d_y"], a["x"], a["sums"], a["gamma"],
          host::channel_shape(op, samples), c.data_ranks, c.norm_epsilon, accumulate);
    }
    case OpKind::dropout: {
      const InputGradient<ops::dropout> a(op, args);
      return host::dropout_gradient(a["d_x"], a["d_y"], a["mask"], op.rows * op.n * samples,
                                    accumulate);
    }
    case OpKind::concat: {
      const InputGradient<ops::concat> a(op, args);
      const std::span<const Operand> dx = a.all("d_x");
      for (std::size_t i = 0; i < dx.size(); ++i)
        host::take_columns(view(dx[i]), a["d_y"], column_block(op, i, dx[i].elements, samples),
                           accumulate);
      return;
    }
    case OpKind::slice: {
      const InputGradient<ops::slice> a(op, args);
      return host::add_columns(a["d_x"], a["d_y"], slice_block(op, samples), accumulate);
    }
    case OpKind::first_token: {
      const InputGradient<ops::first_token> a(op, args);
      return host::first_token_gradient(a["d_x"], a["d_y"], samples,
                                        token_rows(op, a.operand("d_x"), samples), op.n,
                                        accumulate);
    }
    default: return expert_input_gradient(op, args, accumulate, c, ws);
  }
}

void graph_weight_gradient(const Operator& op, std::span<const Operand> args,
                           const KernelContext& c, host::Workspace ws) {
  switch (op.kind) {
    case OpKind::convolution: {
      const WeightGradient<ops::convolution> a(op, args);
      return host::convolution_weight_gradient(a["d_w"], a["d_b"], a["d_y"], a["x"],
                                               host::convolution_shape(op, c.samples), ws);
    }
    case OpKind::type_embedding: {
      const WeightGradient<ops::type_embedding> a(op, args);
      return for_types(op, a.operand("types"), c, [&](std::int64_t at, host::View types) {
        host::type_embedding_weight_gradient(a["d_wtt"], a["d_y"].at(at), types, op.rows, op.n);
      });
    }
    default: return expert_weight_gradient(op, args, c, ws);
  }
}

}  // namespace exec
