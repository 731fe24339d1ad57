#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "cli/points.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/parse_units.hpp"
#include "planner/strategy/job_check.hpp"

namespace cli {
namespace {

constexpr std::string_view kMinGpusPurpose =
    "Finds the fewest GPUs on which a job fits with at most --max-risk of running out of memory,\n"
    "or which train --tokens within a given time. It tries 1, 2, 4, ... until one number does, "
    "then\n"
    "the numbers between: each one within a node, whole nodes beyond.\n"
    "Nothing is offloaded to host memory, unless --pin offload=... asks for it.";
constexpr std::string_view kMinGpusExamples =
    "  planner min-gpus --model llama3-70b --gpu h100-sxm-80g\n"
    "  planner min-gpus --model llama3-8b --gpu a100-sxm-80g --tokens 1T --within 30d";
constexpr std::int64_t kMostGpus = 65'536;

class FewestFinder {
 public:
  FewestFinder(PlanOptions options, double max_risk, std::optional<core::Seconds> within,
               ProgressLine& progress)
      : options_(std::move(options)), max_risk_(max_risk), within_(within), progress_(progress) {}

  // Whether so many GPUs do; each number is asked about once.
  core::Result<bool> does(std::int64_t gpus) {
    const auto known = points_.find(gpus);
    if (known == points_.end()) {
      progress_.show(fmt::format("{} GPUs", gpus));
      options_.gpus = std::to_string(gpus);
      core::Result<reports::Subject> point = plan_point(options_, false);
      progress_.clear();
      if (!point.ok() && !planner::is_too_long_a_step(point.problems())) return point.problems();
      points_.emplace(gpus, point.ok() ? std::move(point).value()
                                       : refused_point(options_, point.problems(), {}));
    }
    const reports::Subject& s = points_.at(gpus);
    if (!s.candidate || !planner::within_risk(*s.candidate, max_risk_)) return false;
    return !within_ || (s.training && s.training->seconds <= *within_);
  }

  // The fewest up to `most`; 0: none. node: GPUs of one.
  core::Result<std::int64_t> fewest(std::int64_t most, std::int64_t node) {
    std::int64_t first = 0;
    for (std::int64_t n = 1; n <= most && first == 0; n *= 2) {
      const core::Result<bool> done = does(n);
      if (!done.ok()) return done.problems();
      if (*done) first = n;
    }
    if (first == 0) return std::int64_t{0};
    const std::int64_t stride = first <= node ? 1 : node;
    for (std::int64_t n = first / 2 / stride * stride + stride; n < first; n += stride) {
      const core::Result<bool> done = does(n);
      if (!done.ok()) return done.problems();
      if (*done) return n;
    }
    return first;
  }

  std::vector<reports::Subject> points() const {
    std::vector<reports::Subject> all;
    for (const auto& [gpus, point] : points_) all.push_back(point);
    return all;
  }

 private:
  PlanOptions options_;
  double max_risk_;                    // of running out of memory
  std::optional<core::Seconds> within_;
  ProgressLine& progress_;
  std::map<std::int64_t, reports::Subject> points_;
};

}  // namespace

int min_gpus_verb(Arguments arguments) {
  PlanOptions options;
  PointsOutput output;
  std::optional<std::string> within_text, most_text;
  OptionSet set("min-gpus", kMinGpusPurpose, kMinGpusExamples);
  add_plan_options(set, options);
  set.text("--within", within_text, "TIME", "time in which to train --tokens, as 30d");
  set.text("--max-gpus", most_text, "N", "try no more than these (65536)");
  add_points_output(set, output);
  if (const auto ended = ended_by(set, arguments)) return *ended;
  core::Problems problems;
  if (const core::Status target = check_points_output(output); !target.ok())
    problems = target.problems();
  if (options.gpus)
    problems.push_back({"--gpus", "nothing: it is what is asked for", *options.gpus,
                        "bound it with --max-gpus"});
  const auto most = whole_number(most_text, "--max-gpus", 1, problems).value_or(kMostGpus);
  if (most > kMostGpus)
    problems.push_back({"--max-gpus", fmt::format("at most {}", kMostGpus), *most_text, ""});
  std::optional<core::Seconds> within;
  if (within_text) {
    const auto time = core::parse_duration(*within_text, "--within");
    if (!time.ok()) problems.push_back(time.problems().front());
    else within = *time;
    if (!options.tokens)
      problems.push_back({"--within", "--tokens beside it", "none", "write --tokens 500B"});
  }
  if (!problems.empty()) return refuse(problems);
  const auto requests = requests_of(options);
  if (!requests.ok()) return refuse(requests.problems());
  const std::int64_t node = requests->front().profile.node.gpus_per_node;

  ProgressLine progress(output.output.quiet);
  FewestFinder finder(options, requests->front().max_risk, within, progress);
  const core::Result<std::int64_t> found = finder.fewest(most, node);
  if (!found.ok()) return refuse(found.problems());
  const std::vector<reports::Subject> points = finder.points();
  std::string said = fmt::format("No number of GPUs up to {} does.", most);
  std::optional<std::size_t> answer;
  for (std::size_t i = 0; i < points.size(); ++i)
    if (points[i].gpus == *found) {
      answer = i;
      said = fmt::format("Fewest: {} x {}, with {}.{}", *found, points[i].gpu,
                         planner::to_text(points[i].candidate->strategy),
                         *found > 1 ? kGpusAlone : "");
    }
  std::vector<reports::NextStep> next;
  if (answer) {
    options.gpus = std::to_string(*found);
    next = next_of(options, output);
  }
  const core::Status delivered = deliver_points(output, {points, {}, said, answer, next});
  if (!delivered.ok()) return refuse(delivered.problems());
  if (answer) return kDone;
  write_reason(said);
  return kAnswerIsNo;
}

}  // namespace cli
