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
      case Kind::swiglu: {
        const Rows& up = made_.at(op.inputs[1]);
        for (std::size_t r = 0; r < x.size(); ++r)
          for (std::size_t i = 0; i < x[r].size(); ++i)
            x[r][i] *= up[r][i] / (1 + std::exp(-x[r][i]));
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

  // Queries (part 0), keys (1) or values (2) of an attention: columns [first, first + width).
  Rows part(const models::OperatorSpec& op, std::size_t of, std::size_t first,
            std::size_t width) const {
    if (op.inputs.size() == 3) return made_.at(op.inputs[of]);
    Rows rows = made_.at(op.inputs[0]);
    for (Values& row : rows)
      row = Values(row.begin() + static_cast<std::ptrdiff_t>(first),
                   row.begin() + static_cast<std::ptrdiff_t>(first + width));
    return rows;
  }

  // Each head of d columns by a norm, and turned: pair (i, i + d / 2) by row base^(-2 i / d).
  void prepare(const models::OperatorSpec& op, Rows& rows, std::size_t d, const char* gamma) const {
    for (std::size_t r = 0; r < rows.size(); ++r)
      for (std::size_t h = 0; h < rows[r].size(); h += d) {
        double* const x = &rows[r][h];
        if (op.qk_norm) {
          double squares = 0;
          for (std::size_t i = 0; i < d; ++i) squares += x[i] * x[i];
          const double rstd =
              1 / std::sqrt(squares / static_cast<double>(d) + spec_.layer_norm_epsilon);
          for (std::size_t i = 0; i < d; ++i) x[i] *= rstd * weight(op, gamma)[i];
        }
        for (std::size_t i = 0; i < (op.rotary_base > 0 ? d / 2 : 0); ++i) {
          const double angle =
              static_cast<double>(r) *
              std::pow(op.rotary_base, -2.0 * static_cast<double>(i) / static_cast<double>(d));
          const double low = x[i], high = x[i + d / 2];
          x[i] = low * std::cos(angle) - high * std::sin(angle);
          x[i + d / 2] = high * std::cos(angle) + low * std::sin(angle);
        }
      }
  }

  Rows attend(const models::OperatorSpec& op, const Rows& x) const {
    const std::size_t heads = static_cast<std::size_t>(op.heads), rows = x.size();
    const std::size_t kv_heads = static_cast<std::size_t>(models::kv_heads_of(op));
    const std::size_t all = x[0].size();
    const std::size_t d = op.inputs.size() == 3 ? all / heads : all / (heads + 2 * kv_heads);
    Rows q = part(op, 0, 0, heads * d), k = part(op, 1, heads * d, kv_heads * d);
    const Rows v = part(op, 2, (heads + kv_heads) * d, kv_heads * d);
    prepare(op, q, d, ".q_norm");
    prepare(op, k, d, ".k_norm");
    Rows y(rows, Values(heads * d, 0.0));
    for (std::size_t h = 0; h < heads; ++h)
      for (std::size_t r = 0; r < rows; ++r) {
        const std::size_t keys = op.causal ? r + 1 : rows, own = h * d;
        const std::size_t shared = h / (heads / kv_heads) * d;
        Values p(keys, 0.0);
        for (std::size_t key = 0; key < keys; ++key)
          for (std::size_t i = 0; i < d; ++i) p[key] += q[r][own + i] * k[key][shared + i];
        double sum = 0;
        for (double& score : p)
          sum += score = std::exp(score / std::sqrt(static_cast<double>(d)));
        for (std::size_t key = 0; key < keys; ++key)
          for (std::size_t i = 0; i < d; ++i) y[r][own + i] += p[key] / sum * v[key][shared + i];
      }
    return y;
  }

  const models::ModelSpec& spec_;
  const std::map<std::string, Values>& w_;
  const std::vector<std::int32_t>& tokens_;
  std::map<std::string, Rows> made_;
};

}  // namespace tests
