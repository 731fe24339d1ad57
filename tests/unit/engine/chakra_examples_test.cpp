// ASTRA-sim's own example traces (tests/chakra/README.md), played on a machine of round numbers.
//
// Every rank of these examples reaches a link of 1 us and 100 GB/s. A part of 1 MiB / 4 takes
// 2.62144 us on it, one of 1 MiB / 8 takes 1.31072 us, and 1 MiB takes 10.48576 us.
#include <fstream>
#include <iterator>

#include "core/random.hpp"
#include "sim/chakra/version.hpp"
#include "tests/unit/cost/machine_for_tests.hpp"
#include "tests/unit/engine/chakra_files.hpp"

using engine_test::Hand;
using namespace engine::chakra;

namespace {

constexpr std::int64_t kNano = 1'000;  // picoseconds
constexpr std::int64_t kMiB = 1 << 20;

std::string example_bytes(const std::string& name) {
  std::ifstream in(PLANNER_CHAKRA_EXAMPLES "/" + name, std::ios::binary);
  INFO(name);
  REQUIRE(in);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

std::vector<engine::ChakraTrace> example(const std::string& prefix, int ranks) {
  std::vector<engine::ChakraTrace> traces;
  for (int rank = 0; rank < ranks; ++rank) {
    const std::string name = prefix + '.' + std::to_string(rank) + ".et";
    auto trace = engine::read_chakra(name, example_bytes(name), rank);
    INFO((trace.ok() ? "" : core::to_text(trace.problems())));
    REQUIRE(trace.ok());
    traces.push_back(std::move(trace).value());
  }
  return traces;
}

struct PlayedExample {
  engine::ChakraOutcome outcome;
  std::vector<engine::ChakraTraffic> traffic;
};

PlayedExample played_example(const std::vector<engine::ChakraTrace>& traces) {
  cost::Machine m = round_machine();
  m.gpus_per_node = 8;
  auto tasks = engine::match_chakra(traces, {}, &m);
  INFO((tasks.ok() ? "" : core::to_text(tasks.problems())));
  REQUIRE(tasks.ok());
  const auto outcome = engine::play_chakra(traces, *tasks);
  INFO((outcome.ok() ? "" : core::to_text(outcome.problems())));
  REQUIRE(outcome.ok());
  return {*outcome, std::move(tasks->traffic)};
}

// One collective per rank: its bytes and its time, in nanoseconds.
void check_collective(const std::string& prefix, int ranks, std::string_view collective,
                      std::int64_t payload, std::int64_t wire, double nanoseconds) {
  INFO(prefix);
  const PlayedExample p = played_example(example(prefix, ranks));
  CHECK(p.outcome.nodes == static_cast<std::uint64_t>(ranks));
  REQUIRE(p.traffic.size() == 1);
  CHECK(p.traffic[0].collective == collective);
  CHECK(p.traffic[0].group_size == ranks);
  CHECK(p.traffic[0].count == 1);
  CHECK(p.traffic[0].payload == payload);
  CHECK(p.traffic[0].wire == wire);
  const auto expected = static_cast<std::int64_t>(nanoseconds * kNano + 0.5);
  CHECK(p.outcome.makespan == expected);
  CHECK(p.outcome.exposed_communication == expected);
  for (const std::int64_t period : p.outcome.periods) CHECK(period == expected);
}

core::Problem refused_version(const std::string& bytes) {
  const auto trace = engine::read_chakra("old.0.et", bytes, 0);
  REQUIRE_FALSE(trace.ok());
  CHECK(trace.problems().front().expected == kReadVersions);
  return trace.problems().front();
}

std::string delimited(const std::vector<core::ProtoMessage>& messages) {
  std::string bytes;
  for (const core::ProtoMessage& m : messages) m.append_delimited(bytes);
  return bytes;
}

core::ProtoMessage metadata_of(std::string_view version) {
  core::ProtoMessage m;
  m.text(kVersion, version);
  return m;
}

}  // namespace

TEST_CASE("ASTRA-sim's microbenchmarks take what their steps take by hand") {
  // A ring all-reduce of 4: 2 x 3 steps of a quarter, 6 x (1 + 2.62144) us.
  check_collective("all_reduce/all_reduce", 4, "all_reduce", kMiB, kMiB * 3 / 2, 21'728.64);
  // Each rank gives 1 MiB: 3 steps of it.
  check_collective("all_gather/all_gather", 4, "all_gather", 4 * kMiB, 3 * kMiB, 34'457.28);
  // Of 1 MiB, each rank keeps a quarter: 3 steps of a quarter.
  check_collective("reduce_scatter/reduce_scatter", 4, "reduce_scatter", kMiB, kMiB * 3 / 4,
                   10'864.32);
  // All three quarters at once.
  check_collective("all_to_all/all_to_all", 4, "all_to_all", kMiB, kMiB * 3 / 4, 8'864.32);
  // Of 8 ranks, by the generator of 2024: 14 x (1 + 1.31072) us.
  check_collective("all_reduce_2024/AllReduce_1MB", 8, "all_reduce", kMiB, kMiB * 7 / 4,
                   32'350.08);
}

TEST_CASE("ASTRA-sim's ring of messages sends first on all ranks, and takes the ring's time") {
  // Each of 8 ranks: 14 times a send of an eighth and a receive, and after each of the first
  // seven receives 7 us of reduction. Each waits for the one before: 32.35008 us + 7 x 7 us.
  const PlayedExample p = played_example(example("ring_of_messages/custom_allreduce", 8));
  CHECK(p.outcome.nodes == 8 * (14 + 14 + 7));
  CHECK(p.outcome.makespan == 81'350'080);
  CHECK(p.outcome.period == 81'350'080);
  CHECK(p.outcome.compute == 49'000'000);
  CHECK(p.outcome.exposed_communication == 32'350'080);
  REQUIRE(p.traffic.size() == 1);
  CHECK(p.traffic[0].collective == "send");
  CHECK(p.traffic[0].count == 14);
  CHECK(p.traffic[0].wire == 14 * kMiB / 8);
}

TEST_CASE("ASTRA-sim's ResNet-50 of 2023, which states no version, keeps its first node") {
  // Two of its 64 ranks. The computation of a rank takes 1,082,450 us without a gap; the last
  // all-reduce, of 37,632 bytes, follows it: 2 x (1 us + 0.18816 us).
  const auto traces = example("resnet50_2023/resnet50_DataParallel", 2);
  REQUIRE(traces[0].nodes.size() == 215);
  CHECK(traces[0].nodes[0].duration == 13'003'000'000);
  CHECK(traces[1].nodes[0].id == 215);
  const PlayedExample p = played_example(traces);
  CHECK(p.outcome.compute == 1'082'450'000'000);
  CHECK(p.outcome.makespan == 1'082'450'000'000 + 2'376'320);
  REQUIRE(p.traffic.size() == 1);
  CHECK(p.traffic[0].count == 54);
  CHECK(p.traffic[0].payload == 102'011'648);
  CHECK(p.traffic[0].wire == 102'011'648);  // a ring of 2 sends 2 x 1/2 of it
}

TEST_CASE("versions of the schema that are read: 0.0.4, 1.x, and files without one") {
  const Hand node(7, kComp, {}, 3);
  core::ProtoMessage attribute, attributes;
  attribute.text(kAttributeName, "schema");
  attributes.message(1, attribute);    // of October 2023, where attributes were field 1
  for (const auto& first : {metadata_of("0.0.4"), metadata_of("1.0.0"),
                            metadata_of("1.0.2-chakra.0.0.4"), core::ProtoMessage(), attributes}) {
    const auto read = engine::read_chakra("a.0.et", delimited({first, node.message}), 0);
    REQUIRE(read.ok());
    CHECK(read->nodes.size() == 1);
  }
  const auto bare = engine::read_chakra("a.0.et", delimited({node.message, Hand(8, 4).message}), 0);
  REQUIRE(bare.ok());
  CHECK(bare->nodes.size() == 2);
}

TEST_CASE("other versions of the schema are refused by their number") {
  CHECK(refused_version(delimited({metadata_of("2.0.0")})).found == "version 2.0.0");
  CHECK(refused_version(delimited({metadata_of("0.0.5")})).found == "version 0.0.5");
  // 0.0.1: COMP_NODE is 3, then COMM_COLL_NODE, 6, with comm_type 13 and comm_size 18.
  core::ProtoMessage computes, reduces;
  computes.number(1, 0);
  computes.number(3, 3);
  computes.number(7, 5);               // simulated_run_time
  reduces.number(1, 1);
  reduces.number(3, 6);
  reduces.number(4, 0);                // parent
  reduces.number(13, 1);
  reduces.number(18, 1024);
  const core::Problem first = refused_version(delimited({computes, reduces}));
  CHECK(first.found == "version 0.0.1");
  CHECK(first.where == "old.0.et: byte 7");
  CHECK(first.fix == "write the trace with Chakra 0.0.4 or later");
  // 0.0.3, with the empty metadata of August 2023: attributes are field 11, inputs field 5.
  core::ProtoMessage attribute, node;
  attribute.text(1, "runtime");
  attribute.number(2, 3);
  attribute.number(7, 12);
  node.number(1, 0);
  node.number(3, kComp);
  node.text(5, "[[4, 5]]");
  node.message(11, attribute);
  CHECK(refused_version(delimited({node})).found == "version 0.0.2 or 0.0.3");
  CHECK(refused_version(delimited({{}, node})).found == "version 0.0.2 or 0.0.3");
  // Later versions may add such a field.
  CHECK(engine::read_chakra("a.0.et", delimited({metadata_of("1.1.0"), Hand(1, kComp).message}), 0)
            .ok());
  Hand more(1, kComp, {}, 5);
  more.message.message(11, attribute);
  CHECK(engine::read_chakra("a.0.et", delimited({metadata_of("1.1.0"), more.message}), 0).ok());
}

TEST_CASE("control dependencies are an order, unless the file leaves out some of their nodes") {
  // As PyTorch's traces have it: node 2 names its caller, 3, which needs what 2 computes.
  const auto read = [](std::uint64_t caller_of_3) {
    Hand called(2, kComp, {}, 5);
    called.message.number(kControlDeps, 3);
    Hand caller(3, kComp, {2}, 7);
    caller.message.number(kControlDeps, caller_of_3);
    std::vector<engine::ChakraTrace> traces;
    traces.push_back(
        engine::read_chakra("a.0.et", engine_test::file_of({called, caller, Hand(4, kComp)}), 0)
            .value());
    return traces;
  };
  const auto callers = read(1);        // which is not there
  CHECK(callers[0].dependencies == std::vector<std::uint32_t>{0});
  CHECK(callers[0].nodes[0].dependencies == 0);
  CHECK(callers[0].nodes[1].dependencies == 1);
  CHECK(played_example(callers).outcome.makespan == 12'000'000);
  const auto order = read(4);
  CHECK(order[0].dependencies == std::vector<std::uint32_t>{1, 0, 2});
  const auto tasks = engine::match_chakra(order, {}, nullptr);
  CHECK_FALSE(engine::play_chakra(order, *tasks).ok());
}

TEST_CASE("messages without recorded times do not wait for their receives, recorded ones do") {
  // Rank 0 sends 1 MB, 1 + 10 us, and computes for 3 us; rank 1 computes for 50 us, then receives.
  const auto ranks = [](std::uint64_t micros) {
    Hand send = Hand(0, kSend, {}, micros).with("comm_dst", 1).with("comm_size", 1'000'000);
    Hand receive = Hand(1, kReceive, {0}, micros).with("comm_src", 0).with("comm_size", 1'000'000);
    return engine_test::traces_of({{send, Hand(1, kComp, {0}, 3)}, {Hand(0, kComp, {}, 50),
                                                                    receive}});
  };
  // The message has arrived before the receive begins.
  CHECK(played_example(ranks(0)).outcome.makespan == 50'000'000);
  CHECK(played_example(ranks(0)).outcome.periods[0] == 14'000'000);
  // As recorded, both meet at 50 us; rank 0 ends 3 us after the message.
  CHECK(played_example(ranks(11)).outcome.makespan == 64'000'000);
  // Two messages of a rank take turns, and the second arrives at 22 us.
  const auto both = engine_test::traces_of(
      {{Hand(0, kSend).with("comm_dst", 1).with("comm_size", 1'000'000),
        Hand(1, kSend).with("comm_dst", 1).with("comm_size", 1'000'000)},
       {Hand(0, kReceive).with("comm_src", 0).with("comm_size", 1'000'000),
        Hand(1, kReceive).with("comm_src", 0).with("comm_size", 1'000'000),
        Hand(2, kComp, {1}, 4)}});
  CHECK(played_example(both).outcome.makespan == 26'000'000);
}

TEST_CASE("any byte changed in one rank's messages gives a time or a reason") {
  const std::string good = example_bytes("ring_of_messages/custom_allreduce.0.et");
  std::vector<engine::ChakraTrace> traces = example("ring_of_messages/custom_allreduce", 8);
  const cost::Machine m = round_machine();
  const core::Random random(1, 0x72696e67);
  int refused = 0, stuck = 0, played = 0;
  for (std::uint64_t i = 0; i < 3000; ++i) {
    std::string bytes = good;
    const std::size_t at = random.below(2 * i, bytes.size());
    bytes[at] = static_cast<char>(random.below(2 * i + 1, 256));
    INFO("draw " << i << ", byte " << at);
    auto first = engine::read_chakra("a.0.et", bytes, 0);
    if (!first.ok()) {
      ++refused;
      continue;
    }
    traces[0] = std::move(first).value();
    const auto tasks = engine::match_chakra(traces, {}, &m);
    if (!tasks.ok()) {
      ++refused;
      continue;
    }
    const auto outcome = engine::play_chakra(traces, *tasks);
    if (!outcome.ok()) ++stuck;
    else if (outcome->period == outcome->compute + outcome->exposed_communication +
                                    outcome->waiting) ++played;
  }
  CHECK(refused > 500);
  CHECK(stuck > 0);
  CHECK(played > 500);
  CHECK(refused + stuck + played == 3000);
}
