// Modules for multi-token prediction, in pipelines, on data ranks that divide state and experts,
// and on context ranks: many ranks train what one does, memory and traffic are the prediction, to
// the byte. Gradients, tensor ranks and recomputation: decoders_test.cpp, which has them too.
#include "planner/strategy/problems.hpp"
#include "planner/strategy/resolve.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_close.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/decoder_specs.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

std::vector<models::ModelSpec> models_of(std::int64_t tokens) {
  std::vector<models::ModelSpec> all = mtp_variants();
  for (models::ModelSpec& spec : all) spec.default_seq_len = tokens;
  return all;
}

// Against one rank in double precision, and against the prediction.
void check_both(const models::ModelSpec& spec, const Strategy& s) {
  INFO(spec.name);
  Job job = tiny_job(spec, 12, "fp64");
  job.optimizer = OptimizerKind::momentum;
  check_close(spec, job, one_rank(spec, job), s, kDoubleTolerance, kDoubleTolerance);
  check_cell(spec, {spec.name, s}, "mixed");
}

Strategy divided(Strategy s, const models::ModelSpec& spec) {
  if (spec.variants.experts > 0) s.expert = 2;
  return s;
}

}  // namespace

TEST_CASE("what is predicted further on changes what is trained") {
  for (models::ModelSpec spec : models_of(8)) {
    const Job with = tiny_job(spec, 12);
    spec.mtp_layers = 0;
    const Job without = tiny_job(spec, 12);
    const auto losses = [&](const Job& job) {
      return run_program(spec, job, strategy(1, 12, 2), kSteps, kSeed).losses;
    };
    INFO(spec.name);
    CHECK(losses(with).front() > losses(without).front());  // a further loss, a tenth of one
    CHECK(losses(with).front() < 1.2 * losses(without).front());
  }
}

TEST_CASE("pipelines whose last stage predicts further tokens train as one rank, in any schedule") {
  for (const models::ModelSpec& spec : models_of(8)) {
    for (const Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b,
                                    Schedule::zb_h1, Schedule::zb_h2})
      check_both(spec, divided(strategy(2, 12, 1, stages(2, schedule)), spec));
    models::ModelSpec four = spec;
    four.layers = 4;
    for (const Schedule schedule : {Schedule::interleaved, Schedule::zb_v, Schedule::dualpipe_v}) {
      Strategy s = strategy(2, 12, 1, stages(2, schedule));
      s.virtual_stages = 2;
      check_both(four, divided(s, spec));
    }
  }
}

TEST_CASE("experts of the modules are divided, reduced and sharded as those of layers") {
  for (const models::ModelSpec& spec : models_of(8)) {
    check_both(spec, divided(strategy(2, 12, 1, ring), spec));
    for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
      for (const std::int64_t pipeline : {1, 2})
        for (const bool overlap : {true, false}) {
          Strategy s = divided(mesh(2, 1, pipeline, z), spec);
          s.overlap = overlap;
          check_both(spec, s);
          s.bucket_bytes = 4096;
          check_both(spec, s);
        }
    if (spec.variants.experts == 0) check_both(spec, strategy(3, 12, 1, servers(2, true)));
  }
}

TEST_CASE("context ranks predict further tokens as one rank does") {
  for (const models::ModelSpec& spec : models_of(8))
    for (const ContextMethod method : {ContextMethod::gather, ContextMethod::exchange,
                                       ContextMethod::ring}) {
      Strategy s = strategy(2, 12, 1);
      s.context = 2;
      s.context_method = method;
      const bool latent = spec.variants.kv_rank > 0;
      const bool refused = latent || (spec.mtp_layers > 1 && method == ContextMethod::ring);
      const Job job = tiny_job(spec, 12);
      CHECK(strategy_problems(spec, job, resolve(spec, job, s), s.workers()).empty() != refused);
      if (!refused) check_both(spec, divided(s, spec));
    }
}

TEST_CASE("the model's own head is taken in chunks beside modules, whose heads are not") {
  for (const models::ModelSpec& spec : models_of(8)) {
    Strategy s = strategy(2, 12, 1);
    s.loss_chunks = 2;
    check_both(spec, divided(s, spec));
    s = mesh(2, 2, 2, Sharding::zero1);
    s.sequence_parallel = true;
    check_both(spec, divided(s, spec));
    s.loss_chunks = 4;
    check_both(spec, divided(s, spec));
  }
}
