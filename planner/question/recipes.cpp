#include <array>

#include "planner/question/job.hpp"

namespace planner {
namespace {

using core::DType;
constexpr std::optional<DType> kSame = std::nullopt;  // compute reads the stored weight

// One row of the design's table of recipes.
struct Row {
  std::string_view name;
  DType weight;
  std::optional<DType> compute;
  std::optional<DType> master;
  DType gradient, first_moment, second_moment, activation, statistic;
};

constexpr DType kF64 = DType::f64, kF32 = DType::f32, kB16 = DType::bf16;
// Where a row says bf16 and takes_half, the job's own 16-bit type is put in its place.
constexpr std::array<Row, 8> kRows{{
    // name       weight compute master   gradient  m     v     activation statistic
    {"fp32",      kF32, kSame, std::nullopt, kF32, kF32, kF32, kF32, kF32},
    {"mixed",     kB16, kSame, kF32,         kB16, kF32, kF32, kB16, kF32},
    {"lean",      kF32, kB16,  std::nullopt, kB16, kB16, kF32, kB16, kF32},
    {"megatron",  kB16, kSame, kF32,         kF32, kF32, kF32, kB16, kF32},
    {"megatron_bf16_moments",
                  kB16, kSame, kF32,         kF32, kB16, kB16, kB16, kF32},
    {"fsdp2",     kF32, kB16,  std::nullopt, kF32, kF32, kF32, kB16, kF32},
    {"pure_bf16", kB16, kSame, std::nullopt, kB16, kB16, kB16, kB16, kF32},
    {"fp64",      kF64, kSame, std::nullopt, kF64, kF64, kF64, kF64, kF64},
}};

constexpr std::array<std::string_view, kRows.size()> kNames = [] {
  std::array<std::string_view, kRows.size()> names{};
  for (std::size_t i = 0; i < kRows.size(); ++i) names[i] = kRows[i].name;
  return names;
}();

const Row* find_row(std::string_view name) {
  for (const Row& row : kRows)
    if (row.name == name) return &row;
  return nullptr;
}

bool takes_half(const Row& row) {
  return row.name == "mixed" || row.name.starts_with("megatron") || row.name == "fsdp2";
}

double bytes(DType type) { return core::bits(type) / 8.0; }

}  // namespace

std::span<const std::string_view> recipe_names() { return kNames; }

std::optional<Recipe> resolve_recipe(std::string_view name, DType half) {
  const Row* row = find_row(name);
  if (row == nullptr) return std::nullopt;
  // fp8 and nvfp4 are a matter of GEMMs, which read copies; nothing is stored in them.
  const bool swaps = takes_half(*row) && !is_narrow(half);
  const auto resolved = [&](DType t) { return swaps && t == DType::bf16 ? half : t; };
  return Recipe{.name = std::string(row->name),
                .weight = resolved(row->weight),
                .compute = resolved(row->compute.value_or(row->weight)),
                .has_master = row->master.has_value(),
                .master = row->master.value_or(row->weight),
                .gradient = resolved(row->gradient),
                .first_moment = row->first_moment,
                .second_moment = row->second_moment,
                .activation = resolved(row->activation),
                .statistic = row->statistic};
}

bool recipe_accepts(std::string_view name, DType half) {
  const Row* row = find_row(name);
  if (row == nullptr) return false;
  if (is_narrow(half)) return row->compute.value_or(row->weight) == DType::bf16;
  return half == DType::bf16 || (half == DType::f16 && takes_half(*row));
}

double state_bytes_per_parameter(const Recipe& recipe, const Optimizer& optimizer) {
  constexpr double kBlock = 256;  // elements that share one f32 scale in adam8bit
  const double quantised = 1 + bytes(DType::f32) / kBlock;
  const double m = optimizer.quantised ? quantised : bytes(recipe.first_moment);
  const double v = optimizer.quantised ? quantised : bytes(recipe.second_moment);
  return bytes(recipe.weight) + bytes(recipe.gradient) +
         (recipe.has_master ? bytes(recipe.master) : 0.0) + optimizer.first_moments * m +
         optimizer.second_moments * v;
}

}  // namespace planner
