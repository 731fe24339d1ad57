// Tensor parallel ranks sum in another order than one rank, so they agree in double precision to
// rounding alone; what ranks hold alike agrees to the bit.
#include <algorithm>
#include <cmath>

#include "planner/lower.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

// Sums of at most about 10^3 terms, each rounded at 1.1e-16, through 4 layers and 2 steps.
constexpr double kTolerance = 1e-12;
// AdamW's first steps move a weight by lr g / (|g| + eps): an error e of a gradient far below eps =
// 1e-8 becomes lr e / eps = 1e5 e. With gradients near 1e-2, e is near 1e-17 and 1e-12 comes out,
// beside weights of 0.06 at most: 2e-11 a step.
constexpr double kAdamTolerance = 1e-10;

Job double_job(OptimizerKind optimizer) {
  Job job = tiny_job(tiny_gpt(), 12, "fp64");
  job.optimizer = optimizer;
  return job;
}

ReferenceResult single_rank(const Job& job, const models::ModelSpec& spec = tiny_gpt()) {
  const Strategy s = resolve(spec, job, strategy(1, 12, 1));
  const auto graph = models::build_graph(spec, graph_options(job, s));
  REQUIRE(graph.ok());
  const auto data = exec::DataSource::synthetic(spec, job.seq_len, kSeed);
  return train_reference(spec, job, lower(*graph, job, s), data, {s.grad_accum, s.micro_batch},
                         kSteps, kSeed);
}

const models::Parameter& parameter(const program::Program& p, const std::string& path) {
  for (const program::RankClass& k : p.classes)
    for (const program::PlacedParameter& placed : k.parameters)
      if (placed.path == path) return placed.parameter;
  throw std::invalid_argument("no parameter " + path);
}

// Sizes of the split axis's blocks, each of which is divided by itself.
std::vector<std::int64_t> blocks_of(const models::Parameter& p) {
  if (!p.split_blocks.empty()) return p.split_blocks;
  const std::int64_t full = p.full_shape[static_cast<std::size_t>(p.split_axis)];
  return std::vector<std::int64_t>(static_cast<std::size_t>(p.split_groups),
                                   full / p.split_groups);
}

// The whole parameter from its shards; counts what padding holds that is not zero.
std::vector<double> gather(const models::Parameter& p,
                           const std::vector<std::vector<double>>& shards, int* dirty_padding) {
  if (p.split_axis < 0) return shards[0];
  std::int64_t outer = 1, inner = 1;
  const auto axis = static_cast<std::size_t>(p.split_axis);
  for (std::size_t i = 0; i < p.full_shape.size(); ++i)
    if (i != axis) (i < axis ? outer : inner) *= p.full_shape[i];
  const std::int64_t full = p.full_shape[axis], own = p.shape[axis];
  std::vector<double> whole(static_cast<std::size_t>(outer * full * inner), std::nan(""));
  for (std::size_t rank = 0; rank < shards.size(); ++rank) {
    std::size_t next = 0;
    for (std::int64_t o = 0; o < outer; ++o) {
      std::int64_t begin = o * full;
      for (const std::int64_t block : blocks_of(p)) {
        const std::int64_t mine = p.split_blocks.empty() ? own / p.split_groups
                                                         : block * own / full;
        for (std::int64_t i = 0; i < mine * inner; ++i) {
          const double value = shards[rank][next++];
          const std::int64_t place = static_cast<std::int64_t>(rank) * mine + i / inner;
          if (place >= block)
            *dirty_padding += value != 0.0;
          else
            whole[static_cast<std::size_t>((begin + place) * inner + i % inner)] = value;
        }
        begin += block;
      }
    }
  }
  return whole;
}

// Greatest difference over the greatest magnitude of the parameter.
double relative_error(const std::vector<double>& found, const std::vector<double>& expected) {
  REQUIRE(found.size() == expected.size());
  double error = 0, magnitude = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double off = std::abs(found[i] - expected[i]);
    error = std::isnan(off) ? off : std::max(error, off);
    magnitude = std::max(magnitude, std::abs(expected[i]));
  }
  return magnitude > 0 ? error / magnitude : error;
}

void check_close(const Job& job, const ReferenceResult& expected, const Strategy& s,
                 const models::ModelSpec& spec = tiny_gpt()) {
  INFO(spec.name << " " << to_text(s));
  const double tolerance =
      job.optimizer == OptimizerKind::adamw ? kAdamTolerance : kTolerance;
  const ProgramRun run = run_program(spec, job, s, kSteps, kSeed);
  CHECK(run.replicas_agree);
  for (std::size_t i = 0; i < expected.losses.size(); ++i)
    CHECK(std::abs(run.losses[i] - expected.losses[i]) <= kTolerance * expected.losses[i]);
  int dirty_padding = 0;
  for (const auto& [path, values] : expected.weights) {
    INFO(path);
    const models::Parameter& p = parameter(run.program, path);
    const auto& shards = run.weights.at(path);
    REQUIRE(static_cast<std::int64_t>(shards.size()) == s.tensor);
    const double error = relative_error(gather(p, shards, &dirty_padding), values);
    INFO("error in units of the tolerance: " << error / tolerance);
    CHECK(error <= tolerance);
    if (p.split_axis < 0)
      for (const auto& copy : shards) CHECK(copy == shards[0]);
  }
  CHECK(dirty_padding == 0);
  CHECK(run.weights.size() == expected.weights.size());
}

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
  for (Checkpoint c : {Checkpoint::every_k, Checkpoint::memory_poor}) {
    Strategy s = mesh(2, 2, 1);
    recomputing(c)(s);
    check_close(job, expected, s);
  }
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
  for (Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2})
    check_close(job, expected, mesh(2, 2, 1, z));
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
  for (std::int64_t t : {2, 3}) check_close(momentum, expected, mesh(1, t, 1), tiny_mixture());
  for (Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
    Strategy s = mesh(2, 2, 2, z);
    s.expert = 2;
    check_close(momentum, expected, s, tiny_mixture());
  }
  // Of one tensor rank too: another tree of sums than that of the reference.
  Strategy s = mesh(6, 1, 1);
  s.expert = 2;
  check_close(momentum, expected, s, tiny_mixture());
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
    cell(2, 1, Sharding::zero3, Checkpoint::none);
    cell(2, 2, Sharding::zero2, Checkpoint::memory_poor);
  }
}
