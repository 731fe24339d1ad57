#include "exec/host/matrix_codes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "exec/host/convert.hpp"
#include "exec/host/quantise.hpp"
#include "exec/host/two_factor.hpp"

namespace exec::host {
namespace {

using planner::Quantization;

constexpr std::int64_t kF32 = sizeof(float);
constexpr std::int64_t kBlock = 64;            // weights that share a scale (nf4)
constexpr float kMostCode = 127.0F;

constexpr std::array<float, 16> kLevels{
    -1.0F,          -0.6961928010F, -0.5250730515F, -0.3949174881F, -0.2844413817F, -0.1847734302F,
    -0.0910500363F, 0.0F,           0.0795802996F,  0.1609302014F,  0.2461123019F,  0.3379152417F,
    0.4407098293F,  0.5626170039F,  0.7229568362F,  1.0F};

std::int64_t parts(std::int64_t n, std::int64_t size) { return (n + size - 1) / size; }

// The codes may lie anywhere, so their floats are copied.
float float_at(const std::byte* at) {
  float x = 0;
  std::memcpy(&x, at, sizeof x);
  return x;
}
void put_float(std::byte* at, float x) { std::memcpy(at, &x, sizeof x); }

float greatest(std::span<const float> x) {
  float most = 0;
  for (const float v : x) most = std::max(most, std::abs(v));
  return most;
}

void encode_rows(std::span<const float> values, std::int64_t columns, std::byte* codes) {
  const auto n = static_cast<std::int64_t>(values.size());
  for (std::int64_t r = 0; r < n / columns; ++r) {
    const auto row = values.subspan(static_cast<std::size_t>(r * columns),
                                    static_cast<std::size_t>(columns));
    const float scale = greatest(row) / kMostCode, divisor = scale > 0 ? scale : 1.0F;
    for (std::int64_t i = 0; i < columns; ++i) {
      const float code = std::ceil(row[static_cast<std::size_t>(i)] / divisor - 0.5F);
      codes[r * columns + i] = static_cast<std::byte>(static_cast<std::int8_t>(
          std::clamp(code, -kMostCode, kMostCode)));
    }
    put_float(codes + n + r * kF32, scale);
  }
}

void decode_rows(const std::byte* codes, View y, std::int64_t n, std::int64_t rows) {
  const std::int64_t columns = n / rows;
  for (std::int64_t r = 0; r < rows; ++r) {
    const float scale = float_at(codes + n + r * kF32);
    for_chunks(columns, [&](std::int64_t c, std::int64_t m) {
      float x[kChunk];
      const std::byte* const from = codes + r * columns + c;
      for (std::int64_t i = 0; i < m; ++i)
        x[i] = scale * static_cast<float>(static_cast<std::int8_t>(from[i]));
      store(y.at(r * columns + c), m, x);
    });
  }
}

// Where the pieces of nf4 begin.
struct Pieces {
  explicit Pieces(std::int64_t n) : blocks(parts(n, kBlock)), scales(parts(n, 2)),
                                    tops(scales + blocks) {}
  std::int64_t blocks, scales, tops;
};

// The scales of blocks [first, first + at most 256), decoded.
std::array<float, kQuantBlock> block_scales(const std::byte* codes, const Pieces& at,
                                            std::int64_t first) {
  std::array<float, kQuantBlock> scale{};
  dequantise(unsigned_map(), reinterpret_cast<const std::uint8_t*>(codes + at.scales + first),
             float_at(codes + at.tops + first / kQuantBlock * kF32),
             std::min(kQuantBlock, at.blocks - first), scale.data());
  return scale;
}

std::uint8_t nearest_level(float x) {
  std::uint8_t best = 0;
  for (std::uint8_t i = 1; i < kLevels.size(); ++i)
    if (std::abs(x - kLevels[i]) < std::abs(x - kLevels[best])) best = i;
  return best;
}

void encode_blocks(std::span<const float> values, std::byte* codes) {
  const auto n = static_cast<std::int64_t>(values.size());
  const Pieces at(n);
  std::array<float, kQuantBlock> scale{};  // as decoding will find them
  std::vector<float> exact;
  for (std::int64_t b = 0; b < at.blocks; ++b)
    exact.push_back(greatest(values.subspan(
        static_cast<std::size_t>(b * kBlock),
        static_cast<std::size_t>(std::min(kBlock, n - b * kBlock)))));
  for (std::int64_t b = 0; b < at.blocks; b += kQuantBlock)
    put_float(codes + at.tops + b / kQuantBlock * kF32,
              quantise(unsigned_map(), exact.data() + b, std::min(kQuantBlock, at.blocks - b),
                       reinterpret_cast<std::uint8_t*>(codes + at.scales + b)));
  std::fill_n(codes, at.scales, std::byte{0});
  for (std::int64_t i = 0; i < n; ++i) {
    const std::int64_t block = i / kBlock % kQuantBlock;
    if (i % (kBlock * kQuantBlock) == 0) scale = block_scales(codes, at, i / kBlock);
    const float s = scale[static_cast<std::size_t>(block)];
    const float x = values[static_cast<std::size_t>(i)] / (s > 0 ? s : 1.0F);
    codes[i / 2] |= static_cast<std::byte>(nearest_level(x) << (i % 2 * 4));
  }
}

void decode_blocks(const std::byte* codes, View y, std::int64_t n) {
  const Pieces at(n);
  for (std::int64_t group = 0; group < at.blocks; group += kQuantBlock) {
    const std::array<float, kQuantBlock> scale = block_scales(codes, at, group);
    for (std::int64_t b = 0; b < std::min(kQuantBlock, at.blocks - group); ++b) {
      const std::int64_t first = (group + b) * kBlock, m = std::min(kBlock, n - first);
      float x[kBlock];
      for (std::int64_t i = 0; i < m; ++i) {
        const auto both = std::to_integer<unsigned>(codes[(first + i) / 2]);
        x[i] = kLevels[both >> (i % 2 * 4) & 15U] * scale[static_cast<std::size_t>(b)];
      }
      store(y.at(first), m, x);
    }
  }
}

}  // namespace

const std::array<float, 16>& nf4_levels() { return kLevels; }

void encode_matrix(Quantization kind, std::span<const float> values,
                   const std::vector<std::int64_t>& shape, void* codes) {
  auto* const out = static_cast<std::byte*>(codes);
  if (kind == Quantization::int8) return encode_rows(values, shape.back(), out);
  if (kind == Quantization::two_factor) return encode_two_factor(values, out);
  PLANNER_CHECK(kind == Quantization::nf4, "no codes for this quantisation");
  encode_blocks(values, out);
}

void decode_matrix(Quantization kind, const void* codes, View y, std::int64_t n,
                   std::int64_t bytes) {
  const auto* const in = static_cast<const std::byte*>(codes);
  if (kind == Quantization::int8) return decode_rows(in, y, n, (bytes - n) / kF32);
  if (kind == Quantization::two_factor) return decode_two_factor(in, y, n);
  PLANNER_CHECK(kind == Quantization::nf4, "no codes for this quantisation");
  decode_blocks(in, y, n);
}

}  // namespace exec::host
