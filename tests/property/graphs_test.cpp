// Operator graphs, executed: what many ranks train equals, bit by bit, what one rank trains that
// walks the model file's operators; memory and traffic are the prediction to the byte; and a graph
// that is cut between two ranks trains what one rank trains.
#include <cmath>

#include "planner/strategy/graph_cut.hpp"
#include "tests/catch.hpp"
#include "tests/graph_model.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"
#include "tests/random_graph.hpp"

using namespace planner;
using namespace tests;
using models::ModelSpec;
using Kind = models::OperatorSpec::Kind;

namespace {

// AlexNet's shape: two towers that meet after the second layer, after the third, and behind each
// layer of neurons.
ModelSpec small_alexnet() {
  std::string text;
  const auto add = [&](const std::string& name, const std::string& kind, const std::string& inputs,
                       const std::string& rest = "") {
    text += (text.empty() ? "" : ",\n") + std::string(R"({"name": ")") + name +
            R"(", "kind": ")" + kind + R"(", "inputs": [)" + inputs + "]" +
            (rest.empty() ? "" : ", " + rest) + "}";
  };
  const auto quoted = [](const std::string& name) { return "\"" + name + "\""; };
  const auto towers = [&](const std::string& base) {
    return quoted(base + ".a") + ", " + quoted(base + ".b");
  };
  for (const std::string t : {".a", ".b"}) {
    add("conv1" + t, "convolution", R"("x")", R"("channels": 4, "kernel": 5, "stride": 2,
        "padding": 1)");
    add("relu1" + t, "relu", quoted("conv1" + t));
    add("norm1" + t, "local_response_norm", quoted("relu1" + t));
    add("pool1" + t, "max_pool", quoted("norm1" + t), R"("kernel": 3, "stride": 2)");
    add("conv2" + t, "convolution", quoted("pool1" + t), R"("channels": 6, "kernel": 3,
        "padding": 1)");
    add("relu2" + t, "relu", quoted("conv2" + t));
  }
  add("maps", "concat", towers("relu2"));
  for (const std::string t : {".a", ".b"}) {
    add("conv3" + t, "convolution", R"("maps")", R"("channels": 4, "kernel": 3, "padding": 1,
        "groups": 2)");
    add("relu3" + t, "relu", quoted("conv3" + t));
    add("pool3" + t, "max_pool", quoted("relu3" + t), R"("kernel": 3, "stride": 2)");
  }
  add("maps3", "concat", towers("pool3"));
  add("features", "flatten", R"("maps3")");
  for (const std::string t : {".a", ".b"}) {
    add("fc4" + t, "linear", R"("features")", R"("features": 10)");
    add("relu4" + t, "relu", quoted("fc4" + t));
    add("drop4" + t, "dropout", quoted("relu4" + t));
  }
  add("neurons", "concat", towers("drop4"));
  add("fc5", "linear", R"("neurons")", R"("features": 7)");
  return graph_model(text, "[3, 24, 22]", "cross_entropy");
}

// The operators that AlexNet has not: rows of features, norms, gelu, sums, averages; the input is
// read by two, of which one alone has a gradient.
ModelSpec of_rows() {
  return graph_model(R"({"name": "a", "kind": "linear", "inputs": ["x"], "features": 6},
      {"name": "act", "kind": "gelu", "inputs": ["a"]},
      {"name": "a_norm", "kind": "layer_norm", "inputs": ["act"]},
      {"name": "sum", "kind": "add", "inputs": ["a", "a_norm"]},
      {"name": "wide", "kind": "concat", "inputs": ["x", "sum", "act"]},
      {"name": "b", "kind": "linear", "inputs": ["wide"], "features": 6, "bias": false},
      {"name": "r", "kind": "relu", "inputs": ["b"]},
      {"name": "sum2", "kind": "add", "inputs": ["b", "r"]},
      {"name": "drop", "kind": "dropout", "inputs": ["sum2"]},
      {"name": "out", "kind": "linear", "inputs": ["drop"], "features": 5})",
                "[3, 4]", "cross_entropy");
}

ModelSpec of_images() {
  return graph_model(R"({"name": "a", "kind": "convolution", "inputs": ["x"], "channels": 3,
       "kernel": 3, "padding": 1, "bias": false},
      {"name": "mean", "kind": "average_pool", "inputs": ["a"], "kernel": 3, "stride": 1,
       "padding": 1},
      {"name": "both", "kind": "concat", "inputs": ["x", "mean", "a"]},
      {"name": "norm", "kind": "local_response_norm", "inputs": ["both"], "window": 4},
      {"name": "b", "kind": "convolution", "inputs": ["norm"], "channels": 2, "kernel": 2,
       "stride": 2}, {"name": "g", "kind": "gelu", "inputs": ["b"]})",
                "[2, 6, 5]", "squared_error");
}

// A residual block as ResNets have it, on images; a norm of channels of features.
ModelSpec of_batch_norms() {
  return graph_model(R"({"name": "a", "kind": "convolution", "inputs": ["x"], "channels": 4,
       "kernel": 3, "padding": 1, "bias": false},
      {"name": "a_norm", "kind": "batch_norm", "inputs": ["a"]},
      {"name": "a_relu", "kind": "relu", "inputs": ["a_norm"]},
      {"name": "b", "kind": "convolution", "inputs": ["a_relu"], "channels": 4, "kernel": 3,
       "padding": 1, "bias": false},
      {"name": "b_norm", "kind": "batch_norm", "inputs": ["b"]},
      {"name": "sum", "kind": "add", "inputs": ["b_norm", "a_relu"]},
      {"name": "relu", "kind": "relu", "inputs": ["sum"]},
      {"name": "mean", "kind": "average_pool", "inputs": ["relu"], "kernel": 5},
      {"name": "features", "kind": "flatten", "inputs": ["mean"]},
      {"name": "fc", "kind": "linear", "inputs": ["features"], "features": 6},
      {"name": "fc_norm", "kind": "batch_norm", "inputs": ["fc"]},
      {"name": "fc_relu", "kind": "relu", "inputs": ["fc_norm"]},
      {"name": "out", "kind": "linear", "inputs": ["fc_relu"], "features": 5})",
                "[2, 5, 5]", "cross_entropy");
}

// Windows of Inception's branches, 1 x 7 and 7 x 1, and a pool of unlike sizes and strides.
ModelSpec of_windows() {
  return graph_model(R"({"name": "a", "kind": "convolution", "inputs": ["x"], "channels": 4,
       "kernel": [1, 7], "padding": [0, 3], "bias": false},
      {"name": "a_norm", "kind": "batch_norm", "inputs": ["a"]},
      {"name": "a_relu", "kind": "relu", "inputs": ["a_norm"]},
      {"name": "b", "kind": "convolution", "inputs": ["a_relu"], "channels": 4,
       "kernel": [7, 1], "padding": [3, 0]},
      {"name": "mean", "kind": "average_pool", "inputs": ["x"], "kernel": [3, 1], "stride": 1,
       "padding": [1, 0]},
      {"name": "both", "kind": "concat", "inputs": ["b", "mean"]},
      {"name": "pool", "kind": "max_pool", "inputs": ["both"], "kernel": [2, 3],
       "stride": [1, 2], "padding": [0, 1]},
      {"name": "c", "kind": "convolution", "inputs": ["pool"], "channels": 3, "kernel": [1, 2],
       "stride": [2, 1]})",
                "[2, 6, 5]", "squared_error");
}

// A norm reads the model's input: its own gradients alone are wanted.
ModelSpec of_norms() {
  return graph_model(R"({"name": "x_norm", "kind": "layer_norm", "inputs": ["x"]},
      {"name": "a", "kind": "linear", "inputs": ["x_norm"], "features": 5},
      {"name": "a_norm", "kind": "layer_norm", "inputs": ["a"]},
      {"name": "b", "kind": "linear", "inputs": ["a_norm"], "features": 4})",
                "[6]", "squared_error");
}

void check_both(const ModelSpec& spec, const Strategy& s, const std::string& recipe = "fp32",
                std::int64_t batch = 12) {
  check_equal(spec, tiny_job(spec, batch, recipe), s);
  check_cell(spec, {"graph", s, 0}, recipe, batch);
}

Strategy cut(std::int64_t data, std::int64_t micro_batch) {
  Strategy s = strategy(data, 12, micro_batch, stages(2, Schedule::naive));
  s.partition = Partition::operators;
  return s;
}

// Of a cut: one rank's run, with the same division into micro-batches.
ProgramRun alone(const ModelSpec& spec, const Job& job, const Strategy& s) {
  Strategy one = s;
  one.pipeline = 1;
  one.schedule = Schedule::none;
  one.partition = Partition::layers;
  one.parts.clear();
  return run_program(spec, job, one, kSteps, kSeed);
}

void check_cut(const ModelSpec& spec, const Strategy& s, const std::string& recipe = "fp32") {
  const Job job = tiny_job(spec, 12, recipe);
  INFO(to_text(s) << " " << recipe);
  const ProgramRun parts = run_program(spec, job, s, kSteps, kSeed), whole = alone(spec, job, s);
  CHECK(parts.replicas_agree);
  check_prediction(parts);
  CHECK(parts.losses == whole.losses);
  REQUIRE(parts.weights.size() == whole.weights.size());
  for (const auto& [path, values] : whole.weights) {
    INFO(path);
    CHECK(parts.weights.at(path) == values);
  }
}

}  // namespace

TEST_CASE("one rank trains operator graphs as the reference does, in every recipe") {
  for (const ModelSpec& spec : {small_alexnet(), of_rows(), of_images(), of_norms(),
                                of_batch_norms(), of_windows()})
    for (const char* recipe : {"fp32", "mixed", "lean", "megatron", "fsdp2", "pure_bf16", "fp64"})
      check_both(spec, strategy(1, 12, 2), recipe);
}

TEST_CASE("operator graphs on 2, 3 and 4 data ranks, sharded or not, equal the reference") {
  for (const ModelSpec& spec : {small_alexnet(), of_rows()}) {
    for (const std::int64_t k : {2, 4})
      for (const auto& change : {ring, tree}) check_both(spec, strategy(k, 12, 1, change));
    for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
      for (const std::int64_t k : {2, 3}) check_both(spec, strategy(k, 12, 2, sharded(z)));
    check_both(spec, strategy(4, 12, 1, sharded(Sharding::zero3)), "mixed");
    check_both(spec, strategy(2, 12, 1, servers(2, true)));
  }
}

TEST_CASE("norms of channels see a micro-batch of their own rank, however ranks share the work") {
  const ModelSpec spec = of_batch_norms();
  for (const std::int64_t k : {2, 3}) check_both(spec, strategy(k, 12, 2, ring));
  for (const Sharding z : {Sharding::zero1, Sharding::zero3})
    check_both(spec, strategy(2, 12, 3, sharded(z)));
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b})
    check_both(spec, strategy(1, 12, 3, stages(2, schedule)));
  for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::memory_poor})
    check_both(spec, strategy(2, 12, 3, recomputing(c)), "mixed");
  // Another micro-batch has other means.
  const Job job = tiny_job(spec, 12);
  CHECK(run_program(spec, job, strategy(1, 12, 2), 1, kSeed).losses !=
        run_program(spec, job, strategy(1, 12, 3), 1, kSeed).losses);
}

TEST_CASE("operator graphs in pipelines and recomputed equal the reference, dropout as well") {
  for (const Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b})
    check_both(small_alexnet(), strategy(1, 12, 2, stages(2, schedule)));
  check_both(small_alexnet(), strategy(2, 12, 1, stages(2, Schedule::one_f_one_b)), "mixed");
  for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::memory_poor})
    check_both(small_alexnet(), strategy(2, 12, 2, recomputing(c)));
}

TEST_CASE("operator graphs in pipelines without flush train as their delayed weights say") {
  constexpr std::int64_t kManySteps = 4;
  for (const Schedule schedule : {Schedule::pipedream_2bw, Schedule::pipedream}) {
    const std::int64_t batch = schedule == Schedule::pipedream ? 4 : 12;
    Strategy s = strategy(2, batch, 2, stages(2, schedule));
    sharded(Sharding::zero1)(s);
    INFO(to_text(s));
    const Job job = tiny_job(small_alexnet(), batch);
    const ProgramRun run = run_program(small_alexnet(), job, s, kManySteps, kSeed);
    CHECK(difference(run, reference(small_alexnet(), job, run.program, s, kManySteps)) == "");
    check_prediction(run, kManySteps);
  }
}

TEST_CASE("dropout changes what is trained, and every step draws anew") {
  ModelSpec spec = small_alexnet();
  const Job job = tiny_job(spec, 12);
  const auto with = run_program(spec, job, strategy(1, 12, 2), 1, kSeed).losses;
  for (models::OperatorSpec& op : spec.graph.operators)
    if (op.kind == Kind::dropout) op.kind = Kind::relu;
  CHECK(with != run_program(spec, job, strategy(1, 12, 2), 1, kSeed).losses);
}

TEST_CASE("random graphs equal the reference, and their memory is the prediction") {
  constexpr std::uint64_t kGraphs = 3;
  int executed = 0;
  for (std::uint64_t i = 0; i < 60; ++i) {
    Draws random{core::Random(kGraphs, i)};
    const ModelSpec spec = random_graph(
        random, {.kinds = {Kind::convolution, Kind::relu, Kind::dropout, Kind::gelu,
                           Kind::local_response_norm, Kind::max_pool, Kind::average_pool,
                           Kind::batch_norm},
                 .follows = true});
    INFO("seed " << kGraphs << " case " << i << " " << models::spec_to_json(spec, 0));
    REQUIRE(models::check_spec(spec).empty());
    check_both(spec, strategy(1, 4, 2), "fp32", 4);
    ++executed;
  }
  CHECK(executed == 60);
}

TEST_CASE("a small AlexNet cut into towers trains the bits of one rank, and sends what is stated") {
  check_cut(small_alexnet(), cut(1, 12));
  check_cut(small_alexnet(), cut(1, 2));
  check_cut(small_alexnet(), cut(1, 3), "fp64");
  // By hand: one tower each, the classes with the first.
  const ModelSpec spec = small_alexnet();
  Strategy s = cut(1, 4);
  for (const models::OperatorSpec& op : spec.graph.operators)
    s.parts.push_back(op.name.ends_with(".b") ? 2 : 1);
  check_cut(spec, s);
  const ProgramRun run = run_program(spec, tiny_job(spec, 12), s, 1, kSeed);
  // conv1 gives 11 x 10 places, pool1 5 x 4: relu2 6 x 5 x 4, pool3 4 x 2 x 1, drop4 10. Maps
  // and their gradients both ways, neurons to the classes and their gradient back: of four bytes.
  for (const RankResult& rank : run.ranks) {
    REQUIRE(rank.traffic.size() == 1);
    const exec::TrafficTotals& sent = rank.traffic.begin()->second;
    CHECK(sent.wire.value() == 4 * 12 * (2 * 6 * 5 * 4 + 2 * 4 * 2 * 1 + 10));
    CHECK(sent.calls == 3 * 5);
  }
}

TEST_CASE("cuts with copies of both parts, sharded or not, train what the copies train whole") {
  Strategy s = cut(2, 2);
  check_cut(small_alexnet(), s);
  sharded(Sharding::zero1)(s);
  check_cut(small_alexnet(), s);
}

TEST_CASE("a cut in 16 bits trains what one rank trains, within the rounding of what crosses") {
  const ModelSpec spec = small_alexnet();
  const Job job = tiny_job(spec, 12, "mixed");
  const ProgramRun parts = run_program(spec, job, cut(1, 2), kSteps, kSeed);
  check_prediction(parts);
  const ProgramRun whole = alone(spec, job, cut(1, 2));
  CHECK(parts.losses[0] == whole.losses[0]);  // one forward pass: the same bits
  CHECK(std::abs(parts.losses[1] - whole.losses[1]) < 0.03 * whole.losses[1]);
}

TEST_CASE("random graphs cut by any hand train what one rank trains") {
  constexpr std::uint64_t kGraphs = 5;
  int cuts = 0;
  for (std::uint64_t i = 0; i < 40; ++i) {
    Draws random{core::Random(kGraphs, i)};
    const ModelSpec spec = random_graph(
        random, {.kinds = {Kind::convolution, Kind::relu, Kind::dropout, Kind::max_pool}});
    INFO("seed " << kGraphs << " case " << i);
    if (!can_cut(spec)) continue;
    Strategy s = strategy(1, 4, 2, stages(2, Schedule::naive));
    s.partition = Partition::operators;
    if (random.below(2) == 0)
      for (std::size_t n = 0; n < spec.graph.operators.size(); ++n)
        s.parts.push_back(1 + static_cast<std::int64_t>(random.below(2)));
    if (!s.parts.empty() && !cut_problems(spec, s.parts).empty()) continue;
    ++cuts;
    const Job job = tiny_job(spec, 4, "fp64");
    const ProgramRun parts = run_program(spec, job, s, kSteps, kSeed), whole = alone(spec, job, s);
    check_prediction(parts);
    for (std::size_t step = 0; step < parts.losses.size(); ++step)
      CHECK(parts.losses[step] == Approx(whole.losses[step]).epsilon(1e-9));
    // Three readers of one value add up in another order where they are apart.
    for (const auto& [path, shards] : whole.weights)
      for (std::size_t n = 0; n < shards[0].size(); ++n)
        CHECK(parts.weights.at(path)[0][n] == Approx(shards[0][n]).epsilon(1e-7).margin(1e-7));
  }
  CHECK(cuts > 20);
}
