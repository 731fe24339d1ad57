#pragma once
// Internal to imports/: the small languages in which Megatron-LM says what its layers are and where
// its stages begin. Pure; thread-safe.

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace reports::imports {

// --moe-layer-freq, --no-rope-freq: which of the layers have it. "([0]*3+[1]*1)*9" says it layer by
// layer; a number N that every N-th has it. every_nth: from which layer on N counts: the first of N
// (experts), or the last (no rotation). Nothing: not of that language, or of another length.
enum class EveryNth : std::uint8_t { first, last };
std::optional<std::vector<bool>> layer_pattern(std::string_view text, std::int64_t layers,
                                               EveryNth every_nth);

// --pipeline-model-parallel-layout "Et*4|t*5|t*3L": decoder layers of each chunk, in the model's
// order. others: whether a module for multi-token prediction stands before the last chunk.
struct Layout {
  std::vector<std::int64_t> layers;
  bool others = false;
};
std::optional<Layout> pipeline_layout(std::string_view text);

}  // namespace reports::imports
