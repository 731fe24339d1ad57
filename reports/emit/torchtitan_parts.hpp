#pragma once
// Internal to emit/: what torchtitan's releases have in common, whatever form of configuration they
// read.

#include <string>
#include <string_view>
#include <vector>

#include "reports/emit/parts.hpp"

namespace reports::emit {

void check_for_any_torchtitan(Question& question);

// What the plan counts on that torchtitan does in its own way, whatever its release.
void note_for_any_torchtitan(const Question& question, std::vector<std::string>& notes);

// Samples of a data rank at a time: a micro-batch where there are no stages, and more are added up
// to the global batch.
std::int64_t torchtitan_local_batch(const planner::Strategy& strategy);

// max_norm: one that no norm reaches where gradients are not scaled down.
double torchtitan_norm(const Question& question);

// Its name for one of its own sizes of llama3, "8B"; empty: a size that it does not know.
std::string_view torchtitan_flavor(const models::ModelSpec& model);

// The modules of each chunk of the chain, by torchtitan's names. head: what it calls the matrix of
// the logits.
std::vector<std::vector<std::string>> torchtitan_modules(const std::vector<std::int64_t>& chunks,
                                                         std::string_view head);

// Replicas of shards, and ranks that divide the weights.
struct TorchtitanDegrees {
  std::int64_t replicate = 1, shard = 1;
};
TorchtitanDegrees torchtitan_degrees(const planner::Strategy& s);

}  // namespace reports::emit
