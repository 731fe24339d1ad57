#pragma once
// Scores of predictions against measured runs: errors of time and memory, verdicts on fit, regret
// inside groups of alternatives. Fractions; an error is (predicted - measured) / measured.
//
// Regret of a group with at least kGroupRows timed rows: measured step of the row predicted fastest
// among those predicted to fit (among all, if none is) over the fastest measured step, less 1.
// Kendall's tau counts pairs of a group ordered alike, by measured and by predicted step.
// Pure; thread-safe.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.hpp"
#include "reports/validate/groups.hpp"
#include "reports/validate/predict.hpp"

namespace reports::validation {

inline constexpr std::size_t kGroupRows = 3;

struct Predicted : Prediction {
  Row row;

  bool fits() const { return candidate.memory.worst.device <= candidate.memory.usable; }
  // Bytes of the kind of memory that the row measured.
  double memory_bytes() const;
};

enum class ScoreKind : std::uint8_t { time, memory, fit };
std::string_view name(ScoreKind kind);

struct RowScore {
  std::string id;
  ScoreKind kind = ScoreKind::time;
  double measured = 0, predicted = 0;    // seconds, bytes, 1 or 0
  std::optional<double> relative_error;  // none of a verdict
  std::string dominant_term;             // the greatest term of what was predicted
};

struct ErrorScore {
  std::size_t rows = 0;
  double mape = 0, median = 0, p90 = 0, most = 0, bias = 0;
};
struct FitScore {
  std::size_t rows = 0, correct = 0, false_fit = 0, false_oom = 0;
};
struct RankingScore {
  std::size_t groups = 0;
  double mean_regret = 0, p90_regret = 0, kendall_tau = 0;
};
// Timed rows that share dataset, framework and GPU.
struct Cluster {
  std::string dataset, framework, gpu;
  ErrorScore time;
};

// Timed rows of models or machines of like size.
struct SizeScore {
  std::string size;                      // "1 to 10 G parameters", "9 to 64 GPUs"
  ErrorScore time;
};

struct Scores {
  std::size_t rows = 0, predicted = 0;
  std::vector<Skipped> skipped;
  ErrorScore time, memory, memory_device;
  ErrorScore closed_form;                // time, by what a search ranks with
  double time_by_dataset = 0;            // mean of the datasets' MAPE, each weighing 1
  FitScore fit;
  RankingScore ranking;
  std::vector<GroupScore> groups;
  std::vector<Cluster> by;
  std::vector<SizeScore> by_size;        // of parameters, then of GPUs; those that have rows
  std::vector<RowScore> per_row;         // in the order of the rows
};

ErrorScore error_score(std::vector<double> relative_errors);
core::Json to_json(const ErrorScore& score);
Scores score(const std::vector<Predicted>& rows, std::vector<Skipped> skipped);

}  // namespace reports::validation
