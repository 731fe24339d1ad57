#pragma once
// The share of its computing time that a GPU spends in products. They draw the most power, so the
// greater their share, the lower the clock of a card at its power limit. Pure; thread-safe.

#include "hw_profiles/profile.hpp"
#include "models/spec.hpp"
#include "planner/question/job.hpp"

namespace planner {

// In (0, 1], of a sample's forward and backward pass on one rank, from FLOPs, bytes and the
// profile's rates; the optimizer and communication are left out. 1 where the profile states no
// native.gemm_sustained or its framework has other kernels: nothing depends on it there.
// O(operators), one graph is built.
double product_share(const hw_profiles::Profile& profile, const Job& job,
                     const models::ModelSpec& model);

}  // namespace planner
