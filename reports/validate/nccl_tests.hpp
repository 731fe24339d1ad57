#pragma once
// What nccl-tests print (NVIDIA/nccl-tests, src/common.cu): a comment line for each rank with its
// host and GPU, then a row for each size. The time used is the out-of-place one; rows that count
// wrong values are an error. Pure.

#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "reports/validate/timing.hpp"

namespace reports::validation {

struct TimedCollectives {
  std::vector<Timing> timings;
  std::string gpu;                     // as the driver calls it; of a CSV its column; may be empty
  core::Problems problems;             // of rows of a CSV that were not used
};

// Either such an output, or a CSV of timings (collectives.hpp) with the columns n_gpus, nodes,
// collective, bytes, and time_us or busbw_GBps; other columns are not needed. The collective of an
// output is named by its own line "Collective test starting: all_reduce_perf", which releases since
// 2.17 print, or by the start of the file's name. Errors: no such name, no line for a rank, hosts
// with different numbers of ranks, no row; in an output, rows that do not read or that have wrong
// values.
core::Result<TimedCollectives> read_timed_collectives(std::string_view text,
                                                      std::string_view file);

}  // namespace reports::validation
