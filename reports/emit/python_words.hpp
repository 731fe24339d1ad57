#pragma once
// Internal to emit/: literals and calls of Python, for targets that are configured in it.

#include <concepts>
#include <string_view>
#include <type_traits>

#include "core/code.hpp"
#include "core/json.hpp"

namespace reports::emit {

inline core::Code literal(bool is) {
  return core::Code::own(is ? "True" : "False");
}
template <class Number>
requires(std::is_arithmetic_v<Number> && !std::same_as<Number, bool>)
core::Code literal(Number number) {
  return core::code("{}", number);
}
inline core::Code literal(std::string_view text) {
  return core::Code::json(core::Json(text), 0);
}

// NAME=VALUE of a call, one a line.
class PythonArguments {
 public:
  template <class Value>
  void set(const core::Code& name, const Value& value) {
    set_code(name, literal(value));
  }
  void set_code(const core::Code& name, const core::Code& value) {
    text_ += core::code("            {}={},\n", name, value);
  }
  template <class Value>
  void set_if(bool is, const core::Code& name, const Value& value) {
    if (is) set(name, value);
  }
  const core::Code& text() const { return text_; }

 private:
  core::Code text_;
};

}  // namespace reports::emit
