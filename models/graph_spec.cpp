#include "models/graph_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

#include "core/check.hpp"
#include "core/result.hpp"
#include "models/graph_shapes.hpp"
#include "models/spec.hpp"

namespace models {

namespace {

using Kind = OperatorSpec::Kind;

constexpr std::array<std::string_view, kOperatorKinds.size()> kNames{
    "convolution", "linear",     "relu",    "gelu", "max_pool", "average_pool",
    "local_response_norm", "layer_norm", "dropout", "add",  "concat",   "flatten", "batch_norm",
    "embedding",           "rms_norm",   "attention", "swiglu"};

constexpr double kMaxElements = 1e12;  // of one value of a sample
constexpr std::int64_t kMaxWindow = 4096;

// Its backward pass reads its input, so a layer that begins with it keeps what it was given. A
// batch norm belongs to the product before it.
bool keeps_input(Kind kind) {
  return kind == Kind::convolution || kind == Kind::linear || kind == Kind::gelu ||
         kind == Kind::local_response_norm || kind == Kind::layer_norm ||
         kind == Kind::rms_norm || kind == Kind::embedding;
}

class Analyser {
 public:
  explicit Analyser(const GraphSpec& spec)
      : spec_(spec), count_(std::ssize(spec.operators)), rules_(spec, a_, a_.issues) {
    a_.input_shape = spec.input_shape;
  }

  GraphAnalysis run() {
    check_whole();
    if (a_.issues.empty()) resolve_names();
    if (a_.issues.empty()) sort();
    if (a_.issues.empty()) find_shapes();
    if (a_.issues.empty()) place_embeddings();
    if (a_.issues.empty()) find_output();
    if (a_.issues.empty()) divide();
    return std::move(a_);
  }

 private:
  const OperatorSpec& op(int i) const { return spec_.operators[static_cast<std::size_t>(i)]; }
  void issue(int at, std::string_view field, std::string expected, std::string found,
             std::string fix = "") {
    a_.issues.push_back({at, field, std::move(expected), std::move(found), std::move(fix)});
  }

  void check_whole() {
    if (count_ < 1 || count_ > static_cast<std::ptrdiff_t>(kMaxOperators))
      issue(-1, "operators", fmt::format("1 to {} operators", kMaxOperators),
            std::to_string(count_));
    if (!spec_.token_inputs.empty()) return check_tokens();
    const bool sized = std::ranges::all_of(
        spec_.input_shape, [](std::int64_t n) { return n >= 1 && n <= kMaxWidth; });
    if (spec_.input_shape.empty() || spec_.input_shape.size() > 3 || !sized ||
        too_large(spec_.input_shape))
      issue(-1, "input", "a shape [n], [rows, n] or [channels, height, width]",
            to_text(spec_.input_shape));
  }

  void check_tokens() {
    const std::int64_t all = tokens_of(spec_);
    if (all < 1 || all > kMaxTokens || spec_.token_inputs.size() > kMaxTokenInputs)
      issue(-1, "inputs", fmt::format("1 to {} tokens of at most {} inputs", kMaxTokens,
                                      kMaxTokenInputs),
            fmt::format("{} tokens of {}", all, spec_.token_inputs.size()));
    if (spec_.vocabulary < 2 || spec_.vocabulary > kMaxWidth)
      issue(-1, "vocabulary", fmt::format("an integer from 2 to {}", kMaxWidth),
            std::to_string(spec_.vocabulary));
  }

  static bool too_large(const Shape& shape) {
    double n = 1;
    for (const std::int64_t size : shape) n *= static_cast<double>(size);
    return n > kMaxElements;
  }

  void resolve_names() {
    std::map<std::string_view, int> by_name;
    std::vector<std::string_view> names;
    if (spec_.token_inputs.empty()) by_name[spec_.input] = kModelInput, names = {spec_.input};
    for (std::size_t t = 0; t < spec_.token_inputs.size(); ++t) {
      const std::string_view name = names.emplace_back(spec_.token_inputs[t].name);
      if (!by_name.emplace(name, token_value(t)).second)
        return issue(-1, "inputs", "a name for each input", fmt::format("\"{}\" twice", name));
    }
    for (int i = 0; i < count_; ++i) {
      names.push_back(op(i).name);
      if (op(i).name.empty()) issue(i, "name", "a name", "none");
      else if (!by_name.emplace(op(i).name, i).second)
        issue(i, "name", "a name of its own", fmt::format("\"{}\" again", op(i).name));
    }
    a_.inputs.resize(spec_.operators.size());
    read_.assign(spec_.operators.size(), false);
    for (int i = 0; i < count_; ++i) {
      for (const std::string& text : op(i).inputs) {
        const auto at = by_name.find(text);
        if (at != by_name.end()) {
          a_.inputs[static_cast<std::size_t>(i)].push_back(at->second);
          if (at->second >= 0) read_[static_cast<std::size_t>(at->second)] = true;
          check_tokens_of(i, at->second);
          continue;
        }
        const std::string_view near = core::nearest(text, names);
        issue(i, "inputs", "names of operators, or of a model's input",
              fmt::format("\"{}\"", text),
              near.empty() ? "" : fmt::format("did you mean {}?", near));
      }
      check_count(i);
      check_sizes(i);
    }
  }

  // Embeddings alone read tokens, and nothing else.
  void check_tokens_of(int i, int value) {
    if ((op(i).kind == Kind::embedding) == is_token_value(value)) return;
    issue(i, "inputs",
          is_token_value(value) ? "an embedding that looks the tokens up"
                                : "an input of tokens for an embedding",
          fmt::format("\"{}\"", op(i).inputs.front()));
  }

  void check_sizes(int i) {
    const OperatorSpec& o = op(i);
    const auto range = [&](std::string_view field, std::int64_t value, std::int64_t low,
                           std::int64_t high) {
      if (value < low || value > high)
        issue(i, field, fmt::format("an integer from {} to {}", low, high), std::to_string(value));
    };
    if (o.kind == Kind::convolution) range("channels", o.width, 1, kMaxWidth);
    if (o.kind == Kind::linear || o.kind == Kind::embedding)
      range("features", o.width, 1, kMaxWidth);
    range("heads", o.heads, 1, kMaxWidth);
    range("kv_heads", o.kv_heads, 0, kMaxWidth);
    const auto both = [&](std::string_view field, Extent e, std::int64_t low) {
      range(field, e.height, low, kMaxWindow);
      if (e.width != e.height) range(field, e.width, low, kMaxWindow);
    };
    both("kernel", o.kernel, 1);
    both("stride", o.stride, 1);
    both("padding", o.padding, 0);
    range("groups", o.groups, 1, kMaxWidth);
    range("window", o.window, 1, kMaxWindow);
  }

  void check_count(int i) {
    const std::size_t n = op(i).inputs.size();
    const std::set<std::string> distinct(op(i).inputs.begin(), op(i).inputs.end());
    const bool many = op(i).kind == Kind::concat, gates = op(i).kind == Kind::swiglu;
    const bool two = op(i).kind == Kind::add || gates;
    const bool attends = op(i).kind == Kind::attention;
    const bool holds = many      ? n >= 2 && n <= kMaxOperatorInputs
                       : attends ? n == 1 || n == 3
                                 : n == (two ? 2 : 1);
    if (!holds)
      issue(i, "inputs",
            many  ? fmt::format("2 to {} inputs of a concat", kMaxOperatorInputs)
            : gates ? "two inputs of a swiglu: the gate, and what it multiplies"
            : two   ? "two inputs of an add"
            : attends
                ? "queries, keys and values of an attention, or one input that has all three"
                  : fmt::format("one input of a {}", name(op(i).kind)),
            std::to_string(n));
    else if (distinct.size() != n)
      issue(i, "inputs", "each input once", "one of them twice");
  }

  // Kahn's algorithm; what it leaves is on a cycle or behind one.
  void sort() {
    std::vector<std::size_t> waiting(spec_.operators.size(), 0);
    std::vector<std::vector<int>> readers(spec_.operators.size());
    std::priority_queue<int, std::vector<int>, std::greater<>> ready;
    for (int i = 0; i < count_; ++i) {
      for (const int from : a_.inputs[static_cast<std::size_t>(i)]) {
        if (from < 0) continue;
        readers[static_cast<std::size_t>(from)].push_back(i);
        ++waiting[static_cast<std::size_t>(i)];
      }
      if (waiting[static_cast<std::size_t>(i)] == 0) ready.push(i);
    }
    while (!ready.empty()) {
      const int i = ready.top();
      ready.pop();
      a_.order.push_back(i);
      for (const int next : readers[static_cast<std::size_t>(i)])
        if (--waiting[static_cast<std::size_t>(next)] == 0) ready.push(next);
    }
    if (std::ssize(a_.order) == count_) return;
    for (int i = 0; i < count_; ++i)
      if (waiting[static_cast<std::size_t>(i)] > 0)
        return issue(i, "inputs", "operators without a cycle",
                     fmt::format("{} reads, by way of others, what it makes itself or what such "
                                 "an operator makes", op(i).name));
  }

  void find_shapes() {
    a_.shapes.resize(spec_.operators.size());
    a_.input_shapes.resize(spec_.operators.size());
    for (const int i : a_.order) {
      const auto at = static_cast<std::size_t>(i);
      a_.input_shapes[at] = rules_.shape_of(a_.inputs[at].front());
      a_.shapes[at] = rules_.after(i);
      if (!a_.issues.empty()) return;  // what follows would be wrong for the same reason
      if (too_large(a_.shapes[at]))
        return issue(i, "", fmt::format("at most {:.0e} elements of a sample", kMaxElements),
                     to_text(a_.shapes[at]));
    }
    // A flatten stands for what it reads from here on.
    for (const int i : a_.order)
      for (int& from : a_.inputs[static_cast<std::size_t>(i)])
        while (from >= 0 && op(from).kind == Kind::flatten)
          from = a_.inputs[static_cast<std::size_t>(from)].front();
  }

  // One embedding's rows are the model's input. Of several, that is all rows, of which each takes
  // its own.
  void place_embeddings() {
    if (spec_.token_inputs.empty()) return;
    std::int64_t all = 0;
    std::set<int> looked_up;
    for (int i = 0; i < count_; ++i)
      if (op(i).kind == Kind::embedding) {
        a_.embeddings.push_back(i);
        looked_up.insert(a_.inputs[static_cast<std::size_t>(i)].front());
        all += elements_of(a_.shapes[static_cast<std::size_t>(i)]);
      }
    if (looked_up.size() < spec_.token_inputs.size())
      return issue(-1, "inputs", "an embedding of every input", "one that nothing reads");
    a_.input_shape = {all};
    if (a_.embeddings.size() == 1) {
      const int one = a_.embeddings.front();
      a_.input_shape = a_.shapes[static_cast<std::size_t>(one)];
      for (std::vector<int>& inputs : a_.inputs) std::ranges::replace(inputs, one, kModelInput);
      std::erase(a_.order, one);
      if (a_.order.empty()) issue(one, "kind", "an operator behind the embedding", "none");
      return;
    }
    for (const int i : a_.embeddings) {
      a_.inputs[static_cast<std::size_t>(i)] = {kModelInput};
      a_.input_shapes[static_cast<std::size_t>(i)] = a_.input_shape;
    }
  }

  void find_output() {
    std::vector<int> unread;
    for (int i = 0; i < count_; ++i)
      if (!read_[static_cast<std::size_t>(i)]) unread.push_back(i);
    if (unread.size() != 1)
      return issue(unread.back(), "name", "one result that nothing reads: the model's",
                   fmt::format("{} as well as {}", op(unread.front()).name,
                               op(unread.back()).name),
                   "remove one, or let an operator read it");
    a_.output = unread.front();
    a_.output_shape = a_.shapes[static_cast<std::size_t>(a_.output)];
    while (a_.output != kModelInput && op(a_.output).kind == Kind::flatten)
      a_.output = a_.inputs[static_cast<std::size_t>(a_.output)].front();
    std::erase_if(a_.order, [&](int i) { return op(i).kind == Kind::flatten; });
    if (a_.order.empty()) issue(-1, "operators", "an operator that computes", "flattens alone");
  }

  // A layer ends where one value alone is read later, and an operator that keeps it reads it.
  void divide() {
    std::map<int, int> last_reader;  // value -> position in order
    std::map<int, bool> kept;
    for (int position = 0; position < std::ssize(a_.order); ++position) {
      const int i = a_.order[static_cast<std::size_t>(position)];
      for (const int from : a_.inputs[static_cast<std::size_t>(i)]) {
        last_reader[from] = position;
        kept[from] = kept[from] || keeps_input(op(i).kind);
      }
    }
    if (!kept[kModelInput])
      return issue(a_.order.front(), "kind",
                   "a convolution, linear, gelu or norm that reads the model's input",
                   fmt::format("{} alone", name(op(a_.order.front()).kind)));
    std::set<std::pair<int, int>> live{{last_reader[kModelInput], kModelInput}};
    for (int position = 0; position < std::ssize(a_.order); ++position) {
      while (!live.empty() && live.begin()->first <= position) live.erase(live.begin());
      const int i = a_.order[static_cast<std::size_t>(position)];
      const bool last = i == a_.output;
      if (!last) live.emplace(last_reader[i], i);
      if (last || (live.size() == 1 && live.begin()->second == i && kept[i]))
        a_.layers.push_back({position, i});
    }
    // Every operator reads something and the output alone is unread, so it comes last.
    PLANNER_CHECK(!a_.layers.empty() && a_.layers.back().last + 1 == std::ssize(a_.order));
  }

  const GraphSpec& spec_;
  const std::ptrdiff_t count_;
  GraphAnalysis a_;
  ShapeRules rules_;
  std::vector<bool> read_;             // by operator: something reads its result
};

}  // namespace

std::string_view name(OperatorSpec::Kind kind) { return kNames[static_cast<std::size_t>(kind)]; }

GraphAnalysis analyse(const GraphSpec& spec) { return Analyser(spec).run(); }

const GraphAnalysis& kept_analysis(const GraphSpec& spec) {
  thread_local GraphSpec of;
  thread_local GraphAnalysis analysis;
  if (spec.operators.empty() || spec != of) {
    analysis = analyse(spec);
    of = spec;
  }
  return analysis;
}

std::int64_t tokens_of(const GraphSpec& spec) {
  std::int64_t all = 0;
  for (const TokenInput& input : spec.token_inputs) all += input.tokens;
  return all;
}

std::int64_t tokens_before(const GraphSpec& spec, std::string_view input) {
  std::int64_t before = 0;
  for (const TokenInput& one : spec.token_inputs) {
    if (one.name == input) return before;
    before += one.tokens;
  }
  PLANNER_CHECK(false, "the name of an input");
}

std::int64_t elements_of(const Shape& shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

std::int64_t weight_inputs(const OperatorSpec& op, const Shape& input) {
  if (op.kind == Kind::linear) return input.back();
  PLANNER_CHECK(op.kind == Kind::convolution, "only matrices have weight inputs");
  return input[0] / op.groups * op.kernel.area();
}

std::string to_text(Extent extent) {
  return extent.height == extent.width ? fmt::format("{}", extent.height)
                                       : fmt::format("{} x {}", extent.height, extent.width);
}

std::string to_text(const Shape& shape) {
  return shape.empty() ? "no sizes" : fmt::format("{}", fmt::join(shape, " x "));
}

}  // namespace models
