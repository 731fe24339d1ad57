// The keys of a strategy that follow from others.
#include "planner/strategy/resolve.hpp"

#include <algorithm>

#include "core/check.hpp"
#include "planner/strategy/graph_cut.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner {

// Layers as even as possible; what remains goes to the inner stages first, since the outer ones
// also hold the embeddings and the head.
static std::vector<std::int64_t> even_stages(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(stages), layers / stages);
  if (layers < stages) {  // chunks of a layer, the model's ends without one: the head's first
    std::ranges::fill(counts, 1);
    counts.back() = 0;
    if (layers + 1 < stages) counts.front() = 0;
    return counts;
  }
  std::int64_t rest = layers % stages;
  const std::int64_t first = rest <= stages - 2 ? 1 : 0;
  for (std::int64_t i = first; rest > 0; ++i, --rest) ++counts[static_cast<std::size_t>(i)];
  return counts;
}

Strategy resolve(const models::ModelSpec& spec, const Job& job, Strategy s) {
  (void)job;
  resolve_in_place(spec, s);
  return s;
}

void resolve_in_place(const models::ModelSpec& spec, Strategy& s) {
  const std::int64_t layers = models::layers_of(spec);
  if (s.expert_tensor == s.tensor) s.expert_tensor = 0;
  if (s.shard_group == 1 || s.sharding == Sharding::none) s.shard_group = s.data_ranks();
  // One rank's shard is the whole; unit by unit it still comes from the host.
  if (s.shard_group == 1 && !s.offloads("params")) s.sharding = Sharding::none;
  if (s.sharding == Sharding::none) s.shard_group = 1;
  if (s.grad_sync == GradSync::automatic) s.grad_sync = GradSync::ring;
  const bool placed = s.pipeline <= layers &&
                      s.virtual_stages <= chunk_places(layers, s.virtual_stages) / s.pipeline;
  const bool cut = s.partition == Partition::operators;
  if (cut && s.parts.empty() && spec.family == models::Family::graph && can_cut(spec)) {
    const auto graph = models::build_graph(spec, {});
    PLANNER_CHECK(graph.ok(), "a model whose spec holds has a graph");
    s.parts = cut_operators(*graph, s.micro_batch);
  }
  if (s.stages.empty() && placed && !cut)
    s.stages = even_stages(layers, s.pipeline * s.virtual_stages);
  if (!counts_layers(s.checkpoint)) s.checkpoint_every = 0;
  if (s.checkpoint != Checkpoint::modules) s.recompute_modules = 0;
}

}  // namespace planner
