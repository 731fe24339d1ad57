#pragma once
// Why a prediction may be off, told from the runs beside it: those of the same dataset, model,
// GPU and framework that differ in the fewest respects. If they are off alike, what they share is
// modelled wrongly; if not, either the respect in which they differ is, or this run is odd. No
// knowledge of single rows. Pure.

#include <string>
#include <vector>

#include "reports/validate/score.hpp"

namespace reports::validation {

// One sentence. `errors` are the relative errors of the rows' times, aligned with `rows`; empty
// where a row is not timed. O(rows).
std::string explanation_of(std::size_t row, const std::vector<Predicted>& rows,
                           const std::vector<std::optional<double>>& errors);

// The same of memory, by the rows whose memory was measured.
std::vector<std::optional<double>> time_errors(const std::vector<Predicted>& rows);
std::vector<std::optional<double>> memory_errors(const std::vector<Predicted>& rows);

}  // namespace reports::validation
