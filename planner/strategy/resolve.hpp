#pragma once
// A strategy with nothing left open. Pure; thread-safe.

#include "models/spec.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

// The strategy with every `auto` decided and every derived key filled in: grad_sync (ring until the
// algorithm model of sim/cost chooses), stages (as even as can be: the search chooses before, by
// cost), shard_group, bucket_bytes, checkpoint_every.
// REQUIRES: valid_strategy.
Strategy resolve(const models::ModelSpec& spec, const Job& job, Strategy strategy);
void resolve_in_place(const models::ModelSpec& spec, Strategy& strategy);

}  // namespace planner
