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
    dropout, add, concat, flatten, batch_norm, embedding, rms_norm, attention, swiglu
  };
  std::string name;
  Kind kind = Kind::linear;
  std::vector<std::string> inputs;     // names of operators, or of a model's input
  std::int64_t width = 0;              // channels (convolution) or features (linear, embedding)
  Extent kernel = 1, stride = 1, padding = 0;  // convolution and pools: of windows
  std::int64_t groups = 1;             // convolution: blocks of channels that see only each other
  std::int64_t window = 5;             // local_response_norm: channels summed over
  bool bias = true;                    // convolution, linear
  bool positions = false;              // embedding: a learned row is added at each place
  std::int64_t heads = 1;              // attention
  std::int64_t kv_heads = 0;           // attention: of keys and values; 0: heads
  bool causal = false;                 // attention: rows see themselves and those before them
  bool qk_norm = false;                // attention: queries and keys by an RMS norm of each head
  double rotary_base = 0;              // attention: queries and keys turn by position; 0: not
  friend bool operator==(const OperatorSpec&, const OperatorSpec&) = default;
};

inline constexpr std::array kOperatorKinds{
    OperatorSpec::Kind::convolution, OperatorSpec::Kind::linear,
    OperatorSpec::Kind::relu, OperatorSpec::Kind::gelu,
    OperatorSpec::Kind::max_pool, OperatorSpec::Kind::average_pool,
    OperatorSpec::Kind::local_response_norm, OperatorSpec::Kind::layer_norm,
    OperatorSpec::Kind::dropout, OperatorSpec::Kind::add,
    OperatorSpec::Kind::concat, OperatorSpec::Kind::flatten, OperatorSpec::Kind::batch_norm,
    OperatorSpec::Kind::embedding, OperatorSpec::Kind::rms_norm, OperatorSpec::Kind::attention,
    OperatorSpec::Kind::swiglu};
std::string_view name(OperatorSpec::Kind kind);
// Of an attention.
inline std::int64_t kv_heads_of(const OperatorSpec& op) {
  return op.kv_heads > 0 ? op.kv_heads : op.heads;
}

// So many tokens of a sample, which embeddings look up.
struct TokenInput {
  std::string name;
  std::int64_t tokens = 0;
  friend bool operator==(const TokenInput&, const TokenInput&) = default;
};

struct GraphSpec {
  std::string input;                   // name of the model's input; "" where token_inputs are
  Shape input_shape;                   // of one sample
  // A sample is one sequence of tokens: those of the first input, then of the next. The loss is of
  // the tokens that follow the last ones.
  std::vector<TokenInput> token_inputs;
  std::int64_t vocabulary = 0;         // of all of them
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
// flatten makes no value of its own: it is what it flattens under another shape. Embeddings stand
// before the first layer, and the model's input is what they make: the rows of one, or of several
// one behind the other, of which each then takes its own (`order` has these embeddings).
struct GraphAnalysis {
  std::vector<GraphIssue> issues;      // empty: everything below holds
  std::vector<int> order;              // topological, ties in the file's order; no flatten
  std::vector<int> embeddings;         // in the file's order
  Shape input_shape;                   // of kModelInput
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

// Of all token inputs together.
std::int64_t tokens_of(const GraphSpec& spec);
// Tokens of the inputs before the one of this name.
std::int64_t tokens_before(const GraphSpec& spec, std::string_view input);

inline constexpr std::size_t kMaxOperators = 4096;
inline constexpr std::size_t kMaxTokenInputs = 8;
inline constexpr std::int64_t kMaxTokens = 8191;  // of a sample: what a load action can say
inline constexpr std::size_t kMaxOperatorInputs = 16;

}  // namespace models
