#pragma once
// Lowering: model x job x strategy -> Program. Depends on the framework and on the strategy with
// its algorithms resolved, never on the GPU. O(layers + actions of one layer) per pipeline stage.
// Thread-safe (pure).

#include "core/result.hpp"
#include "hw_profiles/profile.hpp"
#include "models/graph.hpp"
#include "planner/job.hpp"
#include "planner/stage/policy.hpp"
#include "planner/strategy.hpp"
#include "sim/program/program.hpp"

namespace planner {

// The strategy with every `auto` decided and every derived key filled in: grad_sync (ring until the
// algorithm model of sim/cost chooses), stages (as even as can be: the search chooses before, by
// cost), shard_group, bucket_bytes, checkpoint_every.
// REQUIRES: valid_strategy.
Strategy resolve(const models::ModelSpec& spec, const Job& job, Strategy strategy);
void resolve_in_place(const models::ModelSpec& spec, Strategy& strategy);

// Every reason why this strategy cannot express the job on `gpus` ranks (empty: none): degrees that
// do not multiply to gpus, divide heads, ffn, layers or the batch; combinations not lowered. The
// problem's `where` is the strategy key. keys_alone: for a search that counts them, most problems
// have no more than that.
core::Problems strategy_problems(const models::ModelSpec& spec, const Job& job,
                                 const Strategy& strategy, std::int64_t gpus,
                                 bool keys_alone = false);

// policy: stage::policy_of(job, framework), of the framework that the graph was made for.
// REQUIRES: strategy_problems is empty. The graph must be built with graph_options().
program::Program lower(const models::ModelGraph& graph, const Job& job, const Strategy& strategy,
                       const stage::Policy& policy);

// What all-reduces gradients. REQUIRES: resolved (automatic counts as ring).
program::Algorithm algorithm_of(GradSync sync);

// How many chunks a model of so many layers fills: where ranks hold several, the first may be the
// embeddings alone and the last the head alone, as of Llama 3 [llama3] section 3.3.2.
inline std::int64_t chunk_places(std::int64_t layers, std::int64_t virtual_stages) {
  return layers + (virtual_stages > 1 ? 2 : 0);
}

// Whether a schedule over `pipeline` ranks can be made of so many micro-batches: interleaved takes
// whole groups of pipeline, zb_h1 at least pipeline, zb_h2 and zb_v 2 pipeline - 1, pipedream one,
// pipedream_2bw at least pipeline.
bool schedule_takes(Schedule schedule, std::int64_t pipeline, std::int64_t micro_batches);

// Whether a rank receives a pass's message before the pass begins, into a landing buffer: not where
// ranks take turns (naive), nor for a single pass.
bool receives_ahead(const Strategy& strategy);

// Whether what a pass sent is released only when the next pass of its kind has computed: where
// passes of one kind follow each other, so that the message travels beside that one.
bool releases_late(const Strategy& strategy);

// Passes of a training stage over its micro-batches.
program::Schedule schedule_of(const Strategy& strategy, int stage, std::int64_t micro_batches);

models::GraphOptions graph_options(const Job& job, const Strategy& strategy,
                                   const hw_profiles::Framework& framework = {});

// `overlap` of a strategy that the framework runs: whether it reduces gradients, and gathers
// sharded weights, beside computing.
bool overlaps(const Job& job, const hw_profiles::Framework& framework);

}  // namespace planner
