// More tensor ranks than key heads, executed: ranks that share a key head train what one rank
// trains, and memory and traffic are the prediction, to the byte.
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

// Twelve query heads of 4 columns that share one or two key heads.
std::vector<models::ModelSpec> few_key_heads() {
  using models::Variants;
  std::vector<models::ModelSpec> all;
  for (const std::int64_t kv_heads : {1, 2}) {
    all.push_back(tiny_decoder("plain", [](Variants&) {}));
    all.push_back(tiny_decoder("biased", [](Variants& v) { v.qkv_bias = v.output_bias = true; }));
    all.push_back(tiny_decoder("window-sinks", [](Variants& v) { v.sinks = true, v.window = 5; }));
    all.push_back(tiny_decoder("qk-norm", [](Variants&) {}, models::Family::qwen3));
    for (std::size_t i = all.size() - 4; i < all.size(); ++i) {
      all[i].kv_heads = kv_heads;
      all[i].name += kv_heads == 1 ? "-1" : "-2";
      all[i].default_seq_len = 8;
    }
  }
  return all;
}

Job momentum(const models::ModelSpec& spec) {
  Job job = tiny_job(spec, 12, "fp64");
  job.optimizer = OptimizerKind::momentum;
  return job;
}

std::vector<Strategy> sharing(const models::ModelSpec& spec) {
  std::vector<Strategy> all{mesh(1, 4, 1), mesh(2, 4, 2, Sharding::zero1),
                            mesh(2, 4, 1, Sharding::zero3)};
  if (spec.kv_heads == 1) all.push_back(mesh(1, 2, 1));
  Strategy rows = mesh(2, 4, 1, Sharding::zero2);
  rows.sequence_parallel = true;
  for (const Checkpoint c : {Checkpoint::none, Checkpoint::every_k, Checkpoint::memory_poor,
                             Checkpoint::selective, Checkpoint::selective_op,
                             Checkpoint::pointwise}) {
    recomputing(c, 1)(rows);
    all.push_back(rows);
  }
  Strategy context = mesh(1, 4, 1);
  context.context = 2;
  context.context_method = ContextMethod::gather;
  all.push_back(context);
  Strategy split = mesh(1, 4, 2);
  split.schedule = Schedule::zb_h1;
  all.push_back(split);
  return all;
}

}  // namespace

TEST_CASE("tensor ranks that share key heads train as one rank does") {
  for (const models::ModelSpec& spec : few_key_heads()) {
    const Job job = momentum(spec);
    const ReferenceResult expected = one_rank(spec, job);
    for (const Strategy& s : sharing(spec))
      check_close(spec, job, expected, s, kDoubleTolerance, kDoubleTolerance);
  }
}

TEST_CASE("memory and traffic of ranks that share key heads equal the prediction") {
  for (const models::ModelSpec& spec : few_key_heads())
    for (const Strategy& s : sharing(spec)) check_cell(spec, {spec.name, s}, "mixed");
}

TEST_CASE("ranks that share key heads infer, and take adapters") {
  for (const models::ModelSpec& spec : few_key_heads()) {
    Job job = tiny_job(spec, 12);
    for (const std::int64_t lora : {0, 2}) {
      job.mode = lora > 0 ? Mode::finetune : Mode::inference;
      job.lora_rank = lora;
      const Strategy s = resolve(spec, job, mesh(2, 4, 1));
      const auto graph = models::build_graph(spec, graph_options(job, s));
      INFO(spec.name << " lora_rank=" << lora);
      if (!graph.ok()) FAIL(core::to_text(graph.problems()));
      CHECK(core::to_text(program::check(lower(*graph, job, s, {}))) == "");
    }
  }
}

TEST_CASE("each tensor rank makes an equal part of the keys, and they gather them once a pass") {
  models::ModelSpec spec = few_key_heads().back();  // two key heads of 4
  const Job job = tiny_job(spec, 12);
  const Strategy s = resolve(spec, job, mesh(1, 4, 1));
  const auto graph = models::build_graph(spec, graph_options(job, s)).value();
  for (const models::Parameter& p : graph.templates.front().parameters)
    if (p.name == "attn.qkv.weight")
      CHECK(p.shape == std::vector<std::int64_t>{(12 + 2 * 2) * 4 / 4, spec.hidden});
  int gathers = 0, scatters = 0;
  const program::Program program = lower(graph, job, s, {});
  for (const program::Transfer& t : program.classes.front().transfers) {
    gathers += t.what == program::Traffic::tensor &&
               t.collective == program::Collective::all_gather;
    scatters += t.what == program::Traffic::tensor &&
                t.collective == program::Collective::reduce_scatter;
  }
  CHECK(gathers == 1);
  CHECK(scatters == 1);
}

TEST_CASE("what tensor ranks cannot share is refused") {
  const auto problem = [](const models::ModelSpec& spec, std::int64_t tensor) {
    const Job job = tiny_job(spec, 12);
    const Strategy s = resolve(spec, job, mesh(1, tensor, 1));
    const core::Problems problems = strategy_problems(spec, job, s, s.workers());
    return problems.empty() ? "" : problems.front().expected;
  };
  models::ModelSpec spec = few_key_heads().back();
  CHECK(problem(spec, 4).empty());
  CHECK(problem(spec, 3) ==
        "a divisor of 12 heads, and a divisor or a multiple of 2 key-value heads");
  spec.kv_heads = 1;
  CHECK_FALSE(problem(spec, 3).empty());  // a head of 4 columns
  models::ModelSpec width = tiny_decoder("width", [](models::Variants& v) {
    v.qk_norm = models::QkNorm::width;
  });
  width.kv_heads = 2;
  CHECK(problem(width, 4) == "a divisor of 2 key-value heads");
}
