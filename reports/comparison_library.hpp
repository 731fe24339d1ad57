#pragma once
// Compares the NCCL calls that a plan assumes with those that a run reported. Internal. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "reports/comparison.hpp"
#include "sim/program/library_calls.hpp"

namespace reports {

// Adds the terms of one key ("gradients.all_reduce") to the comparison, and a sentence where the
// two differ. Nothing where NCCL told of no call of that key: another carrier, or own kernels.
void add_library(const std::string& key, const std::vector<program::LibraryCalls>& planned,
                 const std::vector<program::LibraryCalls>& ran, Comparison& comparison);

}  // namespace reports
