#include "models/graph_shapes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace models {

using Kind = OperatorSpec::Kind;

Shape ShapeRules::shape_of(int value) const {
  if (is_token_value(value))
    return {spec_.token_inputs[static_cast<std::size_t>(token_value(0) - value)].tokens};
  return value == kModelInput ? a_.input_shape : a_.shapes[static_cast<std::size_t>(value)];
}

Shape ShapeRules::mismatch(int i, std::string expected, const Shape& found) {
  issue(i, "inputs", std::move(expected), to_text(found),
        found.size() == 3 ? "a flatten makes features of an image" : "");
  return found;
}

Shape ShapeRules::after(int i) {
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
    case Kind::rms_norm:
      if (x.size() == 3) return mismatch(i, "an input of features", x);
      return x;
    case Kind::relu:
    case Kind::gelu:
    case Kind::dropout: return x;
    case Kind::swiglu:
      if (x.size() == 3) return mismatch(i, "an input of features", x);
      [[fallthrough]];
    case Kind::add: {
      const Shape& y = shape_of(a_.inputs[static_cast<std::size_t>(i)][1]);
      if (x != y) return mismatch(i, "two inputs of one shape, " + to_text(x), y);
      return x;
    }
    case Kind::concat: return concatenated(i, x);
    case Kind::embedding: return {x.front(), o.width};
    case Kind::attention: return attended(i, x);
    case Kind::flatten: return {elements_of(x)};
  }
  return x;
}

Shape ShapeRules::windowed(int i, const Shape& x) {
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
Shape ShapeRules::concatenated(int i, const Shape& first) {
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

// Queries, keys and values side by side in one row, or apart. The kernels have as many keys as
// queries.
Shape ShapeRules::attended(int i, const Shape& first) {
  const OperatorSpec& o = op(i);
  const std::vector<int>& values = a_.inputs[static_cast<std::size_t>(i)];
  if (first.size() != 2) return mismatch(i, "rows of features: [rows, n]", first);
  const std::int64_t kv = kv_heads_of(o);
  if (o.heads % kv != 0) {
    issue(i, "kv_heads", fmt::format("a divisor of {} heads", o.heads), std::to_string(kv));
    return first;
  }
  const bool apart = values.size() == 3;
  const std::int64_t parts = apart ? o.heads : o.heads + 2 * kv;
  if (first[1] % parts != 0) {
    issue(i, "heads",
          apart ? fmt::format("a divisor of {} columns", first[1])
                : fmt::format("heads and twice kv_heads that together divide {} columns (queries, "
                              "keys, values)",
                              first[1]),
          fmt::format("{} and {}", o.heads, kv));
    return first;
  }
  const std::int64_t head = first[1] / parts;
  for (std::size_t v = 1; v < values.size(); ++v)
    if (const Shape x = shape_of(values[v]), keys{first[0], head * kv}; x != keys)
      return mismatch(i,
                      "keys and values of " + to_text(keys) +
                          " (the kernels have as many keys as queries)",
                      x);
  if (o.rotary_base > 0 && head % 2 != 0)
    issue(i, "rotary_base", "heads of an even number of columns", std::to_string(head));
  return {first[0], head * o.heads};
}

}  // namespace models
