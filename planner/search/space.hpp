#pragma once
// Internal: the space of the search (see search.hpp), as structures: strategies complete but for
// the micro-batch, each with the micro-batches to try, ascending. Pure; thread-safe.

#include <cstdint>
#include <string>
#include <vector>

#include "models/spec.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/pins.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

struct Structure {
  Strategy strategy;
  std::vector<std::int64_t> micro_batches;
  bool shares = false;                 // data ranks take different numbers of them (uneven.hpp)
};

// One way to divide the operators of a graph (Strategy::split, splits).
struct SplitChoice {
  std::int64_t split = 1;
  std::vector<std::string> splits;
};

// Tokens of a sample that context ranks keep unasked: shorter parts make short kernels, and more
// keys come from elsewhere than are a rank's own; what Llama 3 was trained with at 131,072 tokens
// ([llama3] table 4).
constexpr std::int64_t kTokensOfRank = 8192;

struct SpaceOptions {
  std::int64_t gpus = 1;
  std::int64_t gpus_per_node = 1;
  std::int64_t layers = 1;
  std::int64_t experts = 0;            // of a layer
  // Context ranks share a sample unasked where each keeps this many of its tokens; 0: never.
  std::int64_t least_tokens = 0;
  // Context ranks that divide so many key heads exchange heads unasked; 0: they gather keys.
  std::int64_t exchanged_heads = 0;
  bool pointwise = true;               // whether checkpoint=pointwise is tried unasked
  // What checkpoint=modules makes again where nothing says which, and whether it is tried unasked.
  models::ModuleSet modules = 0;
  bool tries_modules = false;
  std::vector<SplitChoice> splits{};   // divisions to try; undivided operators are tried, too
  bool overlap = true;                 // the value unasked (planner::overlaps)
  bool overlap_divided = true;         // the same with a divided optimizer
};

// Only what the constraints admit. A pinned degree that divides nothing still makes a structure, so
// that the reason can be named. O(structures).
std::vector<Structure> structures(const Job& job, const SpaceOptions& options,
                                  const Constraints& constraints);

// The strategy with this micro-batch; grad_accum follows (rounded down, at least 1).
Strategy with_micro_batch(Strategy strategy, std::int64_t micro_batch, std::int64_t global_batch);

}  // namespace planner
