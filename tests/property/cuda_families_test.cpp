// Every family of models with the kernels of a GPU on its twin: decoders with what they have had
// since Llama, mixtures of experts, BERT, chains (cuda_test.cpp has the strategies).
#include "models/graph.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/cost/launches.hpp"
#include "tests/property/cuda_runs.hpp"
#include "tests/property/decoder_specs.hpp"

using namespace planner;
using namespace tests;

namespace {

bool has_kernels(const models::ModelGraph& graph) {
  bool all = true;
  models::for_each_segment(graph, [&](const models::Segment& segment) {
    for (const auto v : models::topological_order(segment))
      all = all && cost::has_kernels(segment.graph[v]);
  });
  return all;
}

}  // namespace

TEST_CASE("Llama, Qwen2 and Qwen3 train what one rank trains") {
  for (const auto family : {models::Family::llama, models::Family::qwen2, models::Family::qwen3}) {
    const models::ModelSpec spec = tiny_llama(family);
    const Job job = tiny_job(spec, 12);
    check(spec, job, strategy(2, 12, 2, sharded(Sharding::zero3)), kFloat);
    if (family == models::Family::llama) check(spec, job, mesh(1, 2, 1), kFloat);
  }
}

TEST_CASE("tensor ranks that share key heads train what one rank trains") {
  for (const std::int64_t kv_heads : {1, 2}) {
    models::ModelSpec spec = tiny_llama(models::Family::llama);
    spec.kv_heads = kv_heads;
    spec.default_seq_len = 8;
    Strategy rows = mesh(2, 4, 1, Sharding::zero1);
    rows.sequence_parallel = true;
    for (const Strategy& s : {mesh(1, 4, 1), rows}) check(spec, tiny_job(spec, 12), s, kFloat);
  }
}

TEST_CASE("what decoders have had since Llama trains what one rank trains") {
  int checked = 0;
  for (const models::ModelSpec& spec : decoders()) {
    INFO(spec.name);
    const Strategy single = resolve(spec, tiny_job(spec, 12), strategy(1, 12, 2));
    const auto graph = models::build_graph(spec, graph_options(tiny_job(spec, 12), single));
    REQUIRE(graph.ok());
    if (!has_kernels(*graph)) continue;
    ++checked;
    // In f64: whom a token chooses must not hang on rounding.
    const Job job = tiny_job(spec, 12, "fp64");
    check(spec, job, strategy(2, 12, 3, sharded(Sharding::zero3)), kDouble);
    Strategy rows = mesh(1, job.seq_len % 2 == 0 ? 2 : 3, 1, Sharding::zero1);
    rows.sequence_parallel = true;
    recomputing(Checkpoint::every_k)(rows);
    check(spec, job, rows, kDouble);
  }
  CHECK(checked == static_cast<int>(decoders().size()));
}

TEST_CASE("mixtures of experts train what one rank trains, wherever experts lie") {
  const models::ModelSpec spec = tiny_mixture();
  const Job job = tiny_job(spec, 12, "fp64");
  for (const std::int64_t expert : {2, 4}) {
    Strategy s = strategy(4, 12, 1, sharded(Sharding::zero1));
    s.expert = expert;
    check(spec, job, s, kDouble);
    stages(2, Schedule::one_f_one_b)(s);
    check(spec, job, s, kDouble);
  }
  Strategy whole = mesh(2, 2, 1, Sharding::zero2);  // experts that lie whole on tensor ranks
  whole.sequence_parallel = true;
  whole.expert = 4;
  whole.expert_tensor = 1;
  check(spec, job, whole, kDouble);
  // The dispatch and the experts' products of 16-bit types.
  Strategy s = strategy(2, 12, 2, sharded(Sharding::zero1));
  s.expert = 2;
  const ProgramRun half = on_twin(spec, tiny_job(spec, 12, "mixed"), s, kSteps);
  check_prediction(half);
  const ProgramRun host = run_program(spec, tiny_job(spec, 12, "mixed"), s, kSteps, kCudaSeed);
  for (std::size_t i = 0; i < host.losses.size(); ++i)
    CHECK(half.losses[i] == Approx(host.losses[i]).epsilon(kHalf.weights));
}

TEST_CASE("BERT trains what one rank trains") {
  const models::ModelSpec spec = tiny_of(models::Family::bert);
  const Job job = tiny_job(spec, 12);
  check(spec, job, strategy(2, 12, 2, sharded(Sharding::zero1)), kFloat);
  check(spec, job, mesh(1, 2, 1), kFloat);
}

TEST_CASE("OPT, whose feed-forward is a ReLU, trains what one rank trains") {
  const models::ModelSpec spec = tiny_of(models::Family::opt);
  const Job job = tiny_job(spec, 12);
  check(spec, job, strategy(2, 12, 2, sharded(Sharding::zero1)), kFloat);
  check(spec, job, mesh(1, 2, 1), kFloat);
}

TEST_CASE("chains train what one rank trains") {
  for (const auto activation :
       {models::Activation::tanh, models::Activation::relu, models::Activation::gelu_tanh})
    for (const auto loss : {models::Loss::squared_error, models::Loss::cross_entropy}) {
      models::ModelSpec spec = small_chain(4, 8);
      spec.widths = {7, 11, 5, 5, 6};
      spec.activation = activation;
      spec.loss = loss;
      check(spec, tiny_job(spec, 12), strategy(3, 12, 2, ring), kFloat);
    }
}
