#pragma once
// What the reference trainer follows: first values, what decays, sums in a stated order. Pure.

#include <string>
#include <vector>

#include "models/graph.hpp"
#include "sim/program/collective.hpp"
#include "tests/property/reference_model.hpp"

namespace tests {

// Biases and norms: no weight decay.
bool is_vector(const std::string& path);
// First values as the published recipes have them: nothing of the graph's builders.
models::Parameter describe(const models::ModelSpec& spec, const std::string& path,
                           std::int64_t elements);

// sum[offset, offset + n) of the parts in the stated order, chunk by chunk; the parts are used up.
void fold(std::vector<Typed>& parts, program::Algorithm a, std::int64_t offset, std::int64_t n,
          Typed& sum);

}  // namespace tests
