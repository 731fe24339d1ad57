#pragma once
// What the families of the reference model are made of: products and the loss, with their
// gradients. Not thread-safe.

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
    host::linear(y.at(), x.at(), weight(path + matrix), bias_of(path, matrix, b_.weights), s, false,
                 workspace(host::linear_workspace(b_.activation, s)));
    return y;
  }
  // dW += dy^T x, db += dy, dx (=|+=) dy W.
  void linear_backward(const std::string& path, Typed& dy, Typed& x, Typed& dx, bool accumulate,
                       const char* matrix = ".weight") {
    const LinearShape s{rows_, dy.size() / rows_, x.size() / rows_, dy.size() / rows_,
                        x.size() / rows_};
    const auto ws = workspace(host::linear_workspace(b_.activation, s));
    if (const View dw = gradient(path + matrix))
      host::linear_weight_gradient(dw, dy.at(), x.at(), s, ws);
    if (const View db = bias_of(path, matrix, b_.gradients))
      host::bias_gradient(db, dy.at(), rows_, s.n, s.n);
    host::linear_input_gradient(dx.at(), dy.at(), weight(path + matrix), s, accumulate, ws);
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
