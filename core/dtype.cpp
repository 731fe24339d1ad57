#include "core/dtype.hpp"

#include <array>
#include <utility>

namespace core {
namespace {

constexpr std::array<std::pair<DType, std::string_view>, kDTypes> kNames{{
    {DType::f64, "f64"}, {DType::f32, "f32"}, {DType::bf16, "bf16"},
    {DType::f16, "f16"}, {DType::f8, "f8"},   {DType::i32, "i32"},
    {DType::i8, "i8"},   {DType::u8, "u8"},   {DType::nf4, "nf4"},
    {DType::f4, "f4"},
}};

}  // namespace

std::string_view name(DType t) {
  for (auto [type, text] : kNames)
    if (type == t) return text;
  return "?";
}

std::optional<DType> dtype_from_name(std::string_view wanted) {
  for (auto [type, text] : kNames)
    if (text == wanted) return type;
  return std::nullopt;
}

}  // namespace core
