#pragma once
// Predicted beside measured, term by term: a plan's candidate against a run of it (compare/1).
// relative_error = (predicted - measured) / measured, empty where either is unknown, the measured
// value is 0, or a time was measured on other hardware than planned. Bytes and counts are exact
// below 2^53. Pure; thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"
#include "exec/record/run_record.hpp"
#include "planner/plan/plan.hpp"
#include "reports/other_hardware.hpp"
#include "reports/text.hpp"

namespace reports {

enum class TermUnit : std::uint8_t { bytes, count, seconds };

struct ComparedTerm {
  std::string term;  // "memory.live", "communication.gradients.all_reduce.count", "time.step"
  TermUnit unit{};
  std::optional<double> predicted, measured;
  bool comparable = true;  // false: a time of other hardware than planned
  // No promise of the plan: what the cost model assumes that NCCL chooses, or what it does not
  // predict. Shown, and not counted as equal or different.
  bool assumed = false;

  std::optional<double> relative_error() const;
  // Bytes and counts must agree exactly, and an entry that stands on one side alone differs. Times
  // are estimates, and seconds never differ in this sense.
  bool differs() const;
};

struct Comparison {
  std::string run;  // its file
  std::vector<ComparedTerm> terms;
  std::vector<planner::ScaledFigure> scaled;    // of a run that was scaled down
  std::optional<OtherHardware> other_hardware;  // its times are shown, and not compared
  std::vector<std::string> library;  // where NCCL ran something else than was assumed, in words
};

// Bytes and counts, but for what is assumed, and how many of them are exactly as predicted.
struct EqualTerms {
  int equal = 0, all = 0;
};
EqualTerms equal_terms(const Comparison& comparison);

// Memory: the six terms, live, and what else was measured, of the rank that the plan names.
// A run that was scaled down belongs to the plan that it was made from; it is compared with what
// was predicted of the small job, which its record holds.
// Communication: entries of like `what` and `collective` are summed on each side; an entry that
// stands on one side alone has no value on the other. Time: every part; step against step_median.
// Where NCCL reported its calls (comparison_library.cpp): their number and payload must be equal.
// Algorithm, protocol and channels are compared with what the plan assumes, which may differ.
//
// Problems, when the two do not belong together: another model, job or number of ranks, a strategy
// that is not in the plan (the differing keys are named), memory of another rank.
core::Result<Comparison> compare(const planner::Plan& plan, const exec::RunRecord& run,
                                 std::string_view run_name);

// compare/1. `terms` are those of the first comparison; with several, `runs` holds each.
std::string to_json_text(const std::vector<Comparison>& comparisons);
// One line per term of each run: exact numbers, bytes, counts and seconds as the term says
// [rfc4180].
std::string comparisons_csv(const std::vector<Comparison>& comparisons);
std::string comparisons_markdown(const std::vector<Comparison>& comparisons);
// A table of one comparison; ends with a line that says how many exact terms are equal.
std::string comparison_text(const Comparison& comparison, TextStyle style);

}  // namespace reports
