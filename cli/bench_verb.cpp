#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "cli/bench_divisions.hpp"
#include "cli/bench_rounds.hpp"
#include "cli/bench_steps.hpp"
#include "cli/output.hpp"
#include "cli/process.hpp"
#include "cli/verbs.hpp"
#include "core/json.hpp"
#include "core/parse_units.hpp"
#include "hw_profiles/load.hpp"
#include "models/zoo.hpp"
#include "planner/search/search.hpp"
#include "reports/text.hpp"
#include "sim/engine/hold_model.hpp"

namespace cli {
namespace {

// Questions that the search is timed on: the main one, and wide ones of large models.
struct Question {
  const char* model;
  std::int64_t gpus;
};
constexpr Question kQuestions[] = {
    {"gpt2-1.5b", 8}, {"gpt3-175b", 64}, {"gpt3-175b", 512}, {"gpt3-175b", 4096}};
// The same of models whose layers are of several kinds.
constexpr Question kMixedQuestions[] = {
    {"gpt-oss-20b", 8}, {"gemma-3-27b", 64}, {"glm-4.5", 512}, {"deepseek-v3", 2048}};
constexpr const char* kGpu = "h100-sxm-80g";

constexpr std::size_t kPending = 10'000;  // of the events figure
constexpr std::int64_t kEvents = 4'000'000;  // a round

// A candidate counts when its time and memory were both evaluated. The search runs on one core and
// starts from nothing: graphs, probes and tables are in its time, the lowering of what a plan
// prints is not.
struct SearchFigure {
  std::int64_t candidates = 0;
  double seconds = 0;
  double rate() const { return static_cast<double>(candidates) / seconds; }
};

core::Result<SearchFigure> time_round(std::span<const Question> questions) {
  SearchFigure figure;
  for (const Question& q : questions) {
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

core::Result<SearchFigure> time_search(std::span<const Question> questions) {
  std::vector<SearchFigure> rounds;
  for (int i = 0; i < kRounds; ++i) {
    const auto round = time_round(questions);
    if (!round.ok()) return round.problems();
    rounds.push_back(*round);
  }
  return median_of(std::move(rounds));
}

// An event is one pop, and the push of what follows from it. Seconds are those of the core: the
// engine is one thread, and what else the machine does is not its figure.
struct EventFigure {
  std::size_t pending = 0;
  std::int64_t events = 0;
  double seconds = 0;
  double rate() const { return static_cast<double>(events) / seconds; }
};

EventFigure time_events(std::size_t pending, std::uint64_t seed) {
  engine::HoldModel model(pending, seed);
  // Every event has been put back several times before the clock runs.
  std::uint64_t digest = model.run(static_cast<std::int64_t>(3 * pending));
  std::vector<EventFigure> rounds;
  for (int i = 0; i < kRounds; ++i) {
    const double start = core_seconds();
    digest ^= model.run(kEvents);
    rounds.push_back({pending, kEvents, core_seconds() - start});
  }
  PLANNER_CHECK(digest != 0 && model.queue().size() == pending);
  return median_of(std::move(rounds));
}

core::Json to_json(const EventFigure& f) {
  return core::Json::object({{"pending", static_cast<std::int64_t>(f.pending)},
                             {"events", f.events},
                             {"seconds", f.seconds},
                             {"per_second_per_core", f.rate()}});
}

std::string events_line(const EventFigure& f) {
  return "events  " + core::count_text(f.events) + " events, " +
         core::count_text(static_cast<std::int64_t>(f.pending)) + " pending, in " +
         core::to_text(core::Seconds(f.seconds)) + " of one core: " +
         core::count_text(static_cast<std::int64_t>(f.rate())) + " a second\n";
}

struct Figures {
  SearchFigure search, mixed;
  std::vector<DivisionFigure> divisions;
  EventFigure events;
  std::vector<EventFigure> more_events;  // --full
  std::vector<StepFigure> steps;         // --full
};

core::Json to_json(const SearchFigure& f) {
  return core::Json::object({{"candidates", f.candidates},
                             {"seconds", f.seconds},
                             {"per_second_per_core", f.rate()}});
}

std::string search_line(const char* what, const SearchFigure& f) {
  return std::string(what) + core::count_text(f.candidates) + " candidates in " +
         core::to_text(core::Seconds(f.seconds)) + " on one core: " +
         core::count_text(static_cast<std::int64_t>(f.rate())) + " a second\n";
}

template <class Figure>
core::Json list_json(const std::vector<Figure>& figures) {
  core::Json all = core::Json::array();
  for (const Figure& one : figures) all.push_back(to_json(one));
  return all;
}

core::Json to_json(const Figures& f) {
  core::Json json = core::Json::object({{"schema", "bench/1"},
                                        {"search", to_json(f.search)},
                                        {"search_mixed", to_json(f.mixed)},
                                        {"divisions", list_json(f.divisions)},
                                        {"events", to_json(f.events)}});
  if (f.more_events.empty()) return json;
  return json.set("events_by_pending", list_json(f.more_events)).set("steps", list_json(f.steps));
}

std::string text_of(const Figures& f) {
  std::string text = search_line("search  ", f.search);
  text += search_line("        of layers of several kinds: ", f.mixed);
  for (const DivisionFigure& one : f.divisions) text += division_line(one);
  text += events_line(f.events);
  for (const EventFigure& one : f.more_events) text += events_line(one);
  for (const StepFigure& one : f.steps) text += step_line(one);
  return text;
}

}  // namespace

int bench_verb(Arguments arguments) {
  OutputOptions output;
  bool full = false;
  OptionSet set(
      "bench",
      "Measures the speed of the tool itself: how many candidates the search evaluates a second,\n"
      "how long it takes to find the best division of a graph's operators, and how many events\n"
      "the simulator plays a second.",
      "  planner bench --json");
  set.flag("--full", full,
           "also with 100 and 1,000,000 pending events, and a step of Llama 3.1 405B");
  add_output_options(set, output, "the figures");
  if (const auto ended = ended_by(set, arguments)) return *ended;
  const core::Status target = check_output(output);
  if (!target.ok()) return refuse(target.problems());
  const auto search = time_search(kQuestions);
  if (!search.ok()) return refuse(search.problems());
  const auto mixed = time_search(kMixedQuestions);
  if (!mixed.ok()) return refuse(mixed.problems());
  const auto divisions = time_divisions();
  if (!divisions.ok()) return refuse(divisions.problems());
  Figures figures{*search, *mixed, *divisions, time_events(kPending, 1), {}, {}};
  if (full) {
    // Steps first: a peak of memory is the process's.
    const auto steps = time_steps();
    if (!steps.ok()) return refuse(steps.problems());
    figures.steps = *steps;
    for (const std::size_t pending : {std::size_t{100}, std::size_t{1'000'000}})
      figures.more_events.push_back(time_events(pending, 1));
  }
  const core::Status delivered =
      deliver(output, core::dump(to_json(figures)) + '\n', [&] {
        std::vector<reports::NextStep> next;
        if (!full)
          next.push_back(
              {"planner bench --full", "also a million pending events, and steps of 405B"});
        if (!output.out) next.push_back({"--out bench.json", "keeps the figures"});
        return text_of(figures) + next_text(next);
      });
  return delivered.ok() ? kDone : refuse(delivered.problems());
}

}  // namespace cli
