#pragma once
// One timed communication of nccl-tests' kinds, and what the cost model says of it. Sizes and bus
// bandwidths follow nccl-tests (doc/PERFORMANCE.md there): S is the full vector of an all-reduce,
// the total gathered or scattered size, and what one rank holds of an all-to-all. Pure.

#include <optional>
#include <string>
#include <string_view>

#include "core/units.hpp"
#include "sim/cost/fabric.hpp"
#include "sim/program/collective.hpp"

namespace reports::validation {

struct Pattern {
  enum class Kind { collective, message, exchange };
  std::string_view name;               // "all_reduce", as nccl-tests' programs begin
  Kind kind = Kind::collective;
  program::Collective collective = program::Collective::all_reduce;  // of Kind::collective
};
// "all_reduce", "all_reduce_perf"; empty: none of the six that are known.
std::optional<Pattern> pattern_called(std::string_view name);
// The known names, for messages.
std::string pattern_names();

struct Timing {
  Pattern pattern;
  int gpus = 0, nodes = 1;             // as many GPUs on each node
  core::Bytes bytes{};                 // S
  core::Seconds time{};                // measured
};

// Bus bandwidth over algorithm bandwidth S / time.
double bus_factor(const Pattern& pattern, int gpus);

struct PredictedTiming {
  core::Seconds time{};
  std::string choice;                  // "ring LL128"; "message", "exchange"
};
// `paired`: two ranks that share a bridge.
PredictedTiming predicted_timing(const Timing& timing, const cost::Fabric& fabric, bool paired);

}  // namespace reports::validation
