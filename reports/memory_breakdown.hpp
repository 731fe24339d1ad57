#pragma once
// `planner explain memory.activations`: a memory term as lines that sum to its figure exactly, from
// the buffers that are alive at the live peak (planner/plan/memory_parts.hpp). Pure; thread-safe.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"
#include "core/result.hpp"
#include "planner/plan/plan.hpp"
#include "reports/text.hpp"

namespace reports {

struct BreakdownLine {
  std::string name;                    // a buffer, or a term
  std::string count;                   // "12 x 24.0 MiB in bf16"; "" for a term
  core::Bytes bytes{};
};
struct Breakdown {
  std::string field;                   // "memory.activations"
  core::Bytes sum{};                   // of the lines: the plan's figure
  std::string when;                    // the moment of the peak, in words
  std::vector<BreakdownLine> lines;    // greatest first
};

// Of "memory.TERM" of the chosen candidate, or "alternatives.N.memory.TERM", for each of the six
// terms, live, reserved, device and host; empty: the field is none of these, or the plan has no
// such candidate.
core::Result<std::optional<Breakdown>> memory_breakdown(const planner::Plan& plan,
                                                        std::string_view field);

std::string breakdown_text(const Breakdown& breakdown, TextStyle style);
core::Json breakdown_json(const Breakdown& breakdown);

}  // namespace reports
