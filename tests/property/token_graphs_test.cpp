// Operator graphs of tokens, executed: losses and gradients against plain loops and central
// differences; data ranks, shards and divided operators train what one rank trains; memory and
// traffic are the prediction to the byte.
#include "exec/interpret/data_source.hpp"
#include "exec/interpret/initialise.hpp"
#include "exec/training/schedule.hpp"
#include "tests/graph_model.hpp"
#include "tests/property/check_close.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/plain_graph.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;
using models::ModelSpec;

namespace {

// As Vaswani et al. have it, of one layer each: norms behind each branch.
ModelSpec encoder_decoder() {
  OperatorText t;
  const auto normed = [&](const std::string& n, const std::string& x, const std::string& branch) {
    return t.add(n + ".norm", "layer_norm", {t.add(n + ".add", "add", {x, branch})});
  };
  const std::string with_positions = R"("features": 8, "positions": true)";
  std::string x = t.add("source_rows", "embedding", {"source"}, with_positions);
  std::string y = t.add("target_rows", "embedding", {"target"}, with_positions);
  x = normed("e.self", x, t.attention("e.self", x, x, false));
  x = normed("e.ffn", x, t.feed_forward("e.ffn", x, "relu"));
  y = normed("d.self", y, t.attention("d.self", y, y, true));
  y = normed("d.cross", y, t.attention("d.cross", y, x, false));
  y = normed("d.ffn", y, t.feed_forward("d.ffn", y, "relu"));
  t.add("words", "linear", {y}, R"("features": 16, "bias": false)");
  return token_model(R"({"name": "source", "tokens": 5}, {"name": "target", "tokens": 5})", t.all);
}

// GPT's layers, norms before each branch; one of them with queries, keys and values in one value.
ModelSpec decoder() {
  OperatorText t;
  std::string x = t.add("rows", "embedding", {"text"}, R"("features": 8, "positions": true)");
  x = t.add("0.add", "add",
            {x, t.attention("0.self", t.add("0.norm", "layer_norm", {x}), "0.norm", true)});
  x = t.add("0.add2", "add",
            {x, t.feed_forward("0.ffn", t.add("0.norm2", "rms_norm", {x}), "gelu")});
  const std::string qkv = t.add("1.qkv", "linear", {t.add("1.norm", "rms_norm", {x})},
                                R"("features": 24)");
  const std::string core = t.add("1.core", "attention", {qkv}, R"("heads": 2, "causal": true)");
  x = t.add("1.add", "add", {x, t.add("1.out", "linear", {core}, R"("features": 8)")});
  t.add("words", "linear", {t.add("norm", "layer_norm", {x})}, R"("features": 16)");
  return token_model(R"({"name": "text", "tokens": 6})", t.all);
}

Job double_job(const ModelSpec& spec, OptimizerKind optimizer = OptimizerKind::momentum) {
  Job job = tiny_job(spec, 12, "fp64");
  job.optimizer = optimizer;
  return job;
}

double mean_loss(const ModelSpec& spec, const std::map<std::string, Values>& weights) {
  const auto data = exec::DataSource::synthetic(spec, 1, kSeed);
  double sum = 0;
  for (std::int64_t sample = 0; sample < 12; ++sample) {
    std::vector<std::int32_t> tokens(static_cast<std::size_t>(models::tokens_of(spec.graph)) + 1);
    data.tokens(sample, 0, tokens);
    sum += PlainGraph(spec, weights, tokens).loss();
  }
  return sum / 12;
}

class Checked {
 public:
  explicit Checked(ModelSpec spec)
      : spec_(std::move(spec)), job_(double_job(spec_)), expected_(one_rank(spec_, job_)) {}
  void operator()(const Strategy& s) const {
    check_close(spec_, job_, expected_, s, kDoubleTolerance, kDoubleTolerance);
    INFO(to_text(s));
    check_prediction(run_program(spec_, job_, s, kSteps, kSeed));
  }

 private:
  ModelSpec spec_;
  Job job_;
  ReferenceResult expected_;
};

std::function<void(Strategy&)> split(std::int64_t ways, std::vector<std::string> splits) {
  return [=](Strategy& s) {
    s.split = ways;
    s.splits = splits;
  };
}

}  // namespace

TEST_CASE("a graph of tokens has the loss of plain loops, and gradients of central differences") {
  for (const ModelSpec& spec : {encoder_decoder(), decoder(), qwen3_layers()}) {
    const Job job = double_job(spec, OptimizerKind::sgd);
    const ProgramRun run = run_program(spec, job, strategy(1, 12, 3), 1, kSeed);
    std::map<std::string, Values> weights;
    for (const program::PlacedParameter& p : run.program.classes[0].parameters)
      weights[p.path] = exec::initial_values(p, kSeed, 0, true);
    REQUIRE(weights.size() == run.weights.size());
    CHECK(run.losses[0] == Approx(mean_loss(spec, weights)).epsilon(1e-12));
    const double rate = exec::default_training(OptimizerKind::sgd).hyper.learning_rate;
    constexpr double kStep = 1e-6;     // of tables that start at 0.02, behind which norms stand
    for (const auto& [path, shards] : run.weights) {
      INFO(path);
      Values& w = weights.at(path);
      REQUIRE(shards[0].size() == w.size());
      for (std::size_t i = 0; i < w.size(); i += 1 + w.size() / 5) {
        const double own = w[i];
        w[i] = own + kStep;
        const double above = mean_loss(spec, weights);
        w[i] = own - kStep;
        const double below = mean_loss(spec, weights);
        w[i] = own;
        const double gradient = (above - below) / (2 * kStep);
        CHECK((own - shards[0][i]) / rate == Approx(gradient).epsilon(1e-6).margin(1e-8));
      }
    }
  }
}

TEST_CASE("data ranks of graphs of tokens, sharded or not and recomputed, train what one trains") {
  for (const ModelSpec& spec : {encoder_decoder(), decoder(), qwen3_layers()}) {
    const Checked check(spec);
    for (const std::int64_t data : {1, 2, 4}) check(strategy(data, 12, data == 4 ? 1 : 2));
    for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
      check(strategy(2, 12, 2, sharded(z)));
    for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::memory_poor})
      check(strategy(2, 12, 2, recomputing(c, 1)));
  }
}

TEST_CASE("a decoder of tokens trains in pipelines") {
  const Checked check(decoder());
  for (const Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b})
    check(strategy(1, 12, 2, stages(2, schedule)));
  check(strategy(2, 12, 2, stages(2, Schedule::one_f_one_b)));
}

TEST_CASE("attention divided by heads, as Megatron does and otherwise, trains what one trains") {
  const std::vector<std::string> megatron{"*.q=out",   "*.k=out",  "*.v=out",
                                          "*.out=in", "*.up=out", "*.down=in"};
  for (const std::int64_t ways : {2, 4}) {
    const Checked check(encoder_decoder());
    check(strategy(ways, 12, 1, split(ways, megatron)));
    check(strategy(ways, 12, 1, split(ways, {"d.cross.core=out"})));
    check(strategy(4, 12, 1, split(ways, {"*.q=out", "e.self.core=sample", "words=out"})));
  }
  // Grouped queries: one of each branch is named, and the others follow.
  for (const std::int64_t data : {2, 4}) {
    const Checked check(qwen3_layers());
    check(strategy(data, 12, 1, split(2, {"*.q_proj=out", "*.gate_proj=out"})));
    check(strategy(data, 12, 1,
                   split(2, {"*.core=out", "layers.1.mlp.up_proj=out",
                             "layers.1.mlp.down_proj=sample"})));
  }
  const Checked check(decoder());
  check(strategy(2, 12, 2, split(2, megatron)));
  check(strategy(2, 12, 2, split(2, {"1.qkv=out", "1.out=in"})));
  check(strategy(4, 12, 1, [&](Strategy& s) {
    split(2, megatron)(s);
    sharded(Sharding::zero3)(s);
  }));
}

TEST_CASE("a graph of tokens in 16 bits trains, with the prediction's memory and traffic") {
  const ModelSpec spec = encoder_decoder();
  const double exact = run_program(spec, double_job(spec), strategy(1, 12, 2), 1, kSeed).losses[0];
  for (const char* recipe : {"fp32", "mixed", "fsdp2"}) {
    const ProgramRun run =
        run_program(spec, tiny_job(spec, 12, recipe), strategy(2, 12, 2), kSteps, kSeed);
    check_prediction(run);
    CHECK(run.losses[0] == Approx(exact).epsilon(0.01));
    CHECK(run.losses[1] < run.losses[0]);
  }
}
