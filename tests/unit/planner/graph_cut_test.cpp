// Graph cuts: AlexNet's towers on two GPUs, random graphs and random parts, the search for a cut.
#include "planner/strategy/graph_cut.hpp"

#include "models/zoo.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/replay.hpp"
#include "sim/program/traffic.hpp"
#include "tests/catch.hpp"
#include "tests/random_graph.hpp"
#include "tests/unit/planner/soundness.hpp"

using namespace planner;
using models::ModelSpec;
using models::OperatorSpec;
using Kind = models::OperatorSpec::Kind;
using tests::Draws;

namespace {

Strategy cut(std::int64_t micro_batch, std::int64_t grad_accum) {
  Strategy s;
  s.pipeline = 2;
  s.schedule = Schedule::naive;
  s.partition = Partition::operators;
  s.micro_batch = micro_batch;
  s.grad_accum = grad_accum;
  return s;
}

program::Program sound(const ModelSpec& spec, Strategy s) {
  Job job;
  job.seq_len = 1;
  job.global_batch = s.micro_batch * s.grad_accum * s.data;
  const auto problems = strategy_problems(spec, job, s, s.workers());
  INFO(core::to_text(problems));
  REQUIRE(problems.empty());
  s = resolve(spec, job, s);
  return planner_test::sound_program(spec, job, s, 64);
}

// Convolutions and sums of images of one size, each of an earlier value, all joined at the end.
ModelSpec random_graph(Draws& random) {
  return tests::random_graph(
      random, {.kinds = {Kind::convolution, Kind::relu, Kind::dropout, Kind::max_pool}});
}

// A tower: everything whose name ends so.
std::vector<std::int64_t> ranks_of(const ModelSpec& spec, const std::vector<std::int64_t>& parts,
                                   const std::string& ending) {
  std::vector<std::int64_t> ranks;
  for (std::size_t i = 0; i < parts.size(); ++i)
    if (spec.graph.operators[i].name.ends_with(ending)) ranks.push_back(parts[i]);
  return ranks;
}

std::int64_t trained(const program::Program& p) {
  std::int64_t sum = 0;
  for (const program::RankClass& k : p.classes) sum += k.trained_elements;
  return sum;
}

}  // namespace

TEST_CASE("AlexNet is cut as its authors did: a tower on each GPU") {
  const ModelSpec spec = *models::find_model("alexnet");
  const auto graph = models::build_graph(spec, {});
  REQUIRE(graph.ok());
  for (const std::int64_t samples : {16, 128}) {
    const std::vector<std::int64_t> parts = cut_operators(*graph, samples);
    CHECK(ranks_of(spec, parts, ".a") == std::vector<std::int64_t>(21, 1));
    CHECK(ranks_of(spec, parts, ".b") == std::vector<std::int64_t>(21, 2));
  }
}

TEST_CASE("AlexNet's towers exchange layers 2, 5 and 6 both ways, and 7 towards the classes") {
  const ModelSpec spec = *models::find_model("alexnet");
  const program::Program p = sound(spec, cut(128, 1));
  // The tower without the classes: its maps of layers 2 and 5, its neurons of layers 6 and 7, and
  // the gradients of the other's maps and of its layer 6. 128 x 13^2, 128 x 6^2, 2048 elements.
  const std::int64_t crossing = 128 * 13 * 13 + 128 * 6 * 6 + 2048;
  for (const program::TrafficEntry& e : program::traffic(p)) {
    CHECK(e.what == program::Traffic::pipeline);
    CHECK(e.count == 7);
    CHECK(e.wire.value() == 128 * 2 * (2 * crossing + 2048));
  }
  CHECK(program::traffic(p).size() == 1);
  // Every parameter lies on one GPU: 30,482,612 and the classes' 4,097,000 less their half.
  CHECK(trained(p) == 60'965'224);
  const std::int64_t tower = (60'965'224 - 4'097'000) / 2;
  CHECK(std::min(p.classes[0].trained_elements, p.classes[1].trained_elements) == tower);
}

TEST_CASE("cuts are sound with micro-batches, replicas and sharded optimizers") {
  const ModelSpec spec = *models::find_model("alexnet");
  Strategy s = cut(2, 3);
  sound(spec, s);
  s.data = 2;
  sound(spec, s);
  s.sharding = Sharding::zero1;
  s.shard_group = 2;
  sound(spec, s);
}

TEST_CASE("random graphs are cut soundly, by the search and by any hand") {
  constexpr std::uint64_t kSeed = 7;
  int cuts = 0;
  for (std::uint64_t i = 0; i < 120; ++i) {
    Draws random{core::Random(kSeed, i)};
    const ModelSpec spec = random_graph(random);
    INFO("seed " << kSeed << " case " << i);
    REQUIRE(models::check_spec(spec).empty());
    if (!can_cut(spec)) continue;
    ++cuts;
    CHECK(trained(sound(spec, cut(2, 2))) ==
          models::parameter_count(*models::build_graph(spec, {})));
    Strategy s = cut(2, 2);
    for (std::size_t n = 0; n < spec.graph.operators.size(); ++n)
      s.parts.push_back(1 + static_cast<std::int64_t>(random.below(2)));
    if (cut_problems(spec, s.parts).empty()) sound(spec, s);
  }
  CHECK(cuts > 60);
}

TEST_CASE("a cut waits for values on their wires, by hand") {
  // 0 -> 1, 2 -> 3, of 3, 4, 5 and 2 seconds; values take 1 second.
  CutGraph graph(4);
  const double times[] = {3, 4, 5, 2};
  for (std::size_t v = 0; v < 4; ++v) graph[v] = {{}, times[v], 1, true};
  for (const auto& [from, to] : {std::pair{0, 1}, {0, 2}, {1, 3}, {2, 3}})
    boost::add_edge(static_cast<std::size_t>(from), static_cast<std::size_t>(to), graph);
  CHECK(makespan(graph, {0, 0, 0, 0}) == 14);
  // 1 ends at 7 on the first rank; 2 begins at 4, ends at 9, comes back at 10.
  CHECK(makespan(graph, {0, 0, 1, 0}) == 12);
  // 2 follows 0 and ends at 8; 1 ends at 8 on the second rank, is back at 9.
  CHECK(makespan(graph, {0, 1, 0, 0}) == 11);
  // As soon: 1 ends at 7, is over at 8, and 3 follows 2 there, from 9 on.
  CHECK(bisect(graph) == std::vector<int>{0, 0, 1, 1});
}

TEST_CASE("beyond exact sizes a cut is no worse than any prefix, and uses both ranks") {
  Draws random{core::Random(11, 0)};
  CutGraph graph;
  for (std::size_t v = 0; v < 40; ++v) {
    boost::add_vertex(graph);
    graph[v].trains = true;
    graph[v].time = 1 + static_cast<double>(random.below(9));
    graph[v].message = static_cast<double>(random.below(4));
    if (v > 0) boost::add_edge(random.below(v), v, graph);
  }
  const std::vector<int> found = bisect(graph);
  CHECK(std::ranges::count(found, 0) * std::ranges::count(found, 1) > 0);
  for (std::size_t prefix = 1; prefix < 40; ++prefix) {
    std::vector<int> side(40, 0);
    std::fill_n(side.begin(), prefix, 1);
    CHECK(makespan(graph, found) <= makespan(graph, side));
  }
}

TEST_CASE("a cut that cannot be says why") {
  const ModelSpec spec = *models::find_model("alexnet");
  Job job;
  job.seq_len = 1;
  job.global_batch = 8;
  const auto first = [&](const ModelSpec& model, const Strategy& s) {
    const auto problems = strategy_problems(model, job, s, s.workers());
    return problems.empty() ? std::string() : problems.front().where;
  };
  Strategy s = cut(8, 1);
  CHECK(first(spec, s).empty());
  s.parts = {1, 2};
  CHECK(first(spec, s) == "parts");
  s.parts.assign(spec.graph.operators.size(), 1);
  CHECK(first(spec, s) == "parts");
  s = cut(8, 1);
  s.schedule = Schedule::gpipe;
  CHECK(first(spec, s) == "schedule");
  s = cut(8, 1);
  s.pipeline = 4;
  CHECK(first(spec, s) == "pipeline");
  CHECK(first(*models::find_model("mlp-mnist"), cut(8, 1)) == "partition");
  ModelSpec run = spec;
  run.graph.operators = {spec.graph.operators.begin(), spec.graph.operators.begin() + 4};
  run.layers = 0;
  run.loss = models::Loss::squared_error;
  CHECK_FALSE(can_cut(run));
}
