// Actions of operator graphs, and of ends that are no transformer's, to their kernels.
#include "exec/host/graph_shapes.hpp"
#include "exec/host/kernels.hpp"
#include "exec/interpret/initialise.hpp"
#include "exec/interpret/kernel_parts.hpp"

namespace exec {

using models::OpKind;
using models::Operator;

namespace {

// The draws of an operator are its own: its name is unlike any other's of the graph.
host::Draws draws(const Operator& op, const KernelContext& c) {
  return {c.seed, stream_of("dropout " + op.name), c.first_sample};
}

host::ColumnBlock column_block(const Operator& op, std::size_t input, std::int64_t elements,
                               std::int64_t samples) {
  const std::int64_t rows = op.rows * samples;
  return {rows, op.n, op.column_offsets[input], elements / rows};
}

// Rows of a sample in what the first token is taken from.
std::int64_t token_rows(const Operator& op, const Operand& x, std::int64_t samples) {
  return x.elements / samples / op.n;
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

void graph_forward(const Operator& op, std::span<const Operand> a, const KernelContext& c,
                   host::Workspace ws) {
  const std::int64_t samples = c.samples;
  const auto v = [&](std::size_t i) { return i < a.size() ? view(a[i]) : host::View{}; };
  switch (op.kind) {
    case OpKind::convolution: {  // x, w, [b], y
      const bool bias = op.parameters.size() > 1;
      return host::convolution(v(bias ? 3 : 2), v(0), v(1), bias ? v(2) : host::View{},
                               host::convolution_shape(op, samples), ws);
    }
    case OpKind::max_pool:
      return host::max_pool(v(1), v(2), v(0), host::window_shape(op, samples), ws);
    case OpKind::average_pool:
      return host::average_pool(v(1), v(0), host::window_shape(op, samples), ws);
    case OpKind::local_response_norm:
      return host::local_response_norm(v(1), v(0), host::response_shape(op, samples), ws);
    case OpKind::dropout:
      return host::dropout(v(1), v(2), v(0), samples, op.n, draws(op, c));
    case OpKind::concat:
      for (std::size_t i = 0; i + 1 < a.size(); ++i)
        host::put_columns(v(a.size() - 1), v(i), column_block(op, i, a[i].elements, samples));
      return;
    case OpKind::first_token:
      return host::first_token(v(1), v(0), samples, token_rows(op, a[0], samples), op.n);
    case OpKind::type_embedding:  // x, types, table, y
      return for_types(op, a[1], c, [&](std::int64_t at, host::View types) {
        host::type_embedding(v(3).at(at), v(0).at(at), v(2), types, op.rows, op.n);
      });
    default:
      PLANNER_CHECK(false, "operator without a kernel: " + op.name);  // run() refused it
  }
}

void graph_input_gradient(const Operator& op, std::span<const Operand> a, bool accumulate,
                          const KernelContext& c, host::Workspace ws) {
  const std::int64_t samples = c.samples;
  const auto v = [&](std::size_t i) { return view(a[i]); };
  switch (op.kind) {
    case OpKind::convolution:  // dy, w, dx
      return host::convolution_input_gradient(v(2), v(0), v(1),
                                              host::convolution_shape(op, samples), accumulate, ws);
    case OpKind::max_pool:  // dy, chosen, dx
      return host::max_pool_gradient(v(2), v(0), v(1), host::window_shape(op, samples), accumulate,
                                     ws);
    case OpKind::average_pool:  // dy, dx
      return host::average_pool_gradient(v(1), v(0), host::window_shape(op, samples), accumulate,
                                         ws);
    case OpKind::local_response_norm:  // dy, x, dx
      return host::local_response_norm_gradient(v(2), v(0), v(1),
                                                host::response_shape(op, samples), accumulate, ws);
    case OpKind::dropout:  // dy, mask, dx
      return host::dropout_gradient(v(2), v(0), v(1), op.n * samples, accumulate);
    case OpKind::concat:  // dy, dx of every input
      for (std::size_t i = 1; i < a.size(); ++i)
        host::take_columns(v(i), v(0), column_block(op, i - 1, a[i].elements, samples),
                           accumulate);
      return;
    case OpKind::first_token:  // dy, dx
      return host::first_token_gradient(v(1), v(0), samples, token_rows(op, a[1], samples), op.n,
                                        accumulate);
    default: PLANNER_CHECK(false, "operator without an input gradient: " + op.name);
  }
}

void graph_weight_gradient(const Operator& op, std::span<const Operand> a, const KernelContext& c,
                           host::Workspace ws) {
  const auto v = [&](std::size_t i) { return i < a.size() ? view(a[i]) : host::View{}; };
  switch (op.kind) {
    case OpKind::convolution:  // dy, x, d_w, [d_b]
      return host::convolution_weight_gradient(v(2), v(3), v(0), v(1),
                                               host::convolution_shape(op, c.samples), ws);
    case OpKind::type_embedding:  // dy, types, d_table
      return for_types(op, a[1], c, [&](std::int64_t at, host::View types) {
        host::type_embedding_weight_gradient(v(2), v(0).at(at), types, op.rows, op.n);
      });
    default: PLANNER_CHECK(false, "operator without a weight gradient: " + op.name);
  }
}

}  // namespace exec
