// Tensor parallel ranks sum in another order than one rank, so they agree in double precision to
// rounding alone; what ranks hold alike agrees to the bit.
#include "tests/catch.hpp"
#include "tests/property/check_close.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

// AdamW's first steps move a weight by lr g / (|g| + eps): an error e of a gradient far below eps =
// 1e-8 becomes lr e / eps = 1e5 e. With gradients near 1e-2, e is near 1e-17 and 1e-12 comes out,
// beside weights of 0.06 at most: 2e-11 a step.
constexpr double kAdamTolerance = 1e-10;

Job double_job(OptimizerKind optimizer) {
  Job job = tiny_job(tiny_gpt(), 12, "fp64");
  job.optimizer = optimizer;
  return job;
}

void check_close(const Job& job, const ReferenceResult& expected, const Strategy& s,
                 const models::ModelSpec& spec = tiny_gpt()) {
  const bool adam = job.optimizer == OptimizerKind::adamw;
  tests::check_close(spec, job, expected, s, kDoubleTolerance,
                     adam ? kAdamTolerance : kDoubleTolerance);
}

ReferenceResult single_rank(const Job& job) { return tests::single_rank(job, tiny_gpt()); }

}  // namespace

TEST_CASE("2, 3 and 4 tensor ranks equal one rank, with a vocabulary that they do not divide") {
  const Job job = double_job(OptimizerKind::momentum);
  const ReferenceResult expected = single_rank(job);
  for (std::int64_t t : {2, 3, 4}) check_close(job, expected, mesh(1, t, 1));
}

TEST_CASE("tensor ranks of BERT, MPT and UCE equal one rank, the sequence divided or not") {
  const Job job = double_job(OptimizerKind::momentum);
  for (const auto family : {models::Family::bert, models::Family::mpt, models::Family::uce}) {
    models::ModelSpec spec = tiny_of(family);
    const ReferenceResult expected = single_rank(job, spec);
    for (std::int64_t t : {2, 3}) check_close(job, expected, mesh(1, t, 1), spec);
    if (family == models::Family::uce) continue;  // all rows on every rank
    spec.variants.pooler = false;
    Strategy s = mesh(2, 3, 1, Sharding::zero1);
    s.sequence_parallel = true;
    check_close(job, single_rank(job, spec), s, spec);
  }
}

TEST_CASE("tensor ranks keep to one rank where AdamW divides by the size of the gradients") {
  const Job job = double_job(OptimizerKind::adamw);
  check_close(job, single_rank(job), mesh(1, 3, 1));
}

TEST_CASE("tensor ranks combined with data ranks and stages equal one rank") {
  const Job job = double_job(OptimizerKind::momentum);
  const ReferenceResult expected = single_rank(job);
  check_close(job, expected, mesh(1, 2, 2));
  for (Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
    check_close(job, expected, mesh(2, 2, 1, z));
    check_close(job, expected, mesh(2, 2, 2, z));
  }
}

TEST_CASE("tensor ranks recompute what they dropped, collectives included") {
  const Job job = double_job(OptimizerKind::momentum);
  const ReferenceResult expected = single_rank(job);
  for (Checkpoint c : {Checkpoint::every_k, Checkpoint::memory_poor, Checkpoint::selective_op,
                       Checkpoint::pointwise}) {
    Strategy s = mesh(2, 2, 1);
    recomputing(c)(s);
    check_close(job, expected, s);
  }
}

TEST_CASE("probabilities that are stored are those that are computed again, to rounding") {
  const Job job = double_job(OptimizerKind::momentum);
  Job stores = job;
  stores.attention = "unfused";
  const ReferenceResult expected = single_rank(job);
  check_close(stores, expected, strategy(1, 12, 2));
  check_close(stores, expected, mesh(2, 2, 1, Sharding::zero1));
}

TEST_CASE("making half of a product again is, to rounding, making all of it") {
  const Job job = double_job(OptimizerKind::momentum);
  Strategy s = strategy(1, 12, 2);
  s.checkpoint = Checkpoint::selective_op;
  check_close(job, single_rank(job), s);
  check_close(job, tests::single_rank(job, tiny_llama()), s, tiny_llama());
}

TEST_CASE("servers on tensor parallel workers equal one rank") {
  const Job job = double_job(OptimizerKind::momentum);
  Strategy s = mesh(2, 2, 1);
  servers(1, true)(s);
  check_close(job, single_rank(job), s);
}

TEST_CASE("the order of the mesh does not change the result") {
  const Job job = double_job(OptimizerKind::momentum);
  const ReferenceResult expected = single_rank(job);
  Strategy s = mesh(2, 2, 2);
  s.mesh_order = {planner::Degree::pipeline, planner::Degree::data, planner::Degree::context,
                  planner::Degree::tensor};
  check_close(job, expected, s);
}

TEST_CASE("tensor ranks train adapters as one rank does") {
  Job job = double_job(OptimizerKind::momentum);
  job.lora_rank = 3;
  const ReferenceResult expected = single_rank(job);
  check_close(job, expected, mesh(1, 2, 1));
  check_close(job, expected, mesh(1, 3, 2));
  for (Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3})
    check_close(job, expected, mesh(2, 2, 1, z));
}

TEST_CASE("tensor ranks train adapters of every matrix of a layer as one rank does") {
  Job job = double_job(OptimizerKind::momentum);
  job.lora_rank = 3;
  const models::ModelSpec spec = tiny_llama();
  const auto targets = models::lora_targets_of(spec);
  job.lora_targets.assign(targets.begin(), targets.end());
  const ReferenceResult expected = single_rank(job, spec);
  for (const std::int64_t t : {2, 3}) check_close(job, expected, mesh(1, t, 1), spec);
  check_close(job, expected, mesh(2, 2, 1, Sharding::zero3), spec);
}

TEST_CASE("tensor ranks train Llama, Qwen2 and Qwen3 with grouped queries as one rank does") {
  const Job job = double_job(OptimizerKind::momentum);
  for (const auto family : {models::Family::llama, models::Family::qwen2, models::Family::qwen3}) {
    const models::ModelSpec spec = tiny_llama(family);
    const ReferenceResult expected = single_rank(job, spec);
    for (std::int64_t t : {2, 3}) check_close(job, expected, mesh(1, t, 1), spec);
    check_close(job, expected, mesh(2, 2, 2), spec);
    check_close(job, expected, mesh(2, 2, 1, Sharding::zero3), spec);
  }
}

TEST_CASE("tensor ranks train mixtures of experts, divided or not, as one rank does") {
  const Job job = tiny_job(tiny_mixture(), 12, "fp64");
  Job momentum = job;
  momentum.optimizer = OptimizerKind::momentum;
  const ReferenceResult expected = single_rank(momentum, tiny_mixture());
  for (const bool rows : {false, true}) {
    Strategy alone = mesh(1, 2, 1);
    alone.sequence_parallel = rows;
    check_close(momentum, expected, alone, tiny_mixture());
    for (Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
      Strategy s = mesh(2, 2, 2, z);
      s.expert = 2;
      s.sequence_parallel = rows;
      check_close(momentum, expected, s, tiny_mixture());
    }
  }
  check_close(momentum, expected, mesh(1, 3, 1), tiny_mixture());
  // Of one tensor rank too: another tree of sums than that of the reference.
  Strategy s = mesh(6, 1, 1);
  s.expert = 2;
  check_close(momentum, expected, s, tiny_mixture());
}

TEST_CASE("experts that lie whole on tensor ranks train as one rank does") {
  Job job = tiny_job(tiny_mixture(), 12, "fp64");
  job.optimizer = OptimizerKind::momentum;
  const ReferenceResult expected = single_rank(job, tiny_mixture());
  const auto whole = [&](Strategy s, std::int64_t expert, Checkpoint c = Checkpoint::none) {
    s.sequence_parallel = true;
    s.expert = expert;
    s.expert_tensor = 1;
    recomputing(c)(s);
    check_close(job, expected, s, tiny_mixture());
  };
  whole(mesh(1, 2, 1), 2);
  whole(mesh(2, 2, 1), 2, Checkpoint::selective);
  whole(mesh(2, 2, 1), 4);
  for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
    whole(mesh(2, 2, 1, z), 2);
    whole(mesh(2, 2, 1, z), 4, Checkpoint::every_k);
  }
  whole(mesh(3, 2, 2, Sharding::zero1), 2);
  Strategy context = mesh(1, 2, 1);
  context.context = 2;
  whole(context, 4);
}

TEST_CASE("tensor ranks train GPT-NeoX, one sum for both branches, as one rank does") {
  const Job job = double_job(OptimizerKind::momentum);
  models::ModelSpec spec = tiny_llama(models::Family::gpt_neox);
  spec.kv_heads = spec.heads = 12;
  spec.head_dim = 0;
  spec.variants.rotary_fraction = 1.0;
  const ReferenceResult expected = single_rank(job, spec);
  for (std::int64_t t : {2, 3}) check_close(job, expected, mesh(1, t, 1), spec);
  check_close(job, expected, mesh(2, 2, 2), spec);
}

TEST_CASE("ranks that divide the sequence equal one rank, several samples at a time") {
  const Job job = double_job(OptimizerKind::momentum);
  for (const models::ModelSpec& spec :
       {tiny_gpt(), tiny_llama(), tiny_llama(models::Family::qwen3)}) {
    const ReferenceResult expected = single_rank(job, spec);
    const auto cell = [&](std::int64_t data, std::int64_t pipeline, Sharding z, Checkpoint c) {
      Strategy s = mesh(data, 3, pipeline, z);
      s.sequence_parallel = true;
      recomputing(c)(s);
      check_close(job, expected, s, spec);
    };
    cell(1, 1, Sharding::none, Checkpoint::none);
    cell(2, 1, Sharding::none, Checkpoint::every_k);
    cell(2, 1, Sharding::zero1, Checkpoint::selective);
    cell(2, 1, Sharding::zero1, Checkpoint::selective_op);
    cell(2, 1, Sharding::zero3, Checkpoint::pointwise);
    cell(2, 1, Sharding::zero3, Checkpoint::none);
    cell(2, 2, Sharding::zero2, Checkpoint::memory_poor);
  }
}
