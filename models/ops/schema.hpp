#pragma once
// Schema: what the rest of the tree knows of an operator, said once. It names the arguments of the
// operator's actions in their order, and says what backward keeps, how it is lowered, what may be
// computed in place, along what the operator divides, and what it costs. schemas.hpp has one for
// each OpKind; README.md explains the notation. Immutable; thread-safe.
//
// Lists of arguments are text: "d_y x rstd gamma -> d_x d_gamma?". Words before "->" are read,
// words after it are written, words after "<-" are read again. Each word is a name, and perhaps a
// mark: `?` not always there, `*` any number of them, `!` read and then overwritten. `d_NAME` is
// the gradient of NAME. Lists are parsed at compile time: a name that nothing declares does not
// compile.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace models {

enum class OpKind : std::uint8_t;

namespace ops {

// The kernels of an operator, each an action of a Program.
enum class Kernel : std::uint8_t { forward, input_gradient, weight_gradient };
inline constexpr std::size_t kKernels = 3;

// How the lowering makes the backward pass of an operator.
enum class Gradient : std::uint8_t {
  none,         // a loss, whose forward pass leaves the gradient, or what it reads
  transfer,     // a collective or a message: its counterpart goes the other way
  product,      // a weight gradient, then the kept input is freed, then an input gradient
  sum,          // the gradient of the result is that of every input
  passes,       // the same of the one input, after the weight gradient if there is one
  embeds,       // as `passes`: the rows of a table were added
  turns,        // as `passes`, after one action has changed the gradient in place
  lookup,       // a weight gradient alone
  joint,        // one action makes the gradients of inputs and parameters
  elementwise,  // one action makes the input's gradient, in place of the result's if it may
  attention,    // as `joint`, with the keys of other ranks around it
  adapter,      // one action adds the gradients of LoRA's second factor; the base passes
};

// Along what an operator may be divided over ranks, each of which then has a part of its inputs and
// outputs. A division by one of kSums leaves every rank a part of a sum (or of a maximum).
enum Factor : std::uint8_t {
  kSample = 1,
  kRow = 2,          // tokens or places of a sample
  kOut = 4,          // columns of the result
  kIn = 8,           // columns of the input, over which a product sums
  kHead = 16,
  kExpert = 32,
  kVocabulary = 64,  // rows of the token table, columns of the logits
};
inline constexpr std::uint8_t kSums = kIn | kVocabulary;

// Which function of exec/host/work.cpp counts an operator's FLOPs and bytes.
enum class WorkOf : std::uint8_t {
  nothing,      // a transfer: its cost is the wire's
  lookup, table_rows, layer_norm, rms_norm, head_norm, square_sums, width_norm, product, adapter,
  dense, expert_product,
  convolution, attention, bias, routing, dispatching, combining, pool, response_norm, batch_norm,
  channel_sums, channel_norm,
  pointwise     // counted by the numbers of Work
};

// Of `pointwise`: operations and tensors moved for each element of the result, forward and in the
// input gradient; row statistics and tokens for each row forward; masks for each element.
struct Work {
  WorkOf by = WorkOf::nothing;
  double flops_forward = 0, flops_backward = 0;
  std::int64_t moved_forward = 0, moved_backward = 0;
  std::int64_t statistics = 0, tokens = 0, masks = 0;
};

struct Schema {
  OpKind kind{};
  std::string_view inputs{}, parameters{}, outputs{};  // Operator's, in order
  // What the forward action has behind them that is no tensor of the operator.
  std::string_view beside{};
  std::string_view beside_gradient{};  // what the gradient actions have in addition
  std::string_view keeps{};            // Operator::saved, in order
  std::string_view input_gradient{}, weight_gradient{};  // empty: there is no such action
  std::string_view in_place{};         // "y=x": y may have the storage of x
  Gradient gradient = Gradient::none;
  std::uint8_t divides = 0;            // of Factor
  Work work{};
};

// Where an argument comes from.
enum class Source : std::uint8_t {
  input, parameter, output, kept,      // entry `index` of that list of the operator
  gradient_of_input, gradient_of_parameter, gradient_of_output,
  narrow,                              // copies of outputs in fewer bits, which others keep
  beside,
};

struct Argument {
  std::string_view name{};
  Source source{};
  std::uint8_t index = 0;
  bool written = false, optional = false, many = false;
};

struct Signature {
  static constexpr std::size_t kMost = 12;
  std::array<Argument, kMost> arguments{};
  std::size_t count = 0;

  // Whether every argument is exactly one: position and index are the same.
  constexpr bool fixed() const {
    for (std::size_t i = 0; i < count; ++i)
      if (arguments[i].optional || arguments[i].many) return false;
    return true;
  }
  constexpr std::size_t find(std::string_view name) const {
    std::size_t i = 0;
    while (i < count && arguments[i].name != name) ++i;
    return i;
  }
  std::span<const Argument> all() const { return {arguments.data(), count}; }
};

// Declared and not defined: to call one while compiling is the error message.
void a_schema_uses_a_name_that_it_does_not_declare();
void a_schema_has_too_many_arguments();

// The next word of a list, which is taken off `text`; empty at the end.
constexpr std::string_view next_word(std::string_view& text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  std::size_t length = 0;
  while (length < text.size() && text[length] != ' ') ++length;
  const std::string_view word = text.substr(0, length);
  text.remove_prefix(length);
  return word;
}

constexpr std::string_view without_mark(std::string_view word) {
  const bool marked = word.ends_with('?') || word.ends_with('*') || word.ends_with('!');
  return word.substr(0, word.size() - (marked ? 1 : 0));
}

// Index of a name in a list, or -1.
constexpr int index_in(std::string_view list, std::string_view name) {
  for (int i = 0; !list.empty(); ) {
    const std::string_view word = next_word(list);
    if (word.empty() || word == "->" || word == "<-") continue;
    if (without_mark(word) == name) return i;
    ++i;
  }
  return -1;
}

class SignatureParser {
 public:
  constexpr explicit SignatureParser(const Schema& schema) : schema_(schema) {}

  constexpr Signature parse(Kernel kernel) {
    if (kernel == Kernel::input_gradient) return backward(schema_.input_gradient);
    if (kernel == Kernel::weight_gradient) return backward(schema_.weight_gradient);
    take(schema_.inputs, Source::input, false);
    take(schema_.parameters, Source::parameter, false);
    take(schema_.outputs, Source::output, true);
    append({.name = "narrow", .source = Source::narrow, .written = true, .many = true});
    take(schema_.beside, Source::beside, false);
    return made_;
  }

 private:
  constexpr void append(const Argument& argument) {
    if (made_.count == Signature::kMost) a_schema_has_too_many_arguments();
    made_.arguments[made_.count++] = argument;
  }

  static constexpr Argument argument(std::string_view word, bool written) {
    return {.name = without_mark(word),
            .written = written || word.ends_with('!'),
            .optional = word.ends_with('?'),
            .many = word.ends_with('*')};
  }

  constexpr void take(std::string_view list, Source source, bool written) {
    for (std::uint8_t index = 0; !list.empty();) {
      const std::string_view word = next_word(list);
      if (word.empty()) continue;
      if (word == "->" || word == "<-") {
        written = word == "->";
        continue;
      }
      Argument a = argument(word, written);
      a.source = source;
      a.index = index++;
      append(a);
    }
  }

  constexpr Signature backward(std::string_view list) {
    bool written = false;
    while (!list.empty()) {
      const std::string_view word = next_word(list);
      if (word.empty()) continue;
      if (word == "->" || word == "<-") {
        written = word == "->";
        continue;
      }
      Argument a = argument(word, written);
      const bool gradient = a.name.starts_with("d_");
      const bool found = gradient ? find_gradient(a) : find_value(a);
      if (!found) a_schema_uses_a_name_that_it_does_not_declare();
      append(a);
    }
    return made_;
  }

  static constexpr bool find(Argument& a, std::string_view list, std::string_view name,
                             Source source) {
    const int index = index_in(list, name);
    if (index < 0) return false;
    a.source = source;
    a.index = static_cast<std::uint8_t>(index);
    return true;
  }
  constexpr bool find_value(Argument& a) const {
    return find(a, schema_.keeps, a.name, Source::kept) ||
           find(a, schema_.parameters, a.name, Source::parameter) ||
           find(a, schema_.beside, a.name, Source::beside) ||
           find(a, schema_.beside_gradient, a.name, Source::beside);
  }
  constexpr bool find_gradient(Argument& a) const {
    const std::string_view of = a.name.substr(2);
    return find(a, schema_.inputs, of, Source::gradient_of_input) ||
           find(a, schema_.parameters, of, Source::gradient_of_parameter) ||
           find(a, schema_.outputs, of, Source::gradient_of_output) ||
           find(a, schema_.beside, of, Source::beside);
  }

  const Schema& schema_;
  Signature made_{};
};

// The arguments of one action of an operator.
template <const Schema& kSchema, Kernel kKernel>
inline constexpr Signature kSignature = SignatureParser(kSchema).parse(kKernel);

// The same of a schema of schemas.hpp that is not known while compiling.
const Signature& signature(const Schema& schema, Kernel kernel);

// Whether the schema lets `written` have the storage of `other`.
bool may_share(const Schema& schema, std::string_view written, std::string_view other);

}  // namespace ops
}  // namespace models
