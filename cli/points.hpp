#pragma once
// Points of a question that is asked many times: with other numbers of GPUs, lengths, batches. What
// sweep, min-gpus and max-batch share.

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "cli/output.hpp"
#include "cli/plan_options.hpp"
#include "core/result.hpp"
#include "reports/subjects_comparison.hpp"

namespace cli {

// Where the answer goes: text, CSV or Markdown on standard output, sweep/1 with --json and --out
// (a name that ends with .csv or .md: that form).
struct PointsOutput {
  OutputOptions output;
  std::optional<std::string> format;   // text, csv, md
};
void add_points_output(OptionSet& set, PointsOutput& options);
core::Status check_points_output(const PointsOutput& options);

// What answers add that are asked of GPUs alone.
inline constexpr std::string_view kGpusAlone =
    " Everything is on the GPUs here; a plan may keep part of it in the memory of hosts.";

// The best plan of one question, as a subject; nothing more than that is worked out. hosts: as
// planner::Request's; without, the question is what the GPUs hold. contenders: where given, its
// strategies that could be on a front are added.
// settings: what of the question varies, for the label and the table.
using Settings = std::vector<std::pair<std::string, std::string>>;
core::Result<reports::Subject> plan_point(PlanOptions options, bool hosts,
                                          std::vector<reports::Subject>* contenders = nullptr,
                                          const Settings& settings = {});

// A point whose question the planner refuses (bad input: a sequence beyond the model's positions),
// as a subject that says why. REQUIRES: requests_of(options) has no problems.
reports::Subject refused_point(const PlanOptions& options, const core::Problems& problems,
                               const Settings& settings);

// What was found: points, the front of all their contenders (reports/front.hpp), a sentence, the
// point that was asked for, where one was, and what to type next.
struct Points {
  std::vector<reports::Subject> points, front;
  std::string said;
  std::optional<std::size_t> answer;
  std::vector<reports::NextStep> next = {};
};
// The plan of one point, and the page of them all.
std::vector<reports::NextStep> next_of(const PlanOptions& point, const PointsOutput& output);


// Tables of points and of the front, and below them what is said.
std::string points_text(const Points& points, reports::TextStyle style);
core::Status deliver_points(const PointsOutput& options, const Points& points);

}  // namespace cli
