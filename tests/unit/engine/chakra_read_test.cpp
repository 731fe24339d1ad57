// Execution traces of other makings, damaged ones, and what playing them takes by hand.
#include "core/random.hpp"
#include "tests/unit/cost/machine_for_tests.hpp"
#include "tests/unit/engine/chakra_files.hpp"
#include "tests/unit/engine/timed_stages.hpp"

using engine_test::file_of;
using engine_test::Hand;
using engine_test::traces_of;
using namespace engine::chakra;

namespace {

constexpr std::int64_t kMicro = 1'000'000;  // picoseconds

engine::ChakraOutcome play(const std::vector<engine::ChakraTrace>& traces,
                           const std::vector<engine::ChakraGroup>& groups = {},
                           const cost::Machine* machine = nullptr) {
  const auto tasks = engine::match_chakra(traces, groups, machine);
  INFO((tasks.ok() ? "" : core::to_text(tasks.problems())));
  REQUIRE(tasks.ok());
  return engine::play_chakra(traces, *tasks).value();
}

core::Problem read_problem(const std::string& bytes) {
  const auto trace = engine::read_chakra("bad.0.et", bytes, 0);
  REQUIRE_FALSE(trace.ok());
  return trace.problems().front();
}

core::Problem match_problem(const std::vector<engine::ChakraTrace>& traces,
                            const cost::Machine* machine = nullptr) {
  const auto tasks = engine::match_chakra(traces, {{"1", {0, 1}}, {"2", {1}}, {"9", {0, 7}}},
                                          machine);
  REQUIRE_FALSE(tasks.ok());
  return tasks.problems().front();
}

Hand all_reduce(std::uint64_t id, std::int64_t bytes, std::vector<std::uint64_t> after = {},
                std::uint64_t micros = 0) {
  return Hand(id, kCollective, std::move(after), micros)
      .with("comm_type", std::int64_t{kAllReduce})
      .with("comm_size", bytes);
}
Hand message(std::uint64_t id, bool sends, std::int64_t peer, std::int64_t bytes,
             std::vector<std::uint64_t> after = {}, std::uint64_t micros = 0) {
  return Hand(id, sends ? kSend : kReceive, std::move(after), micros)
      .with(sends ? "comm_dst" : "comm_src", peer)
      .with("comm_size", bytes)
      .with("comm_tag", std::int64_t{3});
}

}  // namespace

TEST_CASE("kernels of one rank take turns, and a collective waits for its last rank") {
  // Rank 0: 5 us and 7 us of computation without order between them, then the collective. Rank 1:
  // 20 us beside 9 us on its host. The collective starts at 20 and takes 4 us.
  const auto traces =
      traces_of({{Hand(10, kComp, {}, 5), Hand(11, kComp, {}, 7), all_reduce(12, 4096, {10, 11}, 4),
                  Hand(13, kComp, {12}, 1)},
                 {Hand(5, kComp, {}, 20), Hand(6, kComp, {}, 9).with("is_cpu_op", 1),
                  all_reduce(7, 4096, {5, 6}, 4)}});
  const engine::ChakraOutcome o = play(traces);
  CHECK(o.makespan == 25 * kMicro);
  CHECK(o.periods[1] == 24 * kMicro);
  // The second step: rank 0 begins at 25, rank 1 at 24 and comes at 44; rank 0 is done at 49.
  CHECK(o.periods[0] == 24 * kMicro);
  CHECK(o.critical_rank == 0);
  CHECK(o.compute == 13 * kMicro);
  CHECK(o.exposed_communication == 4 * kMicro);
  CHECK(o.waiting == 7 * kMicro);
}

TEST_CASE("transfers are costed on the machine, computation as recorded or by its operations") {
  // round_machine: 4 GPUs per node, 1 us and 100 GB/s inside. Ring of 2 over 2 MB: 2 x 1 us +
  // 2 MB / 100 GB/s = 22 us. A send of 1 MB: 1 + 10 us. 1e9 FLOPs at 50 TFLOP/s: 20 us + 1 us.
  const cost::Machine m = round_machine();
  const auto ring = traces_of({{all_reduce(0, 2'000'000)}, {all_reduce(0, 2'000'000)}});
  CHECK(play(ring, {}, &m).makespan == 22 * kMicro);
  const auto sent =
      traces_of({{message(0, true, 1, 1'000'000)}, {message(0, false, 0, 1'000'000)}});
  CHECK(play(sent, {}, &m).makespan == 11 * kMicro);
  const auto roofline = traces_of({{Hand(0, kComp).with("num_ops", 1'000'000'000)}});
  CHECK(play(roofline, {}, &m).makespan == 21 * kMicro);
  // An exchange of 4 MB among 4: 1 us + 3 MB / 100 GB/s.
  const auto exchange = [] {
    return std::vector{Hand(0, kCollective).with("comm_type", std::int64_t{kAllToAll})
                           .with("comm_size", 4'000'000)};
  };
  const auto four = traces_of({exchange(), exchange(), exchange(), exchange()});
  CHECK(play(four, {}, &m).makespan == 31 * kMicro);
  // A gather counts the whole: parts of 1 MB, 3 x 1 us + 3 MB / 100 GB/s.
  const auto gather = [] {
    return std::vector{Hand(0, kCollective).with("comm_type", std::int64_t{kAllGather})
                           .with("comm_size", 1'000'000)};
  };
  const auto gathered = traces_of({gather(), gather(), gather(), gather()});
  CHECK(play(gathered, {}, &m).makespan == 33 * kMicro);
  const auto tasks = engine::match_chakra(gathered, {}, &m).value();
  REQUIRE(tasks.traffic.size() == 1);
  CHECK(tasks.traffic[0].payload == 4'000'000);
  CHECK(tasks.traffic[0].wire == 3'000'000);
}

TEST_CASE("process groups come from the file, from PyTorch's metadata, or are all ranks") {
  const auto rank = [](const char* group) {
    return std::vector{all_reduce(0, 8, {}, 5).with("pg_name", group)};
  };
  CHECK(play(traces_of({rank("0"), rank("0")})).makespan == 5 * kMicro);
  CHECK(play(traces_of({rank("4"), rank("5")}), {{"4", {0}}, {"5", {1}}}).makespan == 5 * kMicro);
  const auto with_metadata = [&] {
    Hand init(7, kMetadata);
    core::ProtoMessage inputs;
    inputs.text(kIoValues, R"(['[{"pg_name": "3", "ranks": [1, 0]}]'])");
    init.message.message(kInputs, inputs);
    return std::vector{init, all_reduce(8, 8, {7}, 5).with("pg_name", "3")};
  };
  CHECK(play(traces_of({with_metadata(), with_metadata()})).makespan == 5 * kMicro);
}

TEST_CASE("damage is refused with the byte where it is") {
  const std::string good = file_of({Hand(1, kComp, {}, 3), Hand(2, kComp, {1}, 4)});
  CHECK(engine::read_chakra("good", good, 0).ok());
  CHECK(read_problem("").where == "bad.0.et: byte 0");
  CHECK(read_problem("\x1f\x8b\x08").fix == "unpack it: gunzip");
  CHECK(read_problem(good.substr(0, good.size() - 1)).expected ==
        "as many bytes as its length says");
  CHECK(read_problem(std::string(11, '\xff')).expected == "a number of at most 64 bits");
  CHECK(read_problem(good + "\x80").expected == "the rest of a number, not the end");
  CHECK(read_problem(file_of({Hand(1, kComp), Hand(1, kComp)})).found == "1 again");
  CHECK(read_problem(file_of({Hand(1, kComp, {9})})).found == "node 9");
  CHECK(read_problem(file_of({Hand(1, kComp, {}, 2'000'000'000'000)})).found == "2000000000000");
  CHECK(read_problem(file_of({all_reduce(1, -1)})).found == "-1");
  CHECK(read_problem(file_of({all_reduce(1, std::int64_t{1} << 60)})).where == "bad.0.et: byte 34");
  CHECK(read_problem(file_of({Hand(1, kCollective).with("comm_type", 10)})).found == "10");
  const auto few = engine::read_chakra("few", good, 0, 1);
  REQUIRE_FALSE(few.ok());
  CHECK(few.problems().front().expected == "at most 1 nodes in all files");
}

TEST_CASE("any byte changed or cut gives a trace or a reason, and playing it ends") {
  const auto nodes = [](std::int64_t peer, bool sends) {
    return std::vector{Hand(1, kComp, {}, 3), all_reduce(2, 64, {1}, 2).with("pg_name", "0"),
                       message(3, sends, peer, 10, {2}, 1), Hand(4, kComp, {3, 1}, 4)};
  };
  const std::string first = file_of(nodes(1, true)), second = file_of(nodes(0, false));
  const core::Random random(1, 0x6368616b);
  int refused = 0, played = 0;
  for (std::uint64_t i = 0; i < 4000; ++i) {
    std::string bytes = first;
    const std::size_t at = random.below(3 * i, bytes.size());
    if (i % 8 == 0) bytes.resize(at);
    else bytes[at] = static_cast<char>(random.below(3 * i + 1, 256));
    INFO("draw " << i << ", byte " << at);
    auto one = engine::read_chakra("a.0.et", bytes, 0);
    if (!one.ok()) {
      CHECK(one.problems().front().where.starts_with("a.0.et: byte "));
      ++refused;
      continue;
    }
    std::vector<engine::ChakraTrace> both;
    both.push_back(std::move(one).value());
    both.push_back(engine::read_chakra("a.1.et", second, 1).value());
    const auto tasks = engine::match_chakra(both, {}, nullptr);
    if (tasks.ok() && engine::play_chakra(both, *tasks).ok()) ++played;
  }
  CHECK(refused > 1000);
  CHECK(played > 200);
}

TEST_CASE("parties that do not fit are named with their file, byte and node") {
  CHECK(match_problem(traces_of({{all_reduce(0, 8, {}, 1)}, {}})).expected ==
        "the 1. collective of group \"\" on rank 1 too");
  CHECK(match_problem(traces_of({{all_reduce(0, 8, {}, 1)}, {all_reduce(4, 9, {}, 1)}})).where ==
        "t.1.et: byte 8 (node 4)");
  CHECK(match_problem(traces_of({{message(0, true, 1, 8, {}, 1)}, {}})).found ==
        "1 sends, 0 receives");
  CHECK(match_problem(traces_of({{message(0, true, 1, 8, {}, 1)}, {message(0, false, 0, 9)}}))
            .expected == "8 bytes, as t.0.et: byte 8 (node 0) sends");
  CHECK(match_problem(traces_of({{message(0, true, 5, 8, {}, 1)}, {}})).found ==
        "comm_src -1, comm_dst 5");
  CHECK(match_problem(traces_of({{all_reduce(0, 8, {}, 1).with("pg_name", "77")}, {}})).found ==
        "\"77\"");
  CHECK(match_problem(traces_of({{all_reduce(0, 8, {}, 1).with("pg_name", "2")}, {}})).found ==
        "\"2\" of 1 to 1");
  CHECK(match_problem(traces_of({{all_reduce(0, 8, {}, 1).with("pg_name", "9")}, {}})).found ==
        "\"9\" of 0 to 7");
  CHECK(match_problem(traces_of({{all_reduce(0, 8)}, {all_reduce(0, 8)}})).fix ==
        "name one: --gpu h100-sxm-80g");
  const cost::Machine m = round_machine();
  const auto odd = [] { return std::vector{all_reduce(0, 8).with("algorithm", "direct")}; };
  CHECK(match_problem(traces_of({odd(), odd()}), &m).found == "\"direct\"");
}

TEST_CASE("what can never start is said, not waited for") {
  const auto circle = traces_of({{Hand(1, kComp, {2}, 1), Hand(2, kComp, {1}, 1)}});
  const auto stuck = engine::play_chakra(circle, engine::match_chakra(circle, {}, nullptr).value());
  REQUIRE_FALSE(stuck.ok());
  CHECK(stuck.problems().front().expected == "dependencies without a circle");
  // Two groups of the same ranks, in different orders.
  const auto rank = [](const char* first, const char* second) {
    return std::vector{all_reduce(1, 8, {}, 1).with("pg_name", first),
                       all_reduce(2, 8, {1}, 1).with("pg_name", second)};
  };
  const auto crossed = traces_of({rank("1", "2"), rank("2", "1")});
  const auto locked = engine::play_chakra(
      crossed, engine::match_chakra(crossed, {{"1", {0, 1}}, {"2", {0, 1}}}, nullptr).value());
  REQUIRE_FALSE(locked.ok());
  CHECK(locked.problems().front().expected == "its other parties to come");
}
