#pragma once
// Random operator graphs: operators on images of one size, each on an earlier value, so that a
// value has readers in any order; everything unread is joined at the end. Pure: the same draws, the
// same graph.

#include <string>
#include <vector>

#include "core/random.hpp"
#include "models/spec.hpp"

namespace tests {

struct Draws {
  core::Random random;
  std::uint64_t at = 0;
  std::size_t below(std::size_t count) { return random.below(at++, count); }
};

struct RandomGraph {
  std::vector<models::OperatorSpec::Kind> kinds;  // of operators with one input
  std::size_t least = 3, more = 12;    // operators: least + below(more)
  std::size_t add_in = 4, join_in = 5; // one in so many is an addition, or a join and a convolution
  bool follows = false;                // half of the others read the last value
};

inline models::ModelSpec random_graph(Draws& random, const RandomGraph& how) {
  using Kind = models::OperatorSpec::Kind;
  models::ModelSpec spec;
  spec.name = "random";
  spec.family = models::Family::graph;
  spec.loss = models::Loss::squared_error;
  spec.graph.input = "x";
  spec.graph.input_shape = {4, 6, 6};
  std::vector<std::string> values{"x"}, unread;
  const auto append = [&](Kind kind, std::vector<std::string> inputs) {
    models::OperatorSpec op;
    op.name = "o" + std::to_string(spec.graph.operators.size());
    if (kind == Kind::batch_norm) op.name += "_norm";  // by which the reference knows first values
    op.kind = kind;
    for (const std::string& name : inputs) std::erase(unread, name);
    op.inputs = std::move(inputs);
    op.width = 4;
    const bool windowed = kind == Kind::convolution || kind == Kind::max_pool;
    op.kernel = windowed ? 3 : 1;
    op.padding = windowed ? 1 : 0;
    values.push_back(op.name);
    unread.push_back(op.name);
    spec.graph.operators.push_back(std::move(op));
  };
  append(Kind::convolution, {"x"});
  const std::size_t count = how.least + random.below(how.more);
  for (std::size_t i = 0; i < count; ++i) {
    const std::string a = values[random.below(values.size())];
    const std::string c = values[random.below(values.size())];
    if (random.below(how.add_in) == 0 && a != c) {
      append(Kind::add, {a, c});
    } else if (random.below(how.join_in) == 0 && a != c) {
      append(Kind::concat, {a, c});
      const std::string joined = values.back();
      values.pop_back();               // of another width than the others
      append(Kind::convolution, {joined});
    } else {
      const Kind kind = how.kinds[random.below(how.kinds.size())];
      const bool last = how.follows && random.below(2) == 0;
      append(kind, {last ? values.back() : a});
    }
  }
  while (unread.size() > 1) append(Kind::add, {unread[0], unread[1]});
  spec.layers = models::layers_of(spec);
  return spec;
}

}  // namespace tests
