#pragma once
// Why a strategy cannot express a job: the rules of all keys. Pure; thread-safe.

#include "core/result.hpp"
#include "models/spec.hpp"
#include "planner/question/job.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

// Every reason why this strategy cannot express the job on `gpus` ranks (empty: none): degrees that
// do not multiply to gpus, divide heads, ffn, layers or the batch; combinations not lowered. The
// problem's `where` is the strategy key. keys_alone: for a search that counts them, most problems
// have no more than that.
core::Problems strategy_problems(const models::ModelSpec& spec, const Job& job,
                                 const Strategy& strategy, std::int64_t gpus,
                                 bool keys_alone = false);

}  // namespace planner
