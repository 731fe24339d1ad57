#pragma once
// Which part of a step a trace shows. Asked for by --ranks and --micro-batches; what is not asked
// for is chosen so that a browser opens the file, by the first of these that fits:
//   1. every rank up to 64 (of more, one of each that behave alike), every micro-batch;
//   2. one rank of each that behave alike, every micro-batch;
//   3. those ranks, and of the micro-batches as many as fit from the first on;
//   4. one micro-batch, and of those ranks as many as fit from the first on, at least one.
// What begins and ends a step (gradients exchanged at its end, the optimizer) is always shown.
// Pure; thread-safe.

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/range.hpp"
#include "core/result.hpp"
#include "sim/program/trace_file.hpp"

namespace program {

// What a browser opens without trouble.
inline constexpr std::size_t kBrowserBytes = 32'000'000;
inline constexpr std::size_t kMostRanksTraced = 64;

using IndexRanges = std::vector<core::IntRange>;  // ascending, none touches another
bool has(const IndexRanges& ranges, std::int64_t index);

// "0,3,8-11", "0..3", "8.." (to the last), "all". Problems name the option.
core::Result<IndexRanges> parse_index_ranges(std::string_view text, std::string_view option);
IndexRanges ranges_of(const std::vector<int>& indices);
// "0, 3, 8 to 11".
std::string to_text(const IndexRanges& ranges);

struct TraceChoice {
  std::optional<IndexRanges> ranks{}, micro_batches{};  // asked for
  TraceFormat format = TraceFormat::json;
  std::size_t most_bytes = kAnySize;   // where something is left to choose
  std::size_t most_bytes_asked = 1'000'000'000;  // viewers give up at about as much
  std::size_t most_ranks = kMostRanksTraced;
};

// What there is to show.
struct TraceSubject {
  std::int64_t ranks = 0;
  std::vector<int> unlike{};           // ascending: one rank of each that behave alike
  std::int64_t micro_batches = 0;
};

struct TraceScope {
  std::vector<int> ranks{};            // ascending
  IndexRanges micro_batches{};
  std::int64_t of_ranks = 0, of_micro_batches = 0;  // that there are
  bool all_ranks = true, all_micro_batches = true;
  bool once_each = false;              // one rank of each that behave alike, not all ranks
  bool chosen = false;                 // less than all, and not because it was asked for
  bool whole() const { return all_ranks && all_micro_batches; }
  bool shows(std::int64_t micro_batch) const { return has(micro_batches, micro_batch); }
  bool shows_rank(int rank) const;
};

struct Trace {
  std::string bytes;
  TraceScope scope;
};

// Whether what is asked for is there; --ranks and --micro-batches are named.
core::Problems problems_of(const TraceChoice& choice, const TraceSubject& subject);

// "shows rank 0 of 8 and every micro-batch, so that a browser opens it; ..." and how to get all.
std::string to_text(const TraceScope& scope);

// Writes all ranks of a scope.
using DrawTrace = std::function<void(TraceFile&, const TraceScope&)>;

// Problems: ranks or micro-batches asked for that are not there, or too much of them.
core::Result<Trace> write_trace(const TraceChoice& choice, const TraceSubject& subject,
                                const DrawTrace& draw);

}  // namespace program
