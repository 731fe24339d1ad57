#pragma once
// Policy: who keeps, gathers, reduces and computes again what at a pipeline stage, and when. Each
// rule is a function of the framework's facts and the strategy, stated here alone: the lowering
// follows it action by action and the closed form sums it, so the two cannot part. Pure.

#include <algorithm>
#include <cstdint>
#include <optional>

#include "hw_profiles/profile.hpp"
#include "planner/question/f8_matrix.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner::stage {

// What a framework does with the state of a stage, for this job. What its kernels keep for the
// backward pass is the graph's (models::KeptBeside). The default is our executor's.
struct Policy {
  // A weight gradient that a GEMM added into its buffer is returned as an empty tensor of the
  // weight's shape, kept for the next one of that shape: a layer's, and the embeddings' or head's.
  bool stand_ins = false;
  // All gradients once more, in f32, into which each micro-batch's are added.
  bool wide_gradients = false;
  // Embeddings, last norm and head are one unit, gathered before the forward pass and kept to the
  // end of the backward pass.
  bool root_unit = false;
  // Sharded weights that are not gathered behind the layer before are asked for at its end, and
  // held beside it.
  bool next_unit = false;
  // checkpoint=every_k: of each k layers that a rank holds, counted through all its chunks, the
  // last is computed again, alone; the others keep all. Else segments of k keep their first input.
  bool one_in_k = false;
  // Decoding constants of quantised matrices are no parameters: each rank has them whole.
  bool whole_scales = false;
  // All gradients of a micro-batch, in the weights' type, until its backward pass has ended: a
  // caching allocator gives their blocks to nothing of another size.
  bool pass_gradients = false;
  // A reducer's buckets are buffers beside the gradients, which it copies [ddp].
  bool reducer_buckets = false;
  // Buffers for all rows of a micro-batch into which a rank gathers, with sequence parallelism.
  std::int64_t row_buffers = 0;
  // An update makes a copy of each second moment, of all weights before the first one goes.
  bool update_copies = false;
  // Weights of layers that nothing trains are stored in 8 bits, which products read.
  bool frozen_f8 = false;
  // Weights of layers' products are gathered as 8-bit codes (f8_weights.hpp). The framework stores
  // whole codes in so many orders.
  bool weights_f8 = false;
  std::int64_t f8_orders = 1;
  // Products of layers read copies in 8 bits, which actions of their own make right before. Empty:
  // the framework's kernels cast, and the cost of a product includes it.
  std::optional<F8Scaling> casts_f8{};
  // Of a probe, which lowers operators without the state of their stage: the stage has weights_f8.
  bool reads_codes = false;
  // Rows, and gradients of rows, travel to their experts in 8 bits.
  bool dispatch_f8 = false;
  // Of adapters whose base is sharded, each layer's input is kept twice where it is kept.
  bool adapter_inputs = false;
  friend bool operator==(const Policy&, const Policy&) = default;
};
Policy policy_of(const Job& job, const hw_profiles::Framework& framework);
// The part of a policy that concerns a layer's operators, and not the state of its stage.
inline Policy of_operators(const Policy& policy) {
  return {.casts_f8 = policy.casts_f8, .reads_codes = policy.weights_f8};
}

// Whether gathers wait until adapters of the layer before are done (torch FSDP: two at a time).
bool waits_at_adapters(const Job& job, const hw_profiles::Framework& framework);

// ---- ZeRO: what is divided over the ranks of a shard group [zero]
inline bool shards_weights(const Strategy& s) { return s.sharding == Sharding::zero3; }
inline bool shards_gradients(const Strategy& s) {
  return s.sharding == Sharding::zero2 || s.sharding == Sharding::zero3;
}
// Updated shards of the weights are gathered at the end of a step; ZeRO-3 gathers where it uses.
inline bool gathers_updates(const Strategy& s) {
  return s.sharding == Sharding::zero1 || s.sharding == Sharding::zero2;
}
// The type in which gradients travel between ranks.
inline core::DType reduce_type(const Job& job, const Recipe& recipe) {
  return job.reduce_dtype.value_or(recipe.gradient);
}

// ---- weights in 8 bits
// Codes that an update casts from the master copy are what is stored: in the recipe's 16 bits there
// are none. Without a master copy the stored weights are cast where they are gathered.
inline bool stores_f8(const Policy& policy, const Recipe& recipe) {
  return policy.weights_f8 && recipe.has_master;
}
// Without a master copy only ZeRO-3 gathers codes: other ranks' updates need more than 8 bits.
inline bool can_gather_f8(const Recipe& recipe, const Strategy& s) {
  return recipe.has_master || shards_weights(s);
}
// The type in which kernels read weights, and in which ranks gather them before use.
inline core::DType read_type(const Recipe& recipe, bool f8) {
  return f8 ? core::DType::f8 : recipe.compute;
}
// Of updated weights, which are stored as they are gathered.
inline core::DType stored_type(const Policy& policy, const Recipe& recipe, bool f8) {
  return f8 && stores_f8(policy, recipe) ? core::DType::f8 : recipe.weight;
}

// ---- copies of weights
// Kernels read a cast or gathered copy of the weights.
inline bool materialises(const Recipe& recipe, const Strategy& s) {
  return shards_weights(s) || recipe.weight != recipe.compute;
}
// The next unit is gathered while this one computes; without that, asked for when it is done.
inline bool gathers_ahead(const Strategy& s) { return s.overlap && shards_weights(s); }
inline bool gathers_at_end(const Policy& policy, const Strategy& s) {
  return !s.overlap && policy.next_unit;
}
// Of a training stage that holds whole layers. Not with pipeline stages, which share no root.
inline bool keeps_root(const Policy& policy, const Strategy& s) {
  return policy.root_unit && shards_weights(s) && s.pipeline == 1;
}

// ---- state beside weights, gradients and optimizer
// Wide gradients are a stage's that shards none: of a shard the framework keeps one in f32 alone.
inline bool keeps_wide_gradients(const Policy& policy, const Strategy& s) {
  return policy.wide_gradients && !shards_gradients(s);
}
// Of all trained gradients, in the weights' type.
inline std::int64_t gradient_copies(const Policy& policy, const Strategy& s) {
  if (shards_gradients(s)) return 0;
  const bool reduces = s.sharding == Sharding::none && s.data_ranks() > 1;
  return std::int64_t{policy.pass_gradients} + (policy.reducer_buckets && reduces);
}
// Of an optimizer that keeps a second moment, on the device.
inline bool copies_moments(const Policy& policy, const Strategy& s, const Optimizer& o) {
  const bool device = !s.offloads("optimizer") && !s.offloads("params");
  return policy.update_copies && device && o.second_moments > 0 && !o.quantised &&
         s.grad_sync != GradSync::parameter_server;
}
// Tensors as large as a layer's input that a rank of so many layers holds all the time.
inline std::int64_t inputs_held(const Policy& policy, const Strategy& s, std::int64_t layers) {
  const bool gathers = s.tensor > 1 && s.sequence_parallel;
  const bool twice = policy.adapter_inputs && shards_weights(s) && s.pipeline == 1;
  return (gathers ? policy.row_buffers * s.tensor : 0) + (twice ? layers : 0);
}
// What of a stage's passes its host may be ahead of.
struct StagePasses {
  std::int64_t layers = 0, micro_batches = 1;
  std::int64_t stage = 0, stages = 1;
};
// The most tensors of all rows of a micro-batch that a rank with sequence parallelism has freed on
// the host, and that wait for the communication stream, which is to read them. The allocator cannot
// give them to anybody else before, and holds as much more.
std::int64_t rows_waiting(const hw_profiles::Framework& framework, const StagePasses& passes);
// The type of a layer's frozen weights; those of the embeddings and the head are never narrower
// than the recipe's.
inline core::DType frozen_type(const Policy& policy, const Recipe& recipe, const Strategy& s) {
  return policy.frozen_f8 && !shards_weights(s) ? core::DType::f8 : recipe.compute;
}
inline bool keeps_whole_scales(const Policy& policy, const Strategy& s) {
  return policy.whole_scales && shards_weights(s);
}
// Elements of stand-ins: the largest weight of a layer, of its experts where they are apart, and of
// what no layer holds, which the last stage's head needs.
inline std::int64_t stand_in_elements(std::int64_t layer, std::int64_t experts, std::int64_t other,
                                      bool last) {
  return layer + experts + (last ? other : 0);
}

// ---- recomputation
// every_k: layers that are computed again in one go, from the first one's input.
inline std::int64_t segment_layers(const Policy& policy, const Strategy& s) {
  return s.checkpoint == Checkpoint::every_k && !policy.one_in_k ? s.checkpoint_every : 1;
}
// Whether the rank's l-th layer, the in_chunk-th of its chunk, keeps for its backward pass what its
// forward pass made, or parts.
inline bool keeps_layer(const Policy& policy, const Strategy& s, std::int64_t l,
                        std::int64_t in_chunk) {
  if (s.checkpoint == Checkpoint::first_k) return in_chunk >= s.checkpoint_every;
  if (s.checkpoint == Checkpoint::every_k)
    return policy.one_in_k && (l + 1) % s.checkpoint_every != 0;
  return s.checkpoint != Checkpoint::memory_poor;
}
// So many layers of each `of` are computed again, at most `together` of them in one go. `chunk`:
// layers of a chunk.
struct LayersAgain {
  std::int64_t again = 0, of = 1, together = 0;
};
inline LayersAgain layers_again(const Policy& policy, const Strategy& s, std::int64_t chunk) {
  const std::int64_t k = std::max<std::int64_t>(1, s.checkpoint_every);
  if (s.checkpoint == Checkpoint::first_k) return {std::min(k, chunk), chunk, 1};
  if (s.checkpoint == Checkpoint::every_k && policy.one_in_k) return {1, k, 1};
  if (s.checkpoint == Checkpoint::every_k) return {k, k, k};
  return s.checkpoint == Checkpoint::memory_poor ? LayersAgain{1, 1, 1} : LayersAgain{};
}
// Layers are computed again, and others keep all.
inline bool keeps_some_layers(const Policy& policy, const Strategy& s) {
  return s.checkpoint == Checkpoint::every_k && s.checkpoint_every > 1 && policy.one_in_k;
}

}  // namespace planner::stage
