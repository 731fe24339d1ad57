#pragma once
// Internal: the shape of an operator's result, from those of its inputs; what of them does not fit.
// Pure.

#include "models/graph_spec.hpp"

namespace models {

// REQUIRES: the analysis has names resolved, and the shapes of what the operator reads.
class ShapeRules {
 public:
  ShapeRules(const GraphSpec& spec, const GraphAnalysis& analysis, std::vector<GraphIssue>& issues)
      : spec_(spec), a_(analysis), issues_(issues) {}
  Shape after(int i);
  // Of a value: an operator's, kModelInput's, or a token input's.
  Shape shape_of(int value) const;

 private:
  const OperatorSpec& op(int i) const { return spec_.operators[static_cast<std::size_t>(i)]; }
  void issue(int at, std::string_view field, std::string expected, std::string found,
             std::string fix = "") {
    issues_.push_back({at, field, std::move(expected), std::move(found), std::move(fix)});
  }
  Shape mismatch(int i, std::string expected, const Shape& found);
  Shape windowed(int i, const Shape& x);
  Shape concatenated(int i, const Shape& first);
  Shape attended(int i, const Shape& first);

  const GraphSpec& spec_;
  const GraphAnalysis& a_;
  std::vector<GraphIssue>& issues_;
};

// Values of token inputs: kModelInput - 1 for the first, and so on.
inline constexpr int token_value(std::size_t input) {
  return kModelInput - 1 - static_cast<int>(input);
}
inline constexpr bool is_token_value(int value) { return value < kModelInput; }

}  // namespace models
