#include <algorithm>

#include <fmt/format.h>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/code.hpp"
#include "core/csv.hpp"
#include "core/file.hpp"
#include "reports/fit/fit.hpp"
#include "reports/fit/left_out_accuracy.hpp"
#include "reports/fit/write_back.hpp"

namespace cli {
namespace {

constexpr std::string_view kFitPurpose =
    "Fits the constants of GPUs and frameworks to measured training runs, and says how well they\n"
    "predict runs that were left out of the fit.";
constexpr std::string_view kFitExamples =
    "  planner fit runs.csv\n"
    "  planner fit runs.csv --write . --out fit.json";
constexpr std::size_t kMaxBytes = std::size_t{64} << 20;
constexpr std::int64_t kMostStarts = 100;

// Predicted by the shipped constants.
std::vector<reports::validation::Predicted> predicted_rows(
    const std::vector<reports::validation::Row>& rows) {
  reports::validation::Predictor predictor;
  std::vector<reports::validation::Predicted> predicted;
  for (const reports::validation::Row& row : rows) {
    if (!row.peak_bytes && !row.fits && !row.step) continue;
    core::Result<reports::validation::Prediction> made = predictor.predict(row);
    if (made.ok()) predicted.push_back({std::move(made).value(), row});
  }
  return predicted;
}

core::Status read_runs(const std::string& path, const std::vector<std::string>& skip,
                       std::vector<reports::validation::Row>& rows) {
  const core::Result<std::string> text = core::read_file(path, kMaxBytes);
  if (!text.ok()) return text.problems();
  core::Problems unread, missing;
  const core::Result<core::CsvTable> csv = core::parse_csv(*text, path, &unread);
  if (!csv.ok()) return csv.problems();
  if (!csv->require_columns(reports::validation::required_columns(), missing)) return missing;
  for (reports::validation::Row& row : reports::validation::read_rows(*csv).rows)
    if (std::ranges::count(skip, row.dataset) == 0) rows.push_back(std::move(row));
  return core::Done{};
}

std::vector<reports::NextStep> next_of(const std::string& runs, bool written) {
  const core::Code file = core::Code::shell(runs);
  if (written)
    return {{"./dev build", "builds with these constants"},
            {core::code("./dev run validate {}", file), "scores them on the runs"}};
  return {
      {core::code("planner validate {}", file), "scores the shipped constants on the runs"},
      {core::code("planner calibrate --from {} --out site.json", file), "learns one site instead"}};
}

}  // namespace

int fit_verb(Arguments arguments) {
  std::string path;
  std::vector<std::string> more, skip;
  std::optional<std::string> table, starts, write;
  bool no_leave_out = false, accuracy_only = false;
  OutputOptions output;
  OptionSet set("fit", kFitPurpose, kFitExamples);
  set.positional("RUNS", path, "CSV of measured runs, one per row");
  set.text("--constants", table, "FILE",
           "which constants may change, with bounds (the shipped table)");
  set.text("--starts", starts, "N",
           "starting points: the first from the priors, others drawn with --seed");
  set.text("--write", write, "FOLDER", "write the constants into this source tree's profiles");
  set.flag("--accuracy-only", accuracy_only,
           "with --write: only how far predictions are off, the constants as they are");
  set.texts("--more", more, "FILE", "another CSV of measured runs; repeatable");
  set.texts("--leave-out", skip, "DATASET", "do not use its rows; repeatable");
  set.flag("--no-leave-out", no_leave_out, "only the fit over all rows");
  add_output_options(set, output, "the constants and errors");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  core::Problems bad;
  reports::fit::FitOptions options;
  options.leave_out = !no_leave_out;
  if (const auto n = whole_number(starts, "--starts", 1, bad))
    options.starts = static_cast<int>(std::min(*n, kMostStarts));
  if (const auto n = whole_number(output.seed, "--seed", 0, bad))
    options.seed = static_cast<std::uint64_t>(*n);
  if (const core::Status target = check_output(output); !target.ok())
    bad.insert(bad.end(), target.problems().begin(), target.problems().end());
  if (accuracy_only && (!write || no_leave_out))
    bad.push_back({"--accuracy-only", "--write FOLDER beside it, and rows that are left out",
                   write ? "--no-leave-out" : "no --write", ""});
  if (!bad.empty()) return refuse(bad);

  std::vector<reports::fit::Constant> constants;
  if (table) {
    const core::Result<std::string> text = core::read_file(*table, kMaxBytes);
    if (!text.ok()) return refuse(text.problems());
    auto read = reports::fit::read_constants(*text, *table);
    if (!read.ok()) return refuse(read.problems());
    constants = std::move(read).value();
  } else {
    constants = reports::fit::shipped_constants();
  }
  std::vector<reports::validation::Row> rows;
  more.insert(more.begin(), path);
  for (const std::string& file : more)
    if (const core::Status read = read_runs(file, skip, rows); !read.ok())
      return refuse(read.problems());
  const reports::fit::Cases cases(rows, std::move(constants));
  if (cases.all().empty())
    return refuse({{path, "at least one row with step_seconds that can be predicted",
                    std::to_string(rows.size()) + " rows, none of them", ""}});
  options.progress = progress_on_terminal(output.quiet);
  const reports::fit::Fitted fitted = reports::fit::fit(cases, options);
  std::optional<planner::Accuracy> accuracy;
  if (!fitted.left_out.empty())
    accuracy = reports::fit::accuracy_of(fitted.left_out, predicted_rows(rows));
  if (write) {
    const core::Status done = accuracy_only && accuracy
                                  ? reports::fit::write_accuracy(fitted, *accuracy, *write)
                                  : reports::fit::write_back(fitted, accuracy, *write);
    if (!done.ok()) return refuse(done.problems());
  }
  const core::Status delivered = deliver(output, reports::fit::to_json_text(fitted),
                                         [&] {
                                           return fit_text(fitted, page_style()) +
                                                  next_text(next_of(path, write.has_value()));
                                         });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
