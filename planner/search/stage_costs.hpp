#pragma once
// Internal: what layers, embeddings and head cost on a machine, read off the actions of a few
// layers that are lowered; for the stage divider (stage_divider.hpp). Pure; thread-safe.

#include <optional>
#include <vector>

#include "models/graph.hpp"
#include "planner/evaluate/closed_form/pieces.hpp"
#include "planner/evaluate/evaluate.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/search/stages.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

// Parameters of a segment on one rank, unsharded.
struct HeldParameters {
  double trained = 0, frozen = 0;      // elements
  double divisible = 0;                // trained by all ranks of the data group between them
  double codes = 0;                    // bytes of quantised ones
};

// Without recomputation, and without the parameters' state and copies.
struct StageCosts {
  // Layers that are alike have one entry in loads.layers, `layers` and `forward`: the same one.
  StageLoads loads;
  std::vector<HeldParameters> layers;
  HeldParameters embeddings, head;
  std::vector<std::int64_t> forward;   // picoseconds of the forward pass
  std::vector<int> entries;            // of each layer; empty: all have the first
  std::int64_t boundary = 0;           // bytes of the largest boundary tensor
};

// A few layers and the model's ends on one rank, lowered once; micro-batches of another size are
// that Program rescaled. Reductions of gradients, which are not a layer's, come after the passes.
class StageProbe {
 public:
  // probe: as of lower(). The Program is valid until the next call. REQUIRES: each call but for
  // micro_batch as the first.
  const program::Program& at(const Question& question, const models::ModelGraph& graph,
                             const Strategy& strategy, std::int64_t micro_batch,
                             std::int64_t layers, std::optional<LayerProbe> probe = {});

 private:
  std::optional<program::Program> program_;
};

// How many micro-batches a probe needs. With expert_overlap, the kernels of one micro-batch hide
// the exchanges of the next, and only those of the first are not hidden.
std::int64_t hidden_beside(const Strategy& s);

// The same of the pieces that the closed form reads off its own probes (closed_form/pieces.hpp), on
// its first machine, at the micro-batch that they are of.
StageCosts costs_of_pieces(const Question& q, const models::ModelGraph& graph,
                           const closed_form::Forms& forms);

// On the question's machine. probes: by template, of strategies that differ in micro_batch alone.
StageCosts costs_of(const Question& q, const models::ModelGraph& graph, const Strategy& s,
                    std::int64_t micro_batch, std::vector<StageProbe>& probes);

}  // namespace planner
