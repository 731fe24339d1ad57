#pragma once
// Internal: one row of a file of timed collectives (collectives.hpp), read and predicted.

#include <optional>
#include <string>

#include "core/csv.hpp"
#include "reports/validate/collectives.hpp"

namespace reports::validation {

// Reads and predicts one row; the reason where it cannot, empty where the cells themselves are bad.
std::optional<std::string> score_row(const core::CsvRow& cells, CollectiveRow& row,
                                     core::Problems& problems);

}  // namespace reports::validation
