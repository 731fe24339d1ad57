// Batch norms over the samples of all data ranks (batch_norm=synchronised): n ranks train what one
// rank trains that has the whole batch; what they send is the prediction to the byte.
#include "tests/catch.hpp"
#include "tests/graph_model.hpp"
#include "tests/property/check_close.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;
using models::ModelSpec;

namespace {

// Norms of images and of features; one reads the model's input, one is a branch that joins again.
ModelSpec of_norms() {
  return graph_model(R"({"name": "a", "kind": "convolution", "inputs": ["x"], "channels": 4,
       "kernel": 3, "padding": 1, "bias": false},
      {"name": "a_norm", "kind": "batch_norm", "inputs": ["a"]},
      {"name": "a_relu", "kind": "relu", "inputs": ["a_norm"]},
      {"name": "x_norm", "kind": "batch_norm", "inputs": ["x"]},
      {"name": "both", "kind": "concat", "inputs": ["a_relu", "x_norm"]},
      {"name": "b", "kind": "convolution", "inputs": ["both"], "channels": 4, "kernel": [1, 3],
       "padding": [0, 1], "bias": false},
      {"name": "b_norm", "kind": "batch_norm", "inputs": ["b"]},
      {"name": "sum", "kind": "add", "inputs": ["b_norm", "a_relu"]},
      {"name": "relu", "kind": "relu", "inputs": ["sum"]},
      {"name": "mean", "kind": "average_pool", "inputs": ["relu"], "kernel": 5},
      {"name": "features", "kind": "flatten", "inputs": ["mean"]},
      {"name": "fc", "kind": "linear", "inputs": ["features"], "features": 6},
      {"name": "fc_norm", "kind": "batch_norm", "inputs": ["fc"]},
      {"name": "fc_relu", "kind": "relu", "inputs": ["fc_norm"]},
      {"name": "out", "kind": "linear", "inputs": ["fc_relu"], "features": 6})",
                "[2, 5, 5]", "cross_entropy");
}

// The whole batch of 12 in one micro-batch.
Strategy synchronised(std::int64_t data, const std::function<void(Strategy&)>& change = {}) {
  Strategy s = strategy(data, 12, 12 / data);
  s.batch_norm = BatchNorm::synchronised;
  if (change) change(s);
  return s;
}

Job double_job(const ModelSpec& spec) {
  Job job = tiny_job(spec, 12, "fp64");
  job.optimizer = OptimizerKind::momentum;
  return job;
}

void check(const ModelSpec& spec, const Strategy& s) {
  const Job job = double_job(spec);
  check_close(spec, job, one_rank(spec, job, 12), s, kDoubleTolerance, kDoubleTolerance);
  INFO(to_text(s));
  check_prediction(run_program(spec, job, s, kSteps, kSeed));
}

}  // namespace

TEST_CASE("data ranks that share statistics train what one rank trains on the whole batch") {
  for (const std::int64_t data : {1, 2, 3, 4, 6}) check(of_norms(), synchronised(data));
  // Alone, each rank has other means.
  const Job job = double_job(of_norms());
  CHECK(run_program(of_norms(), job, strategy(2, 12, 6), 1, kSeed).losses[0] !=
        Approx(one_rank(of_norms(), job, 12).losses[0]).epsilon(1e-6));
}

TEST_CASE("shared statistics go with sharding, pipelines, recomputation and divided operators") {
  for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
    check(of_norms(), synchronised(2, sharded(z)));
  for (const Schedule schedule : {Schedule::naive, Schedule::one_f_one_b})
    check(of_norms(), synchronised(2, stages(2, schedule)));
  for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::memory_poor})
    check(of_norms(), synchronised(3, recomputing(c)));
  for (const std::int64_t split : {2, 4})
    check(of_norms(), synchronised(4, [&](Strategy& s) {
            s.split = split;
            s.splits = {"a=out", "fc=in", "out=in"};
            if (split == 4) s.splits = {"a=out"};
          }));
}

TEST_CASE("several micro-batches have statistics of their own, and send what is stated") {
  const ModelSpec spec = of_norms();
  const Strategy s = strategy(2, 12, 2, [](Strategy& one) {
    one.batch_norm = BatchNorm::synchronised;
  });
  const ProgramRun run = run_program(spec, tiny_job(spec, 12, "fp32"), s, 1, kSeed);
  check_prediction(run, 1);
  CHECK(run.replicas_agree);
  // Norms of 4, 2, 4 and 6 channels: two sums each, of eight bytes, forward and backward, but for
  // the backward pass of the norm that reads the input. Of two ranks a ring sends each half twice.
  const std::int64_t forward = 2 * (4 + 2 + 4 + 6) * 8, backward = 2 * (4 + 4 + 6) * 8;
  for (const RankResult& rank : run.ranks) {
    std::int64_t wire = 0, calls = 0;
    for (const auto& [key, sent] : rank.traffic) {
      if (key.what != program::Traffic::statistics) continue;
      wire += sent.wire.value();
      calls += sent.calls;
    }
    CHECK(wire == 3 * (forward + backward));  // three micro-batches
    CHECK(calls == 3 * (4 + 3));
  }
}
