// What decoders have had since Llama, executed: gradients are central differences of the loss, many
// ranks train what one rank does, and memory and traffic are the prediction, to the byte.
#include <bit>
#include <random>

#include "exec/communicator/local.hpp"
#include "exec/host/optimizers.hpp"
#include "exec/interpret/interpreter.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/checker.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_close.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/decoder_specs.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

constexpr std::uint64_t kSeedOfWeights = 7;

// One step of one rank in double precision by plain gradient descent, from weights that are larger
// than a model's first ones, so that every part of the formulas matters.
class OneStep {
 public:
  explicit OneStep(const models::ModelSpec& spec)
      : spec_(spec), job_(tiny_job(spec, 2, "fp64")),
        data_(exec::DataSource::synthetic(spec, job_.seq_len, kSeed)) {
    job_.optimizer = OptimizerKind::sgd;
    const Strategy s = resolve(spec, job_, strategy(1, 2, 2));
    const auto graph = models::build_graph(spec, graph_options(job_, s));
    REQUIRE(graph.ok());
    program_ = lower(*graph, job_, s, {});
    std::mt19937_64 engine(kSeedOfWeights);
    weights_.resize(static_cast<std::size_t>(rank_class().trained_elements));
    for (double& w : weights_) w = 0.8 * (static_cast<double>(engine() >> 11) * 0x1p-53 - 0.5);
  }

  const program::RankClass& rank_class() const { return program_.classes.front(); }

  // The loss of the step with weight `at` moved; updated: what the step leaves.
  double loss(std::size_t at, double moved, std::vector<double>* updated = nullptr) {
    exec::LocalWorld world(1, {});
    double loss = 0;
    world.run([&](int rank) {
      const exec::RunContext context{program_, spec_, data_, world, kSeed};
      exec::Interpreter interpreter(context, rank);
      std::vector<double> weights = weights_;
      weights[at] += moved;
      const std::span<std::byte> stored = interpreter.state().front();
      REQUIRE(stored.size() == weights.size() * sizeof(double));
      std::memcpy(stored.data(), weights.data(), stored.size());
      interpreter.step(0);
      loss = interpreter.loss().value();
      if (updated != nullptr) *updated = interpreter.all_weights();
    });
    return loss;
  }

  std::vector<double> gradient() {
    std::vector<double> updated;
    loss(0, 0, &updated);
    const double rate = exec::default_hyper(OptimizerKind::sgd).learning_rate;
    for (std::size_t i = 0; i < updated.size(); ++i) updated[i] = (weights_[i] - updated[i]) / rate;
    return updated;
  }

 private:
  models::ModelSpec spec_;
  Job job_;
  exec::DataSource data_;
  program::Program program_;
  std::vector<double> weights_;
};

// A few elements of every parameter. The step of 1e-5 errs by its square times a third derivative,
// about 1e-9 here, and rounding by 1e-15 / 1e-5.
void check_gradients(const models::ModelSpec& spec) {
  constexpr double kStep = 1e-5;
  OneStep step(spec);
  const std::vector<double> gradient = step.gradient();
  double greatest = 0;
  for (const program::PlacedParameter& placed : step.rank_class().parameters) {
    const std::int64_t n = placed.parameter.elements;
    for (const std::int64_t i : {std::int64_t{0}, n / 3, n - 1}) {
      const auto at = static_cast<std::size_t>(placed.offset + i);
      const double slope = (step.loss(at, kStep) - step.loss(at, -kStep)) / (2 * kStep);
      INFO(spec.name << " " << placed.path << "[" << i << "]");
      CHECK(gradient[at] == Approx(slope).epsilon(1e-5).margin(1e-8));
      greatest = std::max(greatest, std::abs(slope));
    }
  }
  CHECK(greatest > 1e-3);
}

Job momentum_job(const models::ModelSpec& spec) {
  Job job = tiny_job(spec, 12, "fp64");
  job.optimizer = OptimizerKind::momentum;
  return job;
}

std::vector<Strategy> strategies(const models::ModelSpec& spec) {
  std::vector<Strategy> all{mesh(1, 2, 1), mesh(1, 3, 1), mesh(2, 2, 2, Sharding::zero1),
                            mesh(2, 2, 1, Sharding::zero3), mesh(1, 1, 2)};
  Strategy rows = mesh(2, 2, 1, Sharding::zero2);
  rows.sequence_parallel = true;
  for (const Checkpoint c : {Checkpoint::none, Checkpoint::every_k, Checkpoint::memory_poor,
                             Checkpoint::selective, Checkpoint::selective_op,
                             Checkpoint::pointwise}) {
    if (c == Checkpoint::selective_op && spec.variants.experts > 0) continue;
    recomputing(c, 1)(rows);
    all.push_back(rows);
    all.push_back(strategy(2, 12, 2, recomputing(c, 1)));
  }
  if (spec.variants.experts > 0) {
    Strategy divided = mesh(2, 2, 1, Sharding::zero1);
    divided.expert = 2;
    all.push_back(divided);
    divided.sequence_parallel = true;
    divided.expert_tensor = 1;         // each expert on one tensor rank
    all.push_back(divided);
  }
  return all;
}

models::ModelSpec with_even_tokens(models::ModelSpec spec) {
  spec.default_seq_len = 8;
  return spec;
}

}  // namespace

TEST_CASE("gradients of every variant of decoders are central differences of the loss") {
  for (const models::ModelSpec& spec : decoders()) check_gradients(spec);
}

TEST_CASE("Programs of every variant of decoders are sound under every kind of strategy") {
  for (const models::ModelSpec& odd : decoders()) {
    const models::ModelSpec spec = with_even_tokens(odd);
    const Job job = momentum_job(spec);
    for (Strategy s : strategies(spec)) {
      s = resolve(spec, job, s);
      INFO(spec.name << ", " << to_text(s));
      const auto graph = models::build_graph(spec, graph_options(job, s));
      REQUIRE(graph.ok());
      CHECK(core::to_text(program::check(lower(*graph, job, s, {}))) == "");
    }
  }
}

TEST_CASE("many ranks train every variant of decoders as one rank does") {
  for (const models::ModelSpec& odd : decoders()) {
    const models::ModelSpec spec = with_even_tokens(odd);
    const Job job = momentum_job(spec);
    const ReferenceResult expected = one_rank(spec, job);
    for (const Strategy& s : strategies(spec))
      check_close(spec, job, expected, s, kDoubleTolerance, kDoubleTolerance);
  }
}

TEST_CASE("memory and traffic of every variant of decoders equal the prediction") {
  for (const models::ModelSpec& odd : decoders()) {
    const models::ModelSpec spec = with_even_tokens(odd);
    for (const Strategy& s : strategies(spec)) check_cell(spec, {spec.name, s}, "mixed");
    check_cell(spec, {spec.name, strategy(1, 12, 2), 0, "none", "unfused"}, "fp32");
  }
}

TEST_CASE("every variant of decoders infers, and takes adapters where its matrices do") {
  for (const models::ModelSpec& spec : decoders()) {
    Job job = tiny_job(spec, 12);
    for (const std::int64_t lora : {0, 2}) {
      job.mode = lora > 0 ? Mode::finetune : Mode::inference;
      job.lora_rank = lora;
      if (lora > 0 && spec.variants.kv_rank > 0) job.lora_targets = {"o"};
      const Strategy s = resolve(spec, job, mesh(2, 2, 1));
      const auto graph = models::build_graph(spec, graph_options(job, s));
      INFO(spec.name << " lora_rank=" << lora);
      if (!graph.ok()) FAIL(core::to_text(graph.problems()));
      CHECK(core::to_text(program::check(lower(*graph, job, s, {}))) == "");
    }
  }
}

TEST_CASE("context ranks that gather keys or exchange heads train windows and sinks as one does") {
  for (models::ModelSpec spec : attention_variants()) {
    if (spec.variants.qk_norm != models::QkNorm::none) continue;
    spec = with_even_tokens(spec);
    const Job job = momentum_job(spec);
    const ReferenceResult expected = one_rank(spec, job);
    for (const ContextMethod method : {ContextMethod::gather, ContextMethod::exchange}) {
      Strategy s = strategy(2, 12, 1);
      s.context = 2;
      s.context_method = method;
      check_close(spec, job, expected, s, kDoubleTolerance, kDoubleTolerance);
      s.tensor = 3;
      check_close(spec, job, expected, s, kDoubleTolerance, kDoubleTolerance);
    }
  }
}

TEST_CASE("what does not divide over context ranks, or into chunks of the loss, is refused") {
  const auto refused = [](const models::ModelSpec& spec, Strategy s, const std::string& key) {
    const Job job = tiny_job(spec, 12);
    s = resolve(spec, job, s);
    const core::Problems problems = strategy_problems(spec, job, s, s.workers());
    INFO(spec.name << ": " << core::to_text(problems));
    return problems.size() == 1 && problems.front().where == key;
  };
  Strategy ring = strategy(1, 12, 1);
  ring.context = 2;
  ring.context_method = ContextMethod::ring;
  Strategy gather = ring;
  gather.context_method = ContextMethod::gather;
  Strategy chunks = strategy(1, 12, 1);
  chunks.loss_chunks = 2;
  for (const std::size_t i : {0, 1, 3})
    CHECK(refused(with_even_tokens(attention_variants()[i]), ring, "context_method"));
  CHECK_FALSE(refused(with_even_tokens(attention_variants()[2]), ring, "context_method"));
  CHECK(refused(with_even_tokens(tiny_latent(8)), gather, "context"));
  CHECK(refused(with_even_tokens(residual_variants()[3]), chunks, "loss_chunks"));
  CHECK(refused(with_even_tokens(residual_variants()[4]), chunks, "loss_chunks"));
}
