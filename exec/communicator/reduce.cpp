#include "exec/communicator/reduce.hpp"

#include <bit>

#include "core/check.hpp"

namespace exec {
namespace {

// Selects instead of branches, so that the loops below vectorise.
inline std::uint16_t to_bf16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  const std::uint32_t nan = (u >> 16) | 0x40u;
  return static_cast<std::uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

inline float from_bf16(std::uint16_t b) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(b) << 16);
}

// Subnormals of f16 (below 2^-14) are rounded by the adder: 0.5 has its last bit at 2^-24.
inline std::uint16_t to_f16(float value) {
  const auto u = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = (u >> 16) & 0x8000u;
  const std::uint32_t a = u & 0x7fffffffu;
  const std::uint32_t normal = (a - (112u << 23) + 0xfffu + ((a >> 13) & 1u)) >> 13;
  const std::uint32_t subnormal =
      std::bit_cast<std::uint32_t>(std::bit_cast<float>(a) + 0.5f) - (126u << 23);
  const std::uint32_t special = a > 0x7f800000u ? 0x7e00u : 0x7c00u;
  const std::uint32_t finite = a < (113u << 23) ? subnormal : normal;
  return static_cast<std::uint16_t>(sign | (a >= (143u << 23) ? special : finite));
}

// The exponent is rebased by a product with 2^112, exact for subnormals too.
inline float from_f16(std::uint16_t h) {
  const std::uint32_t sign = static_cast<std::uint32_t>(h & 0x8000u) << 16;
  const std::uint32_t a = h & 0x7fffu;
  const float rebased = std::bit_cast<float>(a << 13) * 0x1p112f;
  const std::uint32_t special = 0x7f800000u | (a << 13);
  const std::uint32_t magnitude = a >= 0x7c00u ? special : std::bit_cast<std::uint32_t>(rebased);
  return std::bit_cast<float>(sign | magnitude);
}

template <class T>
struct Plain {
  using Stored = T;
  static T load(T v) { return v; }
  static T store(T v) { return v; }
};
struct Bf16 {
  using Stored = std::uint16_t;
  static float load(Stored v) { return from_bf16(v); }
  static Stored store(float v) { return to_bf16(v); }
};
struct F16 {
  using Stored = std::uint16_t;
  static float load(Stored v) { return from_f16(v); }
  static Stored store(float v) { return to_f16(v); }
};

struct Sum {
  template <class T>
  static T apply(T a, T b) { return a + b; }
  // In unsigned arithmetic overflow wraps instead of being undefined.
  static std::int32_t apply(std::int32_t a, std::int32_t b) {
    return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) + static_cast<std::uint32_t>(b));
  }
};
struct Max {
  template <class T>
  static T apply(T a, T b) { return a >= b || a != a ? a : b; }
};

template <class Element, class Op>
void loop(const std::byte* left, const std::byte* right, std::byte* out, std::int64_t n) {
  using Stored = typename Element::Stored;
  const auto* a = reinterpret_cast<const Stored*>(left);
  const auto* b = reinterpret_cast<const Stored*>(right);
  auto* c = reinterpret_cast<Stored*>(out);
#pragma GCC ivdep  // out is left or right or apart: no element depends on another
  for (std::int64_t i = 0; i < n; ++i) {
    c[i] = Element::store(Op::apply(Element::load(a[i]), Element::load(b[i])));
  }
}

template <class Op>
void combine_as(const std::byte* left, const std::byte* right, std::byte* out, std::int64_t n,
                core::DType type) {
  switch (type) {
    case core::DType::f64: return loop<Plain<double>, Op>(left, right, out, n);
    case core::DType::f32: return loop<Plain<float>, Op>(left, right, out, n);
    case core::DType::i32: return loop<Plain<std::int32_t>, Op>(left, right, out, n);
    case core::DType::bf16: return loop<Bf16, Op>(left, right, out, n);
    case core::DType::f16: return loop<F16, Op>(left, right, out, n);
    default: PLANNER_CHECK(false, "this type cannot be reduced");
  }
}

}  // namespace

bool reducible(core::DType type) {
  switch (type) {
    case core::DType::f64:
    case core::DType::f32:
    case core::DType::bf16:
    case core::DType::f16:
    case core::DType::i32: return true;
    default: return false;
  }
}

void combine(const std::byte* left, const std::byte* right, std::byte* out, std::int64_t n,
             core::DType type, program::ReduceOp op) {
  if (op == program::ReduceOp::sum) return combine_as<Sum>(left, right, out, n, type);
  combine_as<Max>(left, right, out, n, type);
}

std::uint16_t bf16_from_float(float value) { return to_bf16(value); }
float float_from_bf16(std::uint16_t bits) { return from_bf16(bits); }
std::uint16_t f16_from_float(float value) { return to_f16(value); }
float float_from_f16(std::uint16_t bits) { return from_f16(bits); }

}  // namespace exec
