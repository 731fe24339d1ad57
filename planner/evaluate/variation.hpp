#pragma once
// Variation: how long steps take when ranks and links are slow at random. A number of steps is
// drawn from a seed, each with its slow ranks and weak links, and played by the sweep
// (sim/engine): the distribution of the step. Each is played as if the steps beside it were like
// it. Messages take their predicted time; links are not shared.
//
// Draws depend on seed, kind, rank and step alone. So candidates of as many ranks meet the same
// conditions, and the result is the same on any number of threads. Pure; thread-safe.

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "sim/cost/machine.hpp"
#include "sim/engine/scene.hpp"

namespace planner {

// Each rank begins to be slow in a step with this probability, and stays so for `steps` steps: 1
// is noise, many are a GPU that throttles or a link that flaps.
struct RandomSlow {
  double probability = 0;              // in [0, 1]
  double slowdown = 1;                 // of its kernels, >= 1
  double link_share = 1;               // of its link, in (0, 1]
  std::int64_t steps = 1;
};

struct VariationOptions {
  std::vector<RandomSlow> random{};
  std::vector<engine::Straggler> fixed{};  // in every step
  double jitter = 0;                   // of every kernel (engine::SceneOptions)
  std::uint64_t seed = 1;
  std::int64_t steps = 200;            // to play
  int threads = 0;                     // 0: all there are
  std::function<void(std::string_view)> progress{};
};

// Who is slow in each step: by rank, once each; slowdowns of several kinds multiply, and the least
// share of a link counts. REQUIRES: fixed stragglers are ranks. O(ranks x (steps + longest kind)).
std::vector<std::vector<engine::Straggler>> drawn_conditions(int ranks,
                                                             const VariationOptions& options);

struct Variation {
  std::vector<core::Seconds> steps;    // as drawn
  core::Seconds mean{}, least{}, most{};
  std::int64_t slowed = 0;             // steps in which anybody is slow
  double slow_ranks = 0;               // of a step, on average
};
// Equal conditions are played once. O(unlike conditions x a sweep).
Variation varied_steps(const program::Program& program, const cost::Machine& machine,
                       const VariationOptions& options);

// The least value that at least the share q of `values` is at most equal to. REQUIRES: values are
// not empty, q in (0, 1].
core::Seconds quantile(std::vector<core::Seconds> values, double q);

// A step under these conditions, swept. Of the program's own ranks.
core::Seconds step_with(const program::Program& program, const cost::Machine& machine,
                        const std::vector<engine::Straggler>& stragglers);
// The longest step that one slow rank can cause, of the ranks that differ.
core::Seconds worst_step_with_one(const program::Program& program, const cost::Machine& machine,
                                  double slowdown, double link_share, int threads);

// Operations of the sweep that one drawn step takes: the most of the first few.
double operations_of(const program::Program& program, const cost::Machine& machine,
                     VariationOptions options);

}  // namespace planner
