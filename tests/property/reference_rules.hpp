#pragma once
// What the reference trainer follows: first values, what decays, sums in a stated order, samples.
// Pure.

#include <string>
#include <vector>

#include "exec/interpret/data_source.hpp"
#include "models/graph.hpp"
#include "sim/program/collective.hpp"
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

// Inputs and targets of batch.samples samples from `first` on.
void load(MicroBatch& batch, const exec::DataSource& data, std::int64_t first);

}  // namespace tests
