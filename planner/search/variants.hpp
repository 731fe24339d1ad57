#pragma once
// Internal: what finalists try beside the space of the search: values of keys that would make the
// space many times as large, or that the closed form does not describe. Pure; thread-safe.

#include <vector>

#include "planner/evaluate/evaluate.hpp"
#include "planner/search/space.hpp"
#include "planner/strategy/pins.hpp"
#include "planner/strategy/strategy.hpp"

namespace planner {

// Of the head and its loss, where the framework can: an eighth of the logits is little beside what
// else a rank holds, and each more makes its products smaller.
inline constexpr std::int64_t kLossChunks = 8;
bool may_chunk_loss(const Question& question);

// A change of a key is made where it saves so much of the step: less is far inside of any
// prediction's error, and not worth a setting that nobody else has.
inline constexpr double kWorth = 0.005;

struct Variant {
  Strategy strategy;
  // The closed form tells it from what it came from; others are lowered to know.
  bool foreseen = true;
};

// The strategy with one key changed (and what follows from it: zb_v has two chunks, what a smaller
// loss leaves of the memory may take a larger micro-batch), each as often as its values make a
// difference. Not all of them hold (strategy_problems); stages are auto where the change divides
// them anew. best: the step of the fastest finalist.
std::vector<Variant> variants(const Candidate& candidate, core::Seconds best,
                              const Question& question);

// The structures of a space with their loss in chunks: where nothing fits, the logits may be what
// is too much. Empty where the framework or the model cannot. O(plain).
std::vector<Structure> with_loss_chunks(const std::vector<Structure>& plain,
                                        const Question& question, const Constraints& constraints);

}  // namespace planner
