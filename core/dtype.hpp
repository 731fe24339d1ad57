#pragma once
// Element types of buffers and their sizes. Nothing of what the elements mean.

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/units.hpp"

namespace core {

// f8: e4m3 or e5m2. f4: e2m1, of NVFP4. nf4: indices of a table of 16 numbers [qlora].
enum class DType : std::uint8_t { f64, f32, bf16, f16, f8, i32, i8, u8, nf4, f4 };
inline constexpr std::size_t kDTypes = 10;

// Bits of one element.
constexpr int bits(DType t) {
  switch (t) {
    case DType::f64: return 64;
    case DType::f32: case DType::i32: return 32;
    case DType::bf16: case DType::f16: return 16;
    case DType::f8: case DType::i8: case DType::u8: return 8;
    case DType::nf4: case DType::f4: return 4;
  }
  return 0;
}

// Storage of n elements, rounded up to whole bytes.
constexpr Bytes bytes_of(std::int64_t n, DType t) { return Bytes((n * bits(t) + 7) / 8); }

std::string_view name(DType t);
std::optional<DType> dtype_from_name(std::string_view text);

}  // namespace core
