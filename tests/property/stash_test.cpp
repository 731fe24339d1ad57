// offload=activations executed: what layers keep for their backward passes waits in host memory.
// Bit by bit the run without it; memory and traffic, to the byte; what stays on the device, by
// hand.
#include "planner/lowering/lower.hpp"
#include "sim/program/checker.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;
using program::Term;

namespace {

// Losses and weights of the run that offloads and of the one that does not; each rank's memory and
// traffic against the prediction.
void check_same(const models::ModelSpec& spec, Strategy s, const std::string& recipe = "fp32",
                std::int64_t lora_rank = 0) {
  INFO(spec.name << " " << to_text(s) << " " << recipe);
  Job job = tiny_job(spec, 12, recipe);
  job.lora_rank = lora_rank;
  const ProgramRun held = run_program(spec, job, s, kSteps, kSeed);
  s.offload.push_back("activations");
  const ProgramRun run = run_program(spec, job, s, kSteps, kSeed);
  CHECK(run.replicas_agree);
  CHECK(run.losses == held.losses);
  CHECK(run.weights == held.weights);
  CHECK(program::check(run.program).empty());
  check_prediction(run);
}

program::RankClass lowered(std::int64_t layers, Strategy s) {
  const models::ModelSpec spec = tiny_gpt(layers);
  const Job job = tiny_job(spec, 12);
  s = resolve(spec, job, s);
  const auto graph = models::build_graph(spec, graph_options(job, s));
  return lower(*graph, job, s, {}).classes[0];
}

Strategy offloading(Strategy s) {
  s.offload = {"activations"};
  return s;
}

std::int64_t activations(const program::RankClass& k) {
  return program::replay(k).peaks[static_cast<std::size_t>(Term::activations)].value();
}

}  // namespace

TEST_CASE("activations that wait in host memory change no bit, on one rank and on several") {
  for (const models::ModelSpec& spec : {tiny_gpt(), tiny_llama(), tiny_mixture(4, 2),
                                        tiny_of(models::Family::bert)})
    for (const char* recipe : {"fp32", "mixed"}) {
      check_same(spec, strategy(1, 12, 2), recipe);
      check_same(spec, strategy(2, 12, 2, ring), recipe);
      for (Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
        check_same(spec, strategy(2, 12, 2, sharded(z)), recipe);
    }
  check_same(tiny_gpt(), strategy(3, 12, 1, sharded(Sharding::zero3)), "fsdp2");
  check_same(tiny_gpt(), strategy(2, 12, 2, sharded(Sharding::zero3)), "lean", 3);
}

TEST_CASE("activations that wait in host memory change no bit where layers are recomputed") {
  for (const models::ModelSpec& spec : {tiny_gpt(5), tiny_llama()})
    for (const Sharding z : {Sharding::none, Sharding::zero3}) {
      const auto cell = [&](Checkpoint c, std::int64_t every) {
        Strategy s = strategy(2, 12, 2, recomputing(c, every));
        if (z != Sharding::none) sharded(z)(s);
        check_same(spec, s, "mixed");
      };
      for (std::int64_t every : {1, 2, 3, 4}) cell(Checkpoint::every_k, every);
      cell(Checkpoint::selective, 0);
      cell(Checkpoint::pointwise, 0);
    }
}

TEST_CASE("activations that wait in host memory change no bit in pipelines") {
  for (std::int64_t p : {2, 3})
    for (Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b})
      check_same(tiny_gpt(), strategy(1, 12, 2, stages(p, schedule)));
  for (Schedule schedule : {Schedule::interleaved, Schedule::zb_h1, Schedule::zb_v}) {
    Strategy s = strategy(1, 12, 2, stages(2, schedule));
    s.virtual_stages = schedule == Schedule::zb_h1 ? 1 : 2;
    check_same(tiny_gpt(), s);
    check_same(tiny_gpt(7), s, "mixed");
  }
  Strategy s = strategy(1, 12, 1, stages(2, Schedule::one_f_one_b));
  recomputing(Checkpoint::every_k, 2)(s);
  check_same(tiny_gpt(5), s);
}

TEST_CASE("activations wait in host memory beside other degrees, chunks and offloaded state") {
  check_same(tiny_gpt(), mesh(2, 3, 1, Sharding::zero1));
  Strategy s = mesh(1, 3, 2);
  s.sequence_parallel = true;
  check_same(tiny_gpt(), s);
  s = strategy(2, 12, 2);
  s.context = 3;
  check_same(tiny_gpt(), s);
  s = strategy(2, 12, 2, sharded(Sharding::zero3));
  s.offload = {"params"};
  s.loss_chunks = 3;
  check_same(tiny_gpt(), s, "mixed");
  for (Sharding z : {Sharding::none, Sharding::zero3}) {
    s = strategy(2, 12, 2);
    if (z != Sharding::none) sharded(z)(s);
    s.overlap = false;
    check_same(tiny_gpt(), s);
  }
}

// fp32, 3 samples of 9 tokens, hidden 24, 12 heads, ffn 48. A layer keeps its input, the first
// norm's output, q, k and v, attention's output, the sum, the second norm's output, and the two of
// 48: (24 (1 + 1 + 3 + 1 + 1 + 1) + 2 48) 4 bytes a token; log-sum-exp and four statistics of
// norms.
TEST_CASE("two layers' activations are on the device, the others in host memory, by hand") {
  constexpr std::int64_t kTokens = 27, kLayer = kTokens * 4 * (24 * 8 + 2 * 48 + 12 + 4);
  const Strategy s = strategy(1, 12, 3);
  CHECK(activations(lowered(5, s)) - activations(lowered(4, s)) == kLayer);
  CHECK(activations(lowered(9, offloading(s))) == activations(lowered(4, offloading(s))));
  CHECK(activations(lowered(2, offloading(s))) <= activations(lowered(2, s)));
  CHECK(activations(lowered(4, offloading(s))) <= activations(lowered(2, s)) + kLayer);
  for (std::int64_t layers : {1, 2, 4}) {
    const program::RankClass k = lowered(layers, offloading(s));
    CHECK(program::host_bytes(k).value() == (layers - 1) * kLayer);
  }
  // Out and back, four micro-batches a step.
  const ProgramRun run = run_program(tiny_gpt(), tiny_job(tiny_gpt(), 12), offloading(s), 1);
  std::int64_t wire = 0;
  for (const auto& [key, t] : run.ranks[0].traffic)
    if (key.what == program::Traffic::offload) wire += t.wire.value();
  CHECK(wire == 2 * 4 * 3 * kLayer);
}

TEST_CASE("under every_k the inputs of segments alone wait in host memory") {
  Strategy s = strategy(1, 12, 3, recomputing(Checkpoint::every_k, 2));
  const program::RankClass k = lowered(7, offloading(s));  // segments at 0, 2, 4; 6 stays
  CHECK(program::host_bytes(k).value() == 3 * 27 * 24 * 4);
}

TEST_CASE("what offload=activations does not take is refused by name") {
  const auto first = [](const models::ModelSpec& spec, const Strategy& s) {
    const Job job = tiny_job(spec, 12);
    const core::Problems all = strategy_problems(spec, job, resolve(spec, job, s), s.workers());
    return all.empty() ? "" : all.front().where + ": " + all.front().expected;
  };
  const Strategy s = offloading(strategy(1, 12, 2));
  CHECK(first(tiny_gpt(), s) == "");
  for (const models::ModelSpec& unequal : {small_chain(4, 8), tiny_mixed()})
    CHECK(first(unequal, s) ==
          "offload: optimizer or params, since activations go to the host only where all layers "
          "are alike");
  for (Checkpoint c : {Checkpoint::memory_poor, Checkpoint::selective_op}) {
    Strategy other = s;
    recomputing(c)(other);
    CHECK(first(tiny_gpt(), other) ==
          "offload: activations with checkpoint=none, every_k, selective, pointwise or modules");
  }
  CHECK(first(tiny_gpt(), offloading(strategy(2, 12, 2, servers(1, true)))) ==
        "offload: nothing with parameter servers");
}
