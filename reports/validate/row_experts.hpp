#pragma once
// Internal: the experts of a published run.

#include "core/csv.hpp"
#include "models/spec.hpp"

namespace reports::validation {

// Mixtures of experts, behind dense layers if the row says so. The model has its layers, the width
// of its feed-forward and its family's variants.
void read_experts(const core::CsvRow& row, models::ModelSpec& model, core::Problems& problems);

}  // namespace reports::validation
