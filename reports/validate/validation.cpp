#include "reports/validate/validation.hpp"

#include <algorithm>
#include <iterator>

#include <fmt/format.h>

#include "core/call.hpp"

namespace reports::validation {

// What cannot be expressed is a limit of the planner; a GPU that nobody knows is the file's.
static void skip(const Row& row, core::Problems why, std::vector<Skipped>& skipped,
                 core::Problems& problems) {
  skipped.push_back({row.id, core::to_text(why.front())});
  for (core::Problem& p : why)
    if (p.where == "profile") {
      p.where = row.place + " column gpu";
      problems.push_back(std::move(p));
    }
}

core::Result<Validation> validate(std::string_view text, std::string_view source,
                                  const Request& request) {
  core::Problems problems;
  const core::Result<core::CsvTable> table = core::parse_csv(text, source, &problems);
  if (!table.ok()) return table.problems();
  core::Problems missing;
  if (!table->require_columns(required_columns(), missing)) return missing;
  Rows read = read_rows(*table);
  std::vector<Skipped> skipped;
  for (const core::Problem& p : problems) skipped.push_back({p.where, core::to_text(p)});
  skipped.insert(skipped.end(), read.skipped.begin(), read.skipped.end());
  problems.insert(problems.end(), read.problems.begin(), read.problems.end());

  Predictor predictor(request.overrides, request.site);
  std::vector<Predicted> rows;
  constexpr std::size_t kStretch = 16;   // rows: a tenth of a second
  for (std::size_t i = 0; i < read.rows.size(); ++i) {
    Row& row = read.rows[i];
    core::stop_point();
    if (request.progress && i % kStretch == 0)
      request.progress(fmt::format("{}: {} of {} runs predicted", source, i, read.rows.size()));
    if (std::ranges::count(request.leave_out, row.dataset) > 0) continue;
    core::Result<Prediction> prediction = predictor.predict(row);
    if (prediction.ok())
      rows.push_back({std::move(prediction).value(), std::move(row)});
    else
      skip(row, prediction.problems(), skipped, problems);
  }
  Scores scores = score(rows, std::move(skipped));
  return Validation{std::move(scores), std::move(rows), std::move(problems)};
}

Validation joined(Validation a, Validation b) {
  const auto append = [](auto& to, auto& from) {
    to.insert(to.end(), std::make_move_iterator(from.begin()), std::make_move_iterator(from.end()));
  };
  append(a.rows, b.rows);
  append(a.scores.skipped, b.scores.skipped);
  append(a.problems, b.problems);
  a.scores = score(a.rows, std::move(a.scores.skipped));
  return a;
}

}  // namespace reports::validation
