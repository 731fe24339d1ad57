#pragma once
// Internal: one row of a file of timed collectives (collectives.hpp), read and predicted.

#include <optional>
#include <string>
#include <string_view>

#include "core/csv.hpp"
#include "hw_profiles/profile.hpp"
#include "reports/validate/collectives.hpp"
#include "reports/validate/timing.hpp"

namespace reports::validation {

// The shipped GPU that "A100-SXM4 80GB" names: of its family (the longest that fits: H200, not
// H20), on the card that it says (SXM where it says none), of its memory where several are.
std::optional<hw_profiles::Profile> gpu_called(std::string_view text);

// What the row timed; the reason where that is not known, empty where the cells themselves are bad.
std::optional<std::string> read_timing(const core::CsvRow& cells, Timing& timing,
                                       core::Problems& problems);

// Reads and predicts one row; the reason where it cannot, empty where the cells themselves are bad.
std::optional<std::string> score_row(const core::CsvRow& cells, CollectiveRow& row,
                                     core::Problems& problems);

}  // namespace reports::validation
