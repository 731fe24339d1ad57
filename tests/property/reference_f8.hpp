#pragma once
// What products of the reference multiply where a job's precision is fp8: every element rounded to
// 8 bits, walked tile by tile. Knows nothing of codes, of their order or of where scales lie. Pure.

#include <optional>
#include <string>

#include "planner/question/f8_matrix.hpp"
#include "tests/property/reference_model.hpp"

namespace tests {

struct F8Reading {
  planner::F8Scaling scaling{};
  planner::F8Operand operand{};
  bool sums_rows = false;              // the product sums over rows, not over columns
  std::int64_t samples = 1, rows = 1, columns = 1;  // rows: of all samples
};

// The elements, f32.
Typed rounded_to_f8(exec::host::View v, const F8Reading& reading);

// Whether the product of that weight is in 8 bits: not a router's, not an adapter's.
bool multiplies_in_f8(const std::string& weight, std::int64_t n, std::int64_t k);

}  // namespace tests
