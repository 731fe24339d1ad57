#include "sim/engine/trace.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "core/json.hpp"
#include "core/protobuf.hpp"
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
                  std::size_t most_ranks = 64) {
  options.parts = true;
  const engine::Scene scene(p, round_machine(), options);
  std::vector<engine::Played> record;
  engine::run(scene, {.record = &record});
  return engine::write_trace(scene, record, {detail, {.most_ranks = most_ranks}}).value().bytes;
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
  std::map<std::int64_t, std::pair<int, int>> ends;
  std::map<std::int64_t, double> sent;
  for (const Json& e : events(trace(two_stages(2), TraceDetail::block))) {
    if (phase(e) == "s") {
      ++ends[e.at("id").as_int64()].first;
      sent[e.at("id").as_int64()] = e.at("ts").as_double();
    }
    if (phase(e) == "f") ++ends[e.at("id").as_int64()].second;
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

TEST_CASE("beyond so many ranks a trace shows one of each fold; too large a trace is refused") {
  const program::Program p = two_stages(4);
  std::set<std::int64_t> ranks;
  for (const Json& e : events(trace(p, TraceDetail::block, {}, 7)))
    ranks.insert(e.at("pid").as_int64());
  CHECK(ranks == std::set<std::int64_t>{0, 4});

  const engine::Scene scene(p, round_machine(), {.parts = true});
  std::vector<engine::Played> record;
  engine::run(scene, {.record = &record});
  const auto refused =
      engine::write_trace(scene, record, {.choice = {.most_bytes = 0, .most_bytes_asked = 1000}});
  REQUIRE(!refused.ok());
  CHECK(refused.problems().front().expected == "at most 1000 B");
}

TEST_CASE("times are whole nanoseconds, both ends rounded down") {
  // Of 7,000,400, then 2,700 ps: 7,000 to 7,000.4 to 7,003.1 ns. Rounded apart from its start, the
  // second one's length would reach beyond the third's start, and Perfetto would drop it.
  const program::Program p =
      engine_test::pipeline(planner::Schedule::gpipe, 2, 1, 1, {7'000'400, 2'700, 3'000, 0, 900});
  const engine::Scene scene(p, engine_test::unit_machine(), {.parts = true});
  std::vector<engine::Played> record;
  engine::run(scene, {.record = &record});
  const std::string text = engine::write_trace(scene, record).value().bytes;
  CHECK(text.find("\"ts\":0.000,\"dur\":7.000,") != std::string::npos);
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> over;
  for (const Json& e : events(text)) {
    if (phase(e) != "X") continue;
    const auto nanoseconds = [&](const char* field) {
      const double value = e.at(field).as_double() * 1e3;
      CHECK(std::abs(value - std::round(value)) < 1e-6);
      return static_cast<std::int64_t>(std::llround(value));
    };
    std::int64_t& last = over[{e.at("pid").as_int64(), e.at("tid").as_int64()}];
    CHECK(nanoseconds("ts") >= last);
    last = nanoseconds("ts") + nanoseconds("dur");
  }
}

namespace {

// What both formats show: slices by rank, thread's name, slice's name and time in nanoseconds; ends
// of messages; live bytes by rank and time.
struct Shown {
  std::multiset<std::tuple<std::int64_t, std::string, std::string, std::int64_t, std::int64_t>>
      slices;
  std::map<std::int64_t, std::set<std::int64_t>> messages;  // by id: ranks
  std::multiset<std::tuple<std::int64_t, std::int64_t, std::int64_t>> live;
  friend bool operator==(const Shown&, const Shown&) = default;
};

Shown shown_in_json(const std::string& text) {
  Shown shown;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> threads;
  const auto nanoseconds = [](const Json& e, const char* field) {
    return static_cast<std::int64_t>(std::llround(e.at(field).as_double() * 1e3));
  };
  for (const Json& e : events(text)) {
    const std::int64_t rank = e.at("pid").as_int64();
    if (e.at("name").as_string() == "thread_name")
      threads[{rank, e.at("tid").as_int64()}] = e.at("args").at("name").as_string();
    if (phase(e) == "X")
      shown.slices.insert({rank, threads[{rank, e.at("tid").as_int64()}], e.at("name").as_string(),
                           nanoseconds(e, "ts"), nanoseconds(e, "dur")});
    if (phase(e) == "s" || phase(e) == "f") shown.messages[e.at("id").as_int64()].insert(rank);
    if (phase(e) != "C") continue;
    std::int64_t live = 0;
    for (const Json::Member& term : e.at("args").members()) live += term.value.as_int64();
    shown.live.insert({rank, nanoseconds(e, "ts"), live});
  }
  return shown;
}

// By the field numbers that Perfetto publishes, not those of the writer.
class PacketReader {
 public:
  Shown read(const std::string& file) {
    core::ProtoReader trace(file);
    while (trace.next()) {
      REQUIRE((trace.field() == 1 && trace.wire() == core::Wire::bytes));
      packet(trace.message());
    }
    CHECK(!trace.fault());
    for (const auto& [track, begun] : open_) CHECK(!begun);
    return shown_;
  }

 private:
  static std::map<int, std::uint64_t> numbers(core::ProtoReader message) {
    std::map<int, std::uint64_t> fields;
    while (message.next()) fields[message.field()] = message.number();
    return fields;
  }
  static std::map<int, std::string> texts(core::ProtoReader message) {
    std::map<int, std::string> fields;
    while (message.next()) fields[message.field()] = std::string(message.text());
    return fields;
  }

  void packet(core::ProtoReader p) {
    std::optional<core::ProtoReader> event;
    std::int64_t at = 0;
    while (p.next()) {
      if (p.field() == 8) at = static_cast<std::int64_t>(p.number());
      if (p.field() == 60) descriptor(p.message());
      if (p.field() == 12) interned(p.message());
      if (p.field() == 11) event = p.message();
    }
    if (event) track_event(*event, at);
  }
  void interned(core::ProtoReader data) {
    while (data.next())
      if (data.field() == 2) {
        const auto id = numbers(data.message()).at(1);
        CHECK(names_.try_emplace(id, texts(data.message()).at(2)).second);
      }
  }
  void descriptor(core::ProtoReader d) {
    const auto top = numbers(d);
    const std::uint64_t uuid = top.at(1);
    while (d.next()) {
      if (d.field() == 3)
        ranks_[uuid] = static_cast<std::int64_t>(numbers(d.message()).at(1)) - 1;
      if (d.field() == 4) threads_[uuid] = texts(d.message()).at(5);
      if (d.field() == 2 && d.text() == "live bytes") sums_.insert(uuid);
    }
    if (top.contains(5)) ranks_[uuid] = ranks_.at(top.at(5));
  }
  void track_event(core::ProtoReader e, std::int64_t at) {
    const auto fields = numbers(e);
    const std::uint64_t track = fields.at(11);
    const std::int64_t rank = ranks_.at(track);
    if (fields.at(9) == 1) {
      CHECK(!open_[track]);
      open_[track] = {names_.at(fields.at(10)), at};
      for (const int flow : {47, 48})
        if (fields.contains(flow))
          shown_.messages[static_cast<std::int64_t>(fields.at(flow))].insert(rank);
    } else if (fields.at(9) == 2) {
      REQUIRE(open_[track]);
      const auto [name, start] = *open_[track];
      shown_.slices.insert({rank, threads_.at(track), name, start, at - start});
      open_[track].reset();
    } else if (sums_.contains(track)) {
      shown_.live.insert({rank, at, static_cast<std::int64_t>(fields.at(30))});
    }
  }

  Shown shown_;
  std::map<std::uint64_t, std::string> names_, threads_;
  std::map<std::uint64_t, std::int64_t> ranks_;
  std::set<std::uint64_t> sums_;
  std::map<std::uint64_t, std::optional<std::pair<std::string, std::int64_t>>> open_;
};

}  // namespace

TEST_CASE("Perfetto's packets show what the JSON shows, in fewer bytes") {
  const auto detail = GENERATE(TraceDetail::block, TraceDetail::op);
  const program::Program p = two_stages(4);
  const engine::Scene scene(p, round_machine(), {.parts = true});
  std::vector<engine::Played> record;
  engine::run(scene, {.record = &record});
  const std::string json = engine::write_trace(scene, record, {detail}).value().bytes;
  const std::string packets =
      engine::write_trace(scene, record, {detail, {.format = program::TraceFormat::perfetto}})
          .value()
          .bytes;
  const Shown shown = shown_in_json(json);
  CHECK(shown.slices.size() > 100);
  CHECK(shown.messages.size() > 10);
  CHECK(PacketReader().read(packets) == shown);
  CHECK(packets.size() < json.size() / 2);
}

TEST_CASE("of a part of the micro-batches a trace shows those, the step's end and its live bytes") {
  const program::Program p = two_stages(1);
  const engine::Scene scene(p, round_machine(), {.parts = true});
  std::vector<engine::Played> record;
  engine::run(scene, {.record = &record});
  const Shown all = shown_in_json(engine::write_trace(scene, record).value().bytes);
  program::TraceChoice choice;
  choice.ranks = program::IndexRanges{{1, 1}};
  choice.micro_batches = program::IndexRanges{{1, 2}};
  const std::string text = engine::write_trace(scene, record, {{}, choice}).value().bytes;
  std::set<std::string> passes;
  for (const Json& e : events(text)) {
    CHECK(e.at("pid").as_int64() == 1);
    CHECK((phase(e) != "s" && phase(e) != "f"));  // the other end is not shown
    if (phase(e) == "X" && e.at("cat").as_string() == "pass")
      passes.insert(e.at("name").as_string());
  }
  CHECK(passes == std::set<std::string>{"begin 0", "forward 1", "forward 2", "backward 1",
                                        "backward 2", "end 4"});
  const Shown some = shown_in_json(text);
  for (const auto& slice : some.slices) CHECK(all.slices.contains(slice));
  for (const auto& point : some.live) CHECK(all.live.contains(point));
  CHECK(some.live.size() < all.live.size() / 2);
  CHECK(some.live.size() > 10);
}
