#pragma once
// Training steps with the kernels of a GPU on its twin, held against the host's and against what
// one rank trains: losses, weights, memory and traffic.

#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include "exec/cuda/backend/platform.hpp"
#include "exec/cuda/twin/twin.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"

namespace tests {

using namespace planner;

inline constexpr std::uint64_t kCudaSeed = 7;
inline constexpr std::int64_t kSteps = 2;

struct Bounds {
  double weights;  // greatest difference over the greatest magnitude, of each parameter
  double updates;  // |difference| / |what training changed|, of all parameters together
};
// The 1e-5, and for what changed: weights near 0.05 have units of 4e-9, updates of two
// steps lie near 1e-5, so rounding the weight alone leaves 4e-4 of them.
inline constexpr Bounds kFloat{1e-5, 2e-3};
inline constexpr Bounds kDouble{1e-12, 1e-9};
// Gradients through L = 4 layers in bf16: 4 x 1.03^(L + 1) x 2^-8 = 0.0182, relative (arXiv
// 2506.09280 theorem 5.3); six micro-batches added up in bf16: 6 x 2^-9 = 0.0117 more. Where the
// stored weight has 16 bits an update lies under its rounding, and the weight alone is held.
inline constexpr Bounds kHalf{0.03, 0.03};
inline constexpr Bounds kHalfStored{0.03, std::numeric_limits<double>::infinity()};

inline std::map<std::string, std::int64_t> launches;  // of the last run on a twin

inline ProgramRun on_twin(const models::ModelSpec& spec, const Job& job, const Strategy& s,
                   std::int64_t steps,
                   exec::cuda::AttentionKernel attention = exec::cuda::AttentionKernel::own,
                   bool gelu_by_products = false,
                   const hw_profiles::Framework& framework = {}) {
  static std::uint64_t order = 0;
  exec::cuda::Twin twin({.seed = ++order});
  INFO("order of streams " << order);
  std::optional<ProgramRun> run;
  {
    exec::cuda::CudaPlatform platform(
        twin, {.attention = attention, .gelu_by_products = gelu_by_products});
    run = run_program(spec, job, s, steps, kCudaSeed,
                      [&](const auto& p, const auto& k, int rank) {
                        return platform.backend(p, k, rank);
                      }, framework);
  }
  CHECK(twin.pending() == 0);
  CHECK(twin.leaked() == 0);
  launches = twin.launches();
  return std::move(*run);
}

inline void compare(const ProgramRun& found, const ProgramRun& expected, const ProgramRun& before,
             const Bounds& bounds) {
  for (std::size_t s = 0; s < expected.losses.size(); ++s)
    CHECK(std::abs(found.losses.at(s) - expected.losses[s]) <=
          bounds.weights * std::abs(expected.losses[s]));
  double off = 0, moved = 0;
  for (const auto& [path, shards] : expected.weights)
    for (std::size_t t = 0; t < shards.size(); ++t) {
      const std::vector<double>& a = found.weights.at(path).at(t);
      const std::vector<double>& b = shards[t];
      const std::vector<double>& start = before.weights.at(path).at(t);
      REQUIRE(a.size() == b.size());
      double error = 0, magnitude = 1e-6;  // a bias that never moved
      for (std::size_t i = 0; i < b.size(); ++i) {
        error = std::isnan(a[i]) ? a[i] : std::max(error, std::abs(a[i] - b[i]));
        magnitude = std::max(magnitude, std::abs(b[i]));
        off += (a[i] - b[i]) * (a[i] - b[i]);
        moved += (b[i] - start[i]) * (b[i] - start[i]);
      }
      INFO(path);
      CHECK(error <= bounds.weights * magnitude);
    }
  CHECK(moved > 0);
  INFO("of the update: " << std::sqrt(off / moved));
  CHECK(off <= bounds.updates * bounds.updates * moved);
}

inline void check(const models::ModelSpec& spec, Job job, const Strategy& s, const Bounds& bounds,
           exec::cuda::AttentionKernel attention = exec::cuda::AttentionKernel::own,
           bool gelu_by_products = false) {
  // AdamW would turn the rounding of gradients that are zero into whole steps.
  if (job.optimizer == OptimizerKind::adamw) job.optimizer = OptimizerKind::momentum;
  INFO(spec.name << " " << to_text(s) << " " << job.recipe << " lora=" << job.lora_rank);
  const ProgramRun found = on_twin(spec, job, s, kSteps, attention, gelu_by_products);
  CHECK(found.replicas_agree);
  check_prediction(found);
  const ProgramRun before = run_program(spec, job, s, 0, kCudaSeed);
  compare(found, run_program(spec, job, s, kSteps, kCudaSeed), before, bounds);
  if (s.tensor > 1) return;
  const Strategy single = strategy(1, job.global_batch, 1);
  const ProgramRun alone = run_program(spec, job, single, kSteps, kCudaSeed);
  compare(found, alone, run_program(spec, job, single, 0, kCudaSeed), bounds);
}

inline void check_gpt(const Strategy& s, const std::string& recipe = "fp32",
               const Bounds& bounds = kFloat) {
  check(tiny_gpt(), tiny_job(tiny_gpt(), 12, recipe), s, bounds);
}

}  // namespace tests
