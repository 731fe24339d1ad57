#pragma once
// What the reference trainer follows: first values, what decays, sums in a stated order, samples.
// Pure.

#include <string>
#include <vector>

#include "exec/host/optimizers.hpp"
#include "exec/interpret/data_source.hpp"
#include "models/graph.hpp"
#include "planner/question/job.hpp"
#include "sim/program/collective.hpp"
#include "sim/program/program.hpp"
#include "tests/property/reference_model.hpp"

namespace tests {

// Biases and norms: no weight decay.
bool is_vector(const std::string& path);
// Elements of what a sample arrives as, and of what the loss compares its result with.
struct SampleSizes {
  bool tokens = true, classes = true;  // i32 tokens, not features; i32 classes, not features
  std::int64_t in = 1, out = 1;
};
SampleSizes sample_sizes(const models::ModelSpec& spec, std::int64_t seq_len);
// First values as the published recipes have them: nothing of the graph's builders.
models::Parameter describe(const models::ModelSpec& spec, const std::string& path,
                           std::int64_t elements);

// sum[offset, offset + n) of the parts in the stated order, chunk by chunk; the parts are used up.
void fold(std::vector<Typed>& parts, program::Algorithm a, std::int64_t offset, std::int64_t n,
          Typed& sum);

// The same of every shard of every span, by rings over replicas.
void fold_shards(std::vector<Typed>& parts, const program::RankClass& layout, Typed& sum);

// A frozen matrix that is kept as codes: what decoding makes of them, in the compute type.
Typed rounded_to_codes(const models::ModelSpec& spec, const planner::Job& job,
                       const program::PlacedParameter& placed, std::uint64_t seed);

// Zeros of the optimizer's state of n elements; scales are those of quantised slots.
void open_slots(const planner::Job& job, const planner::Recipe& recipe, std::int64_t n,
                std::vector<Typed>& slots, std::vector<Typed>& scales);

// Whether any gradient overflowed decides; the norm itself does not matter without --clip.
exec::host::LossScaleState next_loss_scale(const exec::host::LossScaleState& state,
                                           const planner::Job& job,
                                           std::vector<Typed>& gradients);

// Inputs and targets of batch.samples samples from `first` on.
void load(MicroBatch& batch, const exec::DataSource& data, std::int64_t first);

}  // namespace tests
