#include "models/graph_spec.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <queue>
#include <set>

#include "core/check.hpp"
#include "core/result.hpp"
#include "models/spec.hpp"

namespace models {

namespace {

using Kind = OperatorSpec::Kind;

constexpr std::array<std::string_view, kOperatorKinds.size()> kNames{
    "convolution", "linear",     "relu",    "gelu", "max_pool", "average_pool",
    "local_response_norm", "layer_norm", "dropout", "add",  "concat",   "flatten", "batch_norm"};

constexpr double kMaxElements = 1e12;  // of one value of a sample
constexpr std::int64_t kMaxWindow = 4096;

// Its backward pass reads its input, so a layer that begins with it keeps what it was given. A
// batch norm belongs to the product before it.
bool keeps_input(Kind kind) {
  return kind == Kind::convolution || kind == Kind::linear || kind == Kind::gelu ||
         kind == Kind::local_response_norm || kind == Kind::layer_norm;
}

class Analyser {
 public:
  explicit Analyser(const GraphSpec& spec) : spec_(spec), count_(std::ssize(spec.operators)) {}

  GraphAnalysis run() {
    check_whole();
    if (a_.issues.empty()) resolve_names();
    if (a_.issues.empty()) sort();
    if (a_.issues.empty()) find_shapes();
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
    const bool sized = std::ranges::all_of(
        spec_.input_shape, [](std::int64_t n) { return n >= 1 && n <= kMaxWidth; });
    if (spec_.input_shape.empty() || spec_.input_shape.size() > 3 || !sized ||
        too_large(spec_.input_shape))
      issue(-1, "input", "a shape [n], [rows, n] or [channels, height, width]",
            to_text(spec_.input_shape));
  }

  static bool too_large(const Shape& shape) {
    double n = 1;
    for (const std::int64_t size : shape) n *= static_cast<double>(size);
    return n > kMaxElements;
  }

  void resolve_names() {
    std::map<std::string_view, int> by_name{{spec_.input, kModelInput}};
    std::vector<std::string_view> names{spec_.input};
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
          if (at->second != kModelInput) read_[static_cast<std::size_t>(at->second)] = true;
          continue;
        }
        const std::string_view near = core::nearest(text, names);
        issue(i, "inputs", "names of operators, or of the model's input",
              fmt::format("\"{}\"", text),
              near.empty() ? "" : fmt::format("did you mean {}?", near));
      }
      check_count(i);
      check_sizes(i);
    }
  }

  void check_sizes(int i) {
    const OperatorSpec& o = op(i);
    const auto range = [&](std::string_view field, std::int64_t value, std::int64_t low,
                           std::int64_t high) {
      if (value < low || value > high)
        issue(i, field, fmt::format("an integer from {} to {}", low, high), std::to_string(value));
    };
    if (o.kind == Kind::convolution) range("channels", o.width, 1, kMaxWidth);
    if (o.kind == Kind::linear) range("features", o.width, 1, kMaxWidth);
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
    const bool many = op(i).kind == Kind::concat, two = op(i).kind == Kind::add;
    const bool holds = many ? n >= 2 && n <= kMaxOperatorInputs : n == (two ? 2 : 1);
    if (!holds)
      issue(i, "inputs",
            many  ? fmt::format("2 to {} inputs of a concat", kMaxOperatorInputs)
            : two ? "two inputs of an add"
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
        if (from == kModelInput) continue;
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

  const Shape& shape_of(int value) const {
    return value == kModelInput ? spec_.input_shape : a_.shapes[static_cast<std::size_t>(value)];
  }

  void find_shapes() {
    a_.shapes.resize(spec_.operators.size());
    a_.input_shapes.resize(spec_.operators.size());
    for (const int i : a_.order) {
      const auto at = static_cast<std::size_t>(i);
      a_.input_shapes[at] = shape_of(a_.inputs[at].front());
      a_.shapes[at] = shape_after(i);
      if (!a_.issues.empty()) return;  // what follows would be wrong for the same reason
      if (too_large(a_.shapes[at]))
        return issue(i, "", fmt::format("at most {:.0e} elements of a sample", kMaxElements),
                     to_text(a_.shapes[at]));
    }
    // A flatten stands for what it reads from here on.
    for (const int i : a_.order)
      for (int& from : a_.inputs[static_cast<std::size_t>(i)])
        while (from != kModelInput && op(from).kind == Kind::flatten)
          from = a_.inputs[static_cast<std::size_t>(from)].front();
  }

  Shape mismatch(int i, std::string expected, const Shape& found) {
    issue(i, "inputs", std::move(expected), to_text(found),
          found.size() == 3 ? "a flatten makes features of an image" : "");
    return found;
  }

  Shape shape_after(int i) {
    const OperatorSpec& o = op(i);
    const Shape& x = a_.input_shapes[static_cast<std::size_t>(i)];
    switch (o.kind) {
      case Kind::convolution:
      case Kind::max_pool:
      case Kind::average_pool:
        if (x.size() != 3) return mismatch(i, "an input of channels x height x width", x);
        return windowed(i, x);
      case Kind::local_response_norm:
        if (x.size() != 3) return mismatch(i, "an input of channels x height x width", x);
        return x;
      case Kind::batch_norm:
        if (x.size() == 2)
          return mismatch(i, "an input of channels x height x width, or of features", x);
        return x;
      case Kind::linear:
        if (x.size() == 3) return mismatch(i, "an input of features", x);
        return x.size() == 1 ? Shape{o.width} : Shape{x[0], o.width};
      case Kind::layer_norm:
        if (x.size() == 3) return mismatch(i, "an input of features", x);
        return x;
      case Kind::relu:
      case Kind::gelu:
      case Kind::dropout: return x;
      case Kind::add: {
        const Shape& y = shape_of(a_.inputs[static_cast<std::size_t>(i)][1]);
        if (x != y) return mismatch(i, "two inputs of one shape, " + to_text(x), y);
        return x;
      }
      case Kind::concat: return concatenated(i, x);
      case Kind::flatten: return {elements_of(x)};
    }
    return x;
  }

  Shape windowed(int i, const Shape& x) {
    const OperatorSpec& o = op(i);
    Shape y = x;
    if (o.kind == Kind::convolution) {
      if (x[0] % o.groups != 0 || o.width % o.groups != 0) {
        issue(i, "groups", fmt::format("a divisor of {} and of {} channels", x[0], o.width),
              std::to_string(o.groups));
        return x;
      }
      y[0] = o.width;
    }
    if (o.padding.height >= o.kernel.height || o.padding.width >= o.kernel.width) {
      issue(i, "padding", fmt::format("less than the kernel, {}", to_text(o.kernel)),
            to_text(o.padding));
      return x;
    }
    const std::int64_t height = x[1] + 2 * o.padding.height, width = x[2] + 2 * o.padding.width;
    if (height < o.kernel.height || width < o.kernel.width) {
      const Extent most = o.kernel.height == o.kernel.width ? Extent(std::min(height, width))
                                                            : Extent(height, width);
      issue(i, "kernel", fmt::format("at most {} for an input of {}", to_text(most), to_text(x)),
            to_text(o.kernel));
      return x;
    }
    y[1] = (height - o.kernel.height) / o.stride.height + 1;
    y[2] = (width - o.kernel.width) / o.stride.width + 1;
    return y;
  }

  // Along channels, or along the features of each row.
  Shape concatenated(int i, const Shape& first) {
    Shape y = first;
    const std::size_t axis = first.size() == 2 ? 1 : 0;
    y[axis] = 0;
    for (const int value : a_.inputs[static_cast<std::size_t>(i)]) {
      Shape x = shape_of(value), like = first;
      if (x.size() == first.size()) like[axis] = x[axis];
      if (x != like)
        return mismatch(i, "inputs that differ in width alone, as " + to_text(like), x);
      y[axis] += x[axis];
    }
    return y;
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
