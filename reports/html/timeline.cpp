#include "reports/html/timeline.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include <fmt/format.h>

#include "core/check.hpp"
#include "core/json.hpp"
#include "planner/plan/simulate.hpp"

namespace reports::html {
namespace {

using core::Json;

constexpr std::uint64_t kMostOperations = 3'000'000;
constexpr std::size_t kMostStages = 64;

// What a slice is, by its name and category in the trace.
std::string kind_of(const std::string& name, const std::string& category) {
  if (category == "optimizer") return "optimizer";
  if (category != "compute" && category != "pass" && category != "other") return category;
  for (const auto& [part, kind] : {std::pair{"epilogue", "output and loss"},
                                   {"recompute", "recompute"},
                                   {"forward_drop", "forward"},
                                   {"weight", "weight gradient"},
                                   {"backward", "backward"},
                                   {"forward", "forward"}})
    if (name.find(part) != std::string::npos) return kind;
  return "other";
}

class Reader {
 public:
  // Lines of a trace: one event each (sim/engine/trace.hpp).
  void read(std::string_view trace) {
    while (!trace.empty()) {
      const std::size_t end = std::min(trace.find('\n'), trace.size());
      std::string_view line = trace.substr(0, end);
      trace.remove_prefix(std::min(end + 1, trace.size()));
      if (line.ends_with(",")) line.remove_suffix(1);
      if (line.starts_with("{\"ph\":\"M\"")) name_lane(parsed(line));
      if (line.starts_with("{\"ph\":\"X\"")) add_slice(parsed(line));
    }
  }

  // Blocks where there are few enough, else passes beside what other streams did.
  Timeline take() {
    Timeline t;
    t.passes = slices_.size() > kMostSlices;
    std::map<std::pair<int, int>, std::size_t> lanes;
    for (const auto& [key, lane] : lanes_) {
      const bool wanted = t.passes ? key.second != kCompute : key.second != kPasses;
      if (!wanted || !used_.contains(key) || !stages_.contains(key.first)) continue;
      lanes[key] = t.lanes.size();
      t.lanes.push_back(lane);
      if (key.second == kPasses) t.lanes.back().stream = "compute";
    }
    for (auto& [key, slice] : slices_) {
      const auto lane = lanes.find(key);
      if (lane == lanes.end()) continue;
      slice.lane = lane->second;
      t.slices.push_back(slice);
    }
    std::ranges::stable_sort(t.slices, {},
                             [](const Slice& s) { return std::pair(s.lane, s.start); });
    t.names = std::move(names_.texts);
    t.kinds = std::move(kinds_.texts);
    return t;
  }

 private:
  static constexpr int kPasses = 0, kCompute = 1;  // threads of the trace

  struct Index {
    std::vector<std::string> texts;
    std::map<std::string, std::size_t> at;
    std::size_t operator()(const std::string& text) {
      const auto [place, is_new] = at.try_emplace(text, texts.size());
      if (is_new) texts.push_back(text);
      return place->second;
    }
  };

  static Json parsed(std::string_view line) {
    core::Result<Json> event = core::parse_json(line, "trace");
    PLANNER_CHECK(event.ok(), "the trace's lines are events");
    return std::move(event).value();
  }

  void name_lane(const Json& event) {
    const int rank = static_cast<int>(event.at("pid").as_int64());
    const std::string& what = event.at("name").as_string();
    if (what == "process_name") {
      const std::string& place = event.at("args").at("name").as_string();
      // Ranks of one stage do alike: the first stands for them.
      const std::string stage = place.substr(std::min(place.find(", "), place.size()));
      if (seen_.size() < kMostStages && seen_.insert(stage).second) stages_.insert(rank);
      places_[rank] = place;
    }
    if (what == "thread_name")
      lanes_[{rank, static_cast<int>(event.at("tid").as_int64())}] = {
          rank, places_[rank], event.at("args").at("name").as_string()};
  }

  void add_slice(const Json& event) {
    const std::pair key(static_cast<int>(event.at("pid").as_int64()),
                        static_cast<int>(event.at("tid").as_int64()));
    const auto nanoseconds = [&](const char* field) {
      return static_cast<std::int64_t>(std::llround(event.at(field).as_double() * 1e3));
    };
    const std::string& name = event.at("name").as_string();
    const Json& args = event.at("args");
    const auto number = [&](const char* field) {
      const Json* value = args.find(field);
      return value == nullptr ? std::int64_t{-1} : value->as_int64();
    };
    used_.insert(key);
    slices_.push_back({key, Slice{0, nanoseconds("ts"), nanoseconds("dur"), names_(name),
                                  kinds_(kind_of(name, event.at("cat").as_string())),
                                  number("micro_batch"), number("layer")}});
  }

  std::map<std::pair<int, int>, Lane> lanes_;
  std::map<int, std::string> places_;
  std::set<std::pair<int, int>> used_;
  std::set<std::string> seen_;
  std::set<int> stages_;
  std::vector<std::pair<std::pair<int, int>, Slice>> slices_;
  Index names_, kinds_;
};

}  // namespace

core::Result<Timeline> timeline_of(const planner::Plan& plan) {
  planner::SimulateOptions options;
  const core::Result<planner::Simulation> first = planner::simulate(plan, options);
  if (!first.ok()) return first.problems();
  if (first->operations > kMostOperations)
    return core::Problem{"timeline",
                         fmt::format("a step of at most {} operations", kMostOperations),
                         fmt::format("{}", first->operations),
                         "planner simulate --trace writes it for a viewer of traces"};
  options.trace.emplace();
  options.trace->choice.most_ranks = 0;
  const core::Result<planner::Simulation> played = planner::simulate(plan, options);
  if (!played.ok()) return played.problems();
  Reader reader;
  reader.read(played->trace.bytes);
  Timeline timeline = reader.take();
  timeline.ranks = static_cast<std::size_t>(played->ranks);
  return timeline;
}

}  // namespace reports::html
