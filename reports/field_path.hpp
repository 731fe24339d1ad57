#pragma once
// Internal: a question's dotted path followed through the JSON of a plan. Lists are addressed by
// index ("alternatives.2.memory.weights"), entries of communication also by name
// ("communication.gradients.all_reduce.count"); a path that does not start with a field of the plan
// is one of the chosen candidate. Pure; thread-safe.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json.hpp"

namespace reports {

struct FieldPath {
  const core::Json* value = nullptr;
  const core::Json* candidate = nullptr;  // that the value belongs to; null: to the plan
  const core::Json* entry = nullptr;      // of communication, when it is of one
  // What formulas call it: without the candidate and without indices; "memory.stages.0.live" is
  // "memory.live", "rejected.3.strategy.data" is "strategy.data".
  std::string canonical;
};

// REQUIRES: plan outlives the answer.
std::optional<FieldPath> follow(const core::Json& plan, std::string_view path);
// The same field name within what `from` belongs to: its candidate, its entry, else the plan.
const core::Json* sibling(const core::Json& plan, const FieldPath& from, std::string_view name);

// Parts of a text between separators; empty ones are left out.
std::vector<std::string_view> split_parts(std::string_view text, char separator);

// Dotted names that may be asked for: every scalar of the plan and of its chosen candidate.
std::vector<std::string> askable_fields(const core::Json& plan);

}  // namespace reports
