#pragma once
// A model stated operator by operator (family graph of model files; docs/model_files.md): what the
// file holds, and what follows from it: order, shapes, and where the graph divides into layers.
// Value types; functions are pure and thread-safe.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "models/extent.hpp"

namespace models {

// One value of a sample: {n} features, {rows, n} rows of features, or {channels, height, width}.
using Shape = std::vector<std::int64_t>;

struct OperatorSpec {
  enum class Kind : std::uint8_t {
    convolution, linear, relu, gelu, max_pool, average_pool, local_response_norm, layer_norm,
    dropout, add, concat, flatten, batch_norm
  };
  std::string name;
  Kind kind = Kind::linear;
  std::vector<std::string> inputs;     // names of operators, or of the model's input
  std::int64_t width = 0;              // channels (convolution) or features (linear) of the result
  Extent kernel = 1, stride = 1, padding = 0;  // convolution and pools: of windows
  std::int64_t groups = 1;             // convolution: blocks of channels that see only each other
  std::int64_t window = 5;             // local_response_norm: channels summed over
  bool bias = true;                    // convolution, linear
  friend bool operator==(const OperatorSpec&, const OperatorSpec&) = default;
};

inline constexpr std::array kOperatorKinds{
    OperatorSpec::Kind::convolution, OperatorSpec::Kind::linear,
    OperatorSpec::Kind::relu, OperatorSpec::Kind::gelu,
    OperatorSpec::Kind::max_pool, OperatorSpec::Kind::average_pool,
    OperatorSpec::Kind::local_response_norm, OperatorSpec::Kind::layer_norm,
    OperatorSpec::Kind::dropout, OperatorSpec::Kind::add,
    OperatorSpec::Kind::concat, OperatorSpec::Kind::flatten, OperatorSpec::Kind::batch_norm};
std::string_view name(OperatorSpec::Kind kind);

struct GraphSpec {
  std::string input;                   // name of the model's input
  Shape input_shape;                   // of one sample
  std::vector<OperatorSpec> operators; // in any order
  friend bool operator==(const GraphSpec&, const GraphSpec&) = default;
};

// What is wrong with an operator (index into operators; -1: with the whole) in a field of it.
struct GraphIssue {
  int at = -1;
  std::string_view field;
  std::string expected, found, fix;
};

inline constexpr int kModelInput = -1;

// A graph read. Values are named by the operator that makes them, kModelInput for the input; a
// flatten makes no value of its own: it is what it flattens under another shape.
struct GraphAnalysis {
  std::vector<GraphIssue> issues;      // empty: everything below holds
  std::vector<int> order;              // topological, ties in the file's order; no flatten
  std::vector<std::vector<int>> inputs;  // by operator: the values that it reads
  std::vector<Shape> input_shapes;     // by operator: shape of its first input, as it reads it
  std::vector<Shape> shapes;           // by operator: of its result
  int output = kModelInput;            // the one value that nothing reads
  Shape output_shape;
  // Layers: runs of `order` that hand a single value on, which an operator with a backward pass of
  // its own reads. Of each, the last position in `order`, and the value it hands on.
  struct Layer { int last = 0, output = 0; };
  std::vector<Layer> layers;
};

// Names, inputs, cycles (every operator of one is named), shapes, results that nothing reads, sizes
// that counts of bytes could not hold. O(operators + inputs).
GraphAnalysis analyse(const GraphSpec& spec);
// The same, kept from the calling thread's last call where that asked about an equal graph. Lives
// until this thread asks about another.
const GraphAnalysis& kept_analysis(const GraphSpec& spec);

// Parameters of an operator that reads this shape. REQUIRES: its shapes agree.
std::int64_t weight_inputs(const OperatorSpec& op,
                           const Shape& input);  // per element of the result
std::int64_t elements_of(const Shape& shape);
std::string to_text(const Shape& shape);  // "3 x 224 x 224"

inline constexpr std::size_t kMaxOperators = 4096;
inline constexpr std::size_t kMaxOperatorInputs = 16;

}  // namespace models
