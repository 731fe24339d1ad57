#pragma once
// Fitted constants written into the data files they belong to, hw_profiles/{data,nodes,frameworks},
// each number with where it comes from; nothing else of a file changes. And
// planner/evaluate/accuracy.json, where datasets were left out.

#include <optional>
#include <string>

#include "core/result.hpp"
#include "planner/evaluate/accuracy.hpp"
#include "reports/fit/fit.hpp"

namespace reports::fit {

// folder: a source tree. Every file is read and made before the first is written,
// each atomically. Errors: a file that is missing, is not JSON or lacks the field's section.
core::Status write_back(const Fitted& fitted, const std::optional<planner::Accuracy>& accuracy,
                        const std::string& folder);

// Only planner/evaluate/accuracy.json, for constants that stay as they are.
core::Status write_accuracy(const Fitted& fitted, const planner::Accuracy& accuracy,
                            const std::string& folder);

}  // namespace reports::fit
