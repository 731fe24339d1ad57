#pragma once
// Which tokens of a sample a context rank has. Under a causal mask later rows see more keys, so
// each rank has two runs of rows, one as far from the start as the other is from the end [llama3]
// section 3.3.2: with as many rows in each run, the ranks see equally many keys. Of c ranks with r
// rows each, rank i has the i-th of c runs of r/2 (rounded down), then the i-th from the end of c
// runs of the rest. Pure values.

#include <algorithm>
#include <array>
#include <cstdint>

namespace program {

// Consecutive rows at consecutive positions of the sequence; rows 0: none.
struct RowRun {
  std::int64_t row = 0, rows = 0, position = 0;
};

struct SequenceSlice {
  std::int64_t rows = 1;               // of this rank
  int index = 0, ranks = 1;

  std::int64_t early_rows() const { return ranks == 1 ? rows : rows / 2; }
  // Both runs of the rows [first, first + count), ascending.
  std::array<RowRun, 2> runs(std::int64_t first, std::int64_t count) const {
    const std::int64_t early = early_rows(), late = rows - early;
    const std::int64_t split = std::clamp(early, first, first + count);
    const std::int64_t late_at = early * ranks + late * (ranks - 1 - index) - early;
    return {{{first, split - first, index * early + first},
             {split, first + count - split, late_at + split}}};
  }
  std::array<RowRun, 2> runs() const { return runs(0, rows); }
};

}  // namespace program
