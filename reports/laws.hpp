#pragma once
// The laws of gradient exchange, C1 to C5: what each GPU or server sends in a step for d trained
// elements on K GPUs and M servers, in one table: the law, what the tool predicts (the law with the
// padding that the algorithm needs) and, where runs are given, what their counters say. Pure;
// thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.hpp"
#include "exec/record/run_record.hpp"
#include "reports/text.hpp"

namespace reports {

struct LawQuestion {
  std::int64_t elements = 0;  // d
  int gpus = 2;               // K >= 2, that train
  int servers = 1;            // M >= 1, beside them unless colocated
  core::DType type = core::DType::f32;  // of gradients and weights on the wire
};

// The runs that measure every row.
enum class LawRun : std::uint8_t { naive, one_server, servers, colocated_servers, ring };
inline constexpr int kLawRuns = 5;
// The pins of the strategy that a run executes ("grad_sync=ring"), and the GPUs it needs.
struct LawStrategy {
  std::vector<std::string> pins;
  int gpus = 0;
};
// Empty where there is no such strategy: colocated servers need M <= K.
std::optional<LawStrategy> law_strategy(LawRun run, const LawQuestion& question);

struct LawRow {
  std::string_view law, what, formula, source;
  LawRun run{};
  double stated = 0;                   // bytes by the formula
  std::int64_t predicted = 0;          // bytes
  std::optional<std::int64_t> measured;
};
// runs: one per LawRun in its order, empty where it was not executed.
// REQUIRES: elements >= 1, gpus >= 2, servers >= 1.
std::vector<LawRow> law_table(const LawQuestion& question,
                              std::span<const std::optional<exec::RunRecord>> runs);

std::string to_json_text(const LawQuestion& question, const std::vector<LawRow>& rows);
std::string laws_text(const LawQuestion& question, const std::vector<LawRow>& rows);

}  // namespace reports
