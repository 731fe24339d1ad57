#include <array>

#include "core/check.hpp"
#include "planner/question/job.hpp"

namespace planner {
namespace {

// State per parameter by optimizer (founding facts M14); names as users write them.
// kind, name, m-like slots, v-like slots, quantised. In the order of OptimizerKind.
constexpr std::array<Optimizer, 9> kOptimizers{{
    {OptimizerKind::sgd, "sgd", 0, 0, false},
    {OptimizerKind::momentum, "momentum", 1, 0, false},
    {OptimizerKind::adagrad, "adagrad", 0, 1, false},
    {OptimizerKind::rmsprop, "rmsprop", 0, 1, false},
    {OptimizerKind::adadelta, "adadelta", 0, 2, false},
    {OptimizerKind::adam, "adam", 1, 1, false},
    {OptimizerKind::adamw, "adamw", 1, 1, false},
    {OptimizerKind::amsgrad, "amsgrad", 1, 2, false},
    {OptimizerKind::adam8bit, "adam8bit", 1, 1, true},
}};

}  // namespace

std::span<const Optimizer> optimizers() { return kOptimizers; }

const Optimizer& optimizer(OptimizerKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  PLANNER_CHECK(index < kOptimizers.size() && kOptimizers[index].kind == kind);
  return kOptimizers[index];
}

std::optional<OptimizerKind> optimizer_from_name(std::string_view text) {
  for (const Optimizer& o : kOptimizers)
    if (o.name == text) return o.kind;
  return std::nullopt;
}

}  // namespace planner
