#pragma once
// Linear biases of attention [alibi]: slope x (key - query) is added to a score, of their places in
// the sequence and a slope of the head's own. kernels.hpp adds them. Pure values.

#include <cstdint>

namespace exec::host {

// Of one head of so many, as MPT has it: 2^(-8 i / n) of i = 1 .. n for n heads, n a power of two;
// of other counts, those of the next such n with even i, then those with odd i.
double alibi_slope(std::int64_t head, std::int64_t heads);

// Where rows stand: the first `early` at early_at and on, the others at late_at and on.
struct Places {
  std::int64_t early = 0, early_at = 0, late_at = 0;
  std::int64_t of(std::int64_t row) const {
    return row < early ? early_at + row : late_at + row - early;
  }
};

// Of the heads [first_head, ...) of all_heads; 0: attention has no biases.
struct LinearBiases {
  std::int64_t first_head = 0, all_heads = 0;
  Places queries, keys;                // by row of each
};

}  // namespace exec::host
