#pragma once
// Side by side: plans, candidates of a plan, machines, runs and points of a sweep, each a Subject,
// with the same figures of all. One table of figures serves text, CSV, Markdown and JSON, so that
// the four say the same. What a subject does not know is empty, never 0. Pure; thread-safe.

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/json.hpp"
#include "exec/record/run_record.hpp"
#include "planner/plan/plan.hpp"
#include "reports/text.hpp"

namespace reports {

struct Subject {
  std::string label;                   // "alternative 2", "h100-sxm-80g", a file's name
  std::string model, gpu;
  std::int64_t gpus = 1, seq_len = 0, global_batch = 0;
  std::optional<planner::Candidate> candidate;  // empty: nothing fits
  std::optional<exec::MeasuredTime> time;       // of a run
  std::optional<exec::MeasuredMemory> memory;
  std::optional<cost::Training> training;       // with --tokens
  std::optional<double> token_usd;     // rent of all its GPUs for one token
  std::string price;                   // of a GPU hour, in words with its source
  // What of a sweep's question varies: "precision", "fp8".
  std::vector<std::pair<std::string, std::string>> settings;
  std::string reason;                  // why there is no candidate
  bool other_hardware = false;         // than planned: its times are not compared
  bool refused = false;                // the question itself: nothing was searched
};
// The strategy in one line, or why there is none.
std::string summary_text(const Subject& subject);

// The chosen candidate; every candidate that the plan holds; the other machines.
Subject chosen_of(const planner::Plan& plan, std::string label);
// What tables call the GPUs of a machine: the id of one kind, or all kinds with how many of each.
std::string gpu_label(const hw_profiles::Profile& profile, std::int64_t gpus);
std::vector<Subject> candidates_of(const planner::Plan& plan);
std::vector<Subject> machines_of(const planner::Plan& plan);
// As predicted, with what was measured.
Subject run_of(const exec::RunRecord& run, std::string label);

enum class FigureUnit : std::uint8_t { bytes, seconds, count, fraction, number, energy };
struct Figure {
  std::string_view key, title;         // "step_seconds", "step"
  FigureUnit unit{};
  std::optional<double> (*value)(const Subject&) = nullptr;
};
// In the order of print.
const std::vector<Figure>& figures();
// "18.3 GiB", "-".
std::string figure_text(const std::optional<double>& value, FigureUnit unit);

// What the subjects' GPUs cost an hour and who says so, a line each; "" where none has a price.
std::string prices_text(const std::vector<Subject>& subjects, TextStyle style);
// Summary lines, then every figure that some subject knows, subjects side by side.
std::string subjects_text(const std::vector<Subject>& subjects, TextStyle style);
// One line per subject, exact numbers, units in the names of the columns [rfc4180].
std::string subjects_csv(const std::vector<Subject>& subjects);
std::string subjects_markdown(const std::vector<Subject>& subjects);
core::Json subjects_json(const std::vector<Subject>& subjects);

}  // namespace reports
