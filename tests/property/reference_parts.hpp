#pragma once
// What the families of the reference model are made of: products and the loss, with their
// gradients. Not thread-safe.

#include "tests/property/reference_f8.hpp"
#include "tests/property/reference_model.hpp"

namespace tests {

using exec::host::LinearShape;
using exec::host::View;
namespace host = exec::host;

class Model {
 protected:
  Model(MicroBatch& batch, std::int64_t rows) : b_(batch), rows_(rows) {}

  Typed activation(std::int64_t columns) const { return {b_.activation, rows_ * columns}; }
  Typed statistic(std::int64_t columns) const { return {b_.statistic, rows_ * columns}; }
  View weight(const std::string& path) const { return b_.weights.at(path); }
  View optional(const Views& views, const std::string& path) const {
    const auto at = views.find(path);
    return at == views.end() ? View{} : at->second;
  }
  View gradient(const std::string& path) const { return optional(b_.gradients, path); }
  host::Workspace workspace(core::Bytes size) {
    if (scratch_.size() < static_cast<std::size_t>(size.value()))
      scratch_.resize(static_cast<std::size_t>(size.value()));
    return {scratch_.data(), size};
  }

  // y[rows,n] = x W^T (+ bias, where the model has one).
  Typed linear(const std::string& path, Typed& x, std::int64_t n, const char* matrix = ".weight") {
    const LinearShape s{rows_, n, x.size() / rows_, n, x.size() / rows_};
    Typed y = activation(n);
    multiply(y.at(), x, path + matrix, bias_of(path, matrix, b_.weights), s);
    return y;
  }
  void multiply(View y, Typed& x, const std::string& matrix, View bias, const LinearShape& s) {
    const Operand in = input(matrix, x.at(), s, false), w = matrix_of(matrix, s, false);
    host::linear(y, in.view(), w.view(), bias, s, false,
                 workspace(host::linear_workspace(b_.activation, s)));
  }
  // dW += dy^T x, db += dy, dx (=|+=) dy W.
  void linear_backward(const std::string& path, Typed& dy, Typed& x, Typed& dx, bool accumulate,
                       const char* matrix = ".weight") {
    const LinearShape s{rows_, dy.size() / rows_, x.size() / rows_, dy.size() / rows_,
                        x.size() / rows_};
    const auto ws = workspace(host::linear_workspace(b_.activation, s));
    if (const View dw = gradient(path + matrix))
      host::linear_weight_gradient(dw, gradient_of(path + matrix, dy.at(), s, true).view(),
                                   input(path + matrix, x.at(), s, true).view(), s, ws);
    if (const View db = bias_of(path, matrix, b_.gradients))
      host::bias_gradient(db, dy.at(), rows_, s.n, s.n);
    host::linear_input_gradient(dx.at(), gradient_of(path + matrix, dy.at(), s, false).view(),
                                matrix_of(path + matrix, s, true).view(), s, accumulate, ws);
  }

  // Cross-entropy over `columns` classes; the logits become their gradient.
  void cross_entropy(Typed& logits, std::int64_t columns, const host::LossFactor& scale,
                     double* loss) {
    const host::LogitShape s{rows_, columns, columns, 0, columns};
    Typed max = statistic(1), sums = statistic(2);
    host::softmax_max(max.at(), logits.at(), s);
    host::softmax_sum(sums.at(), logits.at(), max.at(), b_.targets.at(), s);
    host::cross_entropy(loss, logits.at(), max.at(), sums.at(), b_.targets.at(), s, scale);
  }

  // What a product reads: what is there, or copies rounded to 8 bits. sums_rows: of the weight
  // gradient's operands, and of the weight in the input's gradient.
  struct Operand {
    View plain;
    mutable Typed rounded;
    View view() const { return rounded.size() > 0 ? rounded.at() : plain; }
  };
  Operand input(const std::string& matrix, View x, const LinearShape& s, bool sums_rows) const {
    return operand(matrix, x, s,
                   {{}, planner::F8Operand::input, sums_rows, b_.samples, s.rows, s.k});
  }
  Operand gradient_of(const std::string& matrix, View dy, const LinearShape& s,
                      bool sums_rows) const {
    return operand(matrix, dy, s,
                   {{}, planner::F8Operand::gradient, sums_rows, b_.samples, s.rows, s.n});
  }
  Operand matrix_of(const std::string& matrix, const LinearShape& s, bool sums_rows) const {
    const View w = weight(matrix);
    return operand(matrix, w, s, {{}, planner::F8Operand::weight, sums_rows, 1, s.n, s.k});
  }
  Operand operand(const std::string& matrix, View v, const LinearShape& s, F8Reading as) const {
    Operand read{v, {}};
    if (!b_.f8 || !multiplies_in_f8(matrix, s.n, s.k)) return read;
    as.scaling = *b_.f8;
    read.rounded = rounded_to_f8(v, as);
    return read;
  }

  MicroBatch& b_;
  const std::int64_t rows_;

 private:
  View bias_of(const std::string& path, const std::string& matrix, const Views& views) const {
    return matrix == ".weight" ? optional(views, path + ".bias") : View{};
  }
  std::vector<std::byte> scratch_;
};

// Operator graphs (reference_graph.cpp).
void train_graph(MicroBatch& batch, double* loss);
// Feed-forward chains (reference_chain.cpp).
void train_chain(MicroBatch& batch, double* loss);

}  // namespace tests
