#include <algorithm>
#include <vector>

#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/json.hpp"
#include "core/parse_units.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/search.hpp"
#include "reports/text.hpp"

namespace cli {
namespace {

// Questions that the search is timed on: the main one, and wide ones of large models.
struct Question {
  const char* model;
  std::int64_t gpus;
};
constexpr Question kQuestions[] = {
    {"gpt2-1.5b", 8}, {"gpt3-175b", 64}, {"gpt3-175b", 512}, {"gpt3-175b", 4096}};
constexpr const char* kGpu = "h100-sxm-80g";
constexpr int kRounds = 5;             // the median round is reported

// A candidate counts when its time and memory were both evaluated. The search runs on one core and
// starts from nothing: graphs, probes and tables are in its time, the lowering of what a plan
// prints is not.
struct SearchFigure {
  std::int64_t candidates = 0;
  double seconds = 0;
  double rate() const { return static_cast<double>(candidates) / seconds; }
};

core::Result<SearchFigure> time_round() {
  SearchFigure figure;
  for (const Question& q : kQuestions) {
    const auto model = models::find_model(q.model);
    if (!model.ok()) return model.problems();
    const auto profile = hw_profiles::find_profile(kGpu);
    if (!profile.ok()) return profile.problems();
    planner::Request request;
    request.model = *model;
    request.gpus = q.gpus;
    request.profile = *profile;
    const auto counts = planner::explore_space(request);
    if (!counts.ok()) return counts.problems();
    figure.candidates += counts->evaluated;
    figure.seconds += counts->seconds.value();
  }
  return figure;
}

core::Result<SearchFigure> time_search() {
  std::vector<SearchFigure> rounds;
  for (int i = 0; i < kRounds; ++i) {
    const auto round = time_round();
    if (!round.ok()) return round.problems();
    rounds.push_back(*round);
  }
  std::ranges::sort(rounds, {}, &SearchFigure::seconds);
  return rounds[kRounds / 2];
}

}  // namespace

int bench_verb(Arguments arguments) {
  OutputOptions output;
  OptionSet set("bench", "Measures the tool itself: candidates that the search evaluates.",
                "  planner bench --json");
  add_output_options(set, output, "the figures");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  const core::Status target = check_output(output);
  if (!target.ok()) return refuse(target.problems());
  const auto figure = time_search();
  if (!figure.ok()) return refuse(figure.problems());
  using core::Json;
  const Json json =
      Json::object({{"schema", "bench/1"},
                    {"search", Json::object({{"candidates", figure->candidates},
                                             {"seconds", figure->seconds},
                                             {"per_second_per_core", figure->rate()}})}});
  const core::Status delivered = deliver(output, core::dump(json) + '\n', [&] {
    return "search  " + core::count_text(figure->candidates) + " candidates in " +
           core::to_text(core::Seconds(figure->seconds)) + " on one core: " +
           core::count_text(static_cast<std::int64_t>(figure->rate())) + " a second\n";
  });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
