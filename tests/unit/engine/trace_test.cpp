#include "sim/engine/trace.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "core/json.hpp"
#include "sim/engine/engine.hpp"
#include "sim/program/replay.hpp"
#include "tests/catch.hpp"
#include "tests/unit/cost/machine_for_tests.hpp"
#include "tests/unit/engine/pipelines.hpp"
#include "tests/unit/engine/timed_stages.hpp"

using core::Json;
using engine_test::two_stages;
using engine::TraceDetail;

namespace {

std::string trace(const program::Program& p, TraceDetail detail, engine::SceneOptions options = {},
                  int most_ranks = 64) {
  options.parts = true;
  const engine::Scene scene(p, round_machine(), options);
  std::vector<engine::Played> record;
  engine::run(scene, {.record = &record});
  return engine::trace_json(scene, record, {.detail = detail, .most_ranks = most_ranks}).value();
}

std::vector<Json> events(const std::string& text) {
  return core::parse_json(text, "trace").value().at("traceEvents").items();
}
std::string phase(const Json& event) { return event.at("ph").as_string(); }

}  // namespace

TEST_CASE("slices of a thread follow one another, and every rank is there") {
  const auto detail = GENERATE(TraceDetail::block, TraceDetail::op);
  const program::Program p = two_stages(4);
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::pair<double, double>>> threads;
  for (const Json& e : events(trace(p, detail))) {
    if (phase(e) != "X") continue;
    const double start = e.at("ts").as_double();
    threads[{e.at("pid").as_int64(), e.at("tid").as_int64()}].emplace_back(
        start, start + e.at("dur").as_double());
    CHECK(e.at("dur").as_double() > 0);
  }
  std::set<std::int64_t> ranks;
  for (auto& [thread, slices] : threads) {
    ranks.insert(thread.first);
    std::ranges::sort(slices);
    for (std::size_t i = 1; i < slices.size(); ++i)
      CHECK(slices[i].first >= slices[i - 1].second - 1e-7);
  }
  CHECK(ranks.size() == 8);
}

TEST_CASE("every send has a flow to its receive") {
  std::map<std::string, std::pair<int, int>> ends;
  std::map<std::string, double> sent;
  for (const Json& e : events(trace(two_stages(2), TraceDetail::block))) {
    if (phase(e) == "s") {
      ++ends[e.at("id").as_string()].first;
      sent[e.at("id").as_string()] = e.at("ts").as_double();
    }
    if (phase(e) == "f") ++ends[e.at("id").as_string()].second;
  }
  CHECK(ends.size() == 2 * 5 * 2);     // data ranks, micro-batches, directions
  for (const auto& [id, both] : ends) CHECK((both.first == 1 && both.second == 1));
}

TEST_CASE("the memory counter peaks at the replay's live bytes and ends where it began") {
  const program::Program p = two_stages(2);
  std::map<std::int64_t, std::vector<std::int64_t>> levels;
  for (const Json& e : events(trace(p, TraceDetail::block))) {
    if (phase(e) != "C") continue;
    std::int64_t live = 0;
    for (const Json::Member& term : e.at("args").members()) live += term.value.as_int64();
    levels[e.at("pid").as_int64()].push_back(live);
  }
  REQUIRE(levels.size() == 4);
  for (const auto& [rank, live] : levels) {
    const auto& k = p.classes[static_cast<std::size_t>(p.class_of(static_cast<int>(rank)))];
    CHECK(std::ranges::max(live) == program::replay(k).live.value());
    CHECK(live.front() == live.back());
  }
}

TEST_CASE("the same scene and seed give the same bytes of trace, another seed others") {
  const program::Program p = two_stages(2);
  const engine::SceneOptions one{.jitter = 0.1, .seed = 1}, two{.jitter = 0.1, .seed = 2};
  CHECK(trace(p, TraceDetail::op, one) == trace(p, TraceDetail::op, one));
  CHECK(trace(p, TraceDetail::op, one) != trace(p, TraceDetail::op, two));
}

TEST_CASE("beyond so many ranks a trace shows one of each fold; too many slices are refused") {
  const program::Program p = two_stages(4);
  std::set<std::int64_t> ranks;
  for (const Json& e : events(trace(p, TraceDetail::block, {}, 7)))
    ranks.insert(e.at("pid").as_int64());
  CHECK(ranks == std::set<std::int64_t>{0, 4});

  const engine::Scene scene(p, round_machine(), {.parts = true});
  std::vector<engine::Played> record;
  engine::run(scene, {.record = &record});
  const auto refused = engine::trace_json(scene, record, {.most_slices = 10});
  REQUIRE(!refused.ok());
  CHECK(refused.problems().front().expected == "at most 10 slices");
}

TEST_CASE("times are the engine's picoseconds, exactly") {
  const program::Program p =
      engine_test::pipeline(planner::Schedule::gpipe, 2, 1, 1, {7'000'001, 3, 4, 5, 11});
  const engine::Scene scene(p, engine_test::unit_machine(), {.parts = true});
  std::vector<engine::Played> record;
  engine::run(scene, {.record = &record});
  const std::string text = engine::trace_json(scene, record).value();
  CHECK(text.find("\"ts\":7.000001,\"dur\":0.000011") != std::string::npos);
}
