#pragma once
// The loss of an operator graph of tokens in plain loops of doubles: a second statement of every
// operator, for finite differences. Pure.

#include <cmath>
#include <cstdint>
#include <map>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "models/spec.hpp"

namespace tests {

using Values = std::vector<double>;

class PlainGraph {
 public:
  // tokens: of one sample, and the one behind them. Operators come in an order in which each finds
  // its inputs made.
  PlainGraph(const models::ModelSpec& spec, const std::map<std::string, Values>& weights,
             const std::vector<std::int32_t>& tokens)
      : spec_(spec), w_(weights), tokens_(tokens) {}

  // The mean over the rows of the result of -log p of the token that follows.
  double loss() {
    for (const models::OperatorSpec& op : spec_.graph.operators) made_[op.name] = apply(op);
    const Rows& y = made_.at(spec_.graph.operators.back().name);
    double sum = 0;
    for (std::size_t r = 0; r < y.size(); ++r) {
      const auto target = static_cast<std::size_t>(tokens_[tokens_.size() - y.size() + r]);
      double all = 0;
      for (const double v : y[r]) all += std::exp(v);
      sum += std::log(all) - y[r][target];
    }
    return sum / static_cast<double>(y.size());
  }

 private:
  using Rows = std::vector<Values>;
  using Kind = models::OperatorSpec::Kind;

  const Values& weight(const models::OperatorSpec& op, const char* part) const {
    return w_.at(op.name + part);
  }

  Rows apply(const models::OperatorSpec& op) const {
    if (op.kind == Kind::embedding) return embed(op);
    Rows x = made_.at(op.inputs[0]);
    switch (op.kind) {
      case Kind::linear: return product(op, x);
      case Kind::relu:
        for (Values& row : x) for (double& v : row) v = std::max(v, 0.0);
        return x;
      case Kind::gelu:
        for (Values& row : x)
          for (double& v : row)
            v *= 0.5 * (1 + std::tanh(std::sqrt(2 / M_PI) * (v + 0.044715 * v * v * v)));
        return x;
      case Kind::add: {
        const Rows& c = made_.at(op.inputs[1]);
        for (std::size_t r = 0; r < x.size(); ++r)
          for (std::size_t i = 0; i < x[r].size(); ++i) x[r][i] += c[r][i];
        return x;
      }
      case Kind::layer_norm:
      case Kind::rms_norm: return norm(op, x);
      case Kind::attention: return attend(op, x);
      default: throw std::invalid_argument("no plain form of " + op.name);
    }
  }

  Rows embed(const models::OperatorSpec& op) const {
    std::size_t first = 0, count = 0;
    for (const models::TokenInput& input : spec_.graph.token_inputs) {
      count = static_cast<std::size_t>(input.tokens);
      if (input.name == op.inputs[0]) break;
      first += count;
    }
    const auto n = static_cast<std::size_t>(op.width);
    Rows y(count, Values(n));
    for (std::size_t r = 0; r < count; ++r)
      for (std::size_t i = 0; i < n; ++i) {
        y[r][i] = weight(op, ".weight")[static_cast<std::size_t>(tokens_[first + r]) * n + i];
        if (op.positions) y[r][i] += weight(op, ".positions")[r * n + i];
      }
    return y;
  }

  Rows product(const models::OperatorSpec& op, const Rows& x) const {
    const auto n = static_cast<std::size_t>(op.width);
    Rows y(x.size(), Values(n));
    for (std::size_t r = 0; r < x.size(); ++r)
      for (std::size_t i = 0; i < n; ++i) {
        y[r][i] = op.bias ? weight(op, ".bias")[i] : 0;
        for (std::size_t k = 0; k < x[r].size(); ++k)
          y[r][i] += weight(op, ".weight")[i * x[r].size() + k] * x[r][k];
      }
    return y;
  }

  Rows norm(const models::OperatorSpec& op, Rows x) const {
    const bool centred = op.kind == Kind::layer_norm;
    for (Values& row : x) {
      const auto n = static_cast<double>(row.size());
      const double mean = centred ? std::accumulate(row.begin(), row.end(), 0.0) / n : 0;
      double squares = 0;
      for (const double v : row) squares += (v - mean) * (v - mean);
      const double rstd = 1 / std::sqrt(squares / n + spec_.layer_norm_epsilon);
      for (std::size_t i = 0; i < row.size(); ++i)
        row[i] = (row[i] - mean) * rstd * weight(op, ".weight")[i] +
                 (centred ? weight(op, ".bias")[i] : 0);
    }
    return x;
  }

  // Column `at` of queries (part 0), keys (1) and values (2).
  double part(const models::OperatorSpec& op, std::size_t of, std::size_t row, std::size_t at,
              std::size_t width) const {
    if (op.inputs.size() == 3) return made_.at(op.inputs[of])[row][at];
    return made_.at(op.inputs[0])[row][of * width + at];
  }

  Rows attend(const models::OperatorSpec& op, const Rows& x) const {
    const std::size_t width = x[0].size() / (op.inputs.size() == 3 ? 1 : 3), rows = x.size();
    const std::size_t heads = static_cast<std::size_t>(op.heads), d = width / heads;
    Rows y(rows, Values(width, 0.0));
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t keys = op.causal ? r + 1 : rows;
        Values p(keys, 0.0);
        for (std::size_t k = 0; k < keys; ++k)
          for (std::size_t i = h * d; i < (h + 1) * d; ++i)
            p[k] += part(op, 0, r, i, width) * part(op, 1, k, i, width);
        double sum = 0;
        for (double& v : p) sum += v = std::exp(v / std::sqrt(static_cast<double>(d)));
        for (std::size_t k = 0; k < keys; ++k)
          for (std::size_t i = h * d; i < (h + 1) * d; ++i)
            y[r][i] += p[k] / sum * part(op, 2, k, i, width);
      }
    return y;
  }

  const models::ModelSpec& spec_;
  const std::map<std::string, Values>& w_;
  const std::vector<std::int32_t>& tokens_;
  std::map<std::string, Rows> made_;
};

}  // namespace tests
