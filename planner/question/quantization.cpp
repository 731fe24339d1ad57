#include "planner/question/quantization.hpp"

#include "core/check.hpp"

namespace planner {
namespace {

constexpr std::int64_t kBytesOfF32 = 4;
constexpr std::int64_t kBlock = 64;           // weights that share an 8-bit scale (nf4)
constexpr std::int64_t kScaleBlock = 256;     // scales that share an f32
constexpr std::int64_t kGroup = 128;          // weights that share a scale and a zero point (gptq)
constexpr std::int64_t kFactors = 2, kCentroids = 4;  // 2 bits each

std::int64_t parts(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

std::int64_t count(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

}  // namespace

std::optional<Quantization> quantization_from_name(std::string_view text) {
  if (text == "none") return Quantization::none;
  if (text == "int8") return Quantization::int8;
  if (text == "nf4") return Quantization::nf4;
  if (text == "gptq") return Quantization::gptq;
  if (text == "two_factor") return Quantization::two_factor;
  return std::nullopt;
}

bool is_quantised(Quantization kind, bool trainable, const std::vector<std::int64_t>& shape) {
  return kind != Quantization::none && !trainable && shape.size() >= 2;
}

core::Bytes quantised_bytes(Quantization kind, const std::vector<std::int64_t>& shape) {
  const std::int64_t n = count(shape);
  const std::int64_t codes = kind == Quantization::int8 ? n : parts(n, 2);
  return core::Bytes(codes) + decoding_bytes(kind, shape);
}

core::Bytes decoding_bytes(Quantization kind, const std::vector<std::int64_t>& shape) {
  const std::int64_t n = count(shape);
  switch (kind) {
    case Quantization::int8: return core::Bytes(kBytesOfF32 * (n / shape.back()));
    case Quantization::nf4: {
      const std::int64_t blocks = parts(n, kBlock);
      return core::Bytes(blocks + kBytesOfF32 * parts(blocks, kScaleBlock));
    }
    case Quantization::gptq: return core::Bytes(2 * parts(n, kGroup) + parts(parts(n, kGroup), 2));
    case Quantization::two_factor: return core::Bytes(kFactors * kCentroids * kBytesOfF32);
    case Quantization::none: break;
  }
  PLANNER_CHECK(false, "nothing to quantise");
  return {};
}

}  // namespace planner
