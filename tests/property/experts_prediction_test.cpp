// Mixtures of experts: executed memory and traffic equal the prediction, to the byte, on every
// rank.
#include "planner/lowering/lower.hpp"
#include "sim/program/checker.hpp"
#include "sim/program/traffic.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

Strategy spread(std::int64_t data, std::int64_t expert, std::int64_t micro_batch = 1) {
  Strategy s = strategy(data, 12, micro_batch);
  s.expert = expert;
  return s;
}

}  // namespace

TEST_CASE("executed memory and traffic equal the prediction for mixtures of experts") {
  for (const char* recipe : {"fp32", "mixed", "lean", "fsdp2"})
    for (const std::int64_t data : {1, 2, 4})
      for (const std::int64_t expert : {1, 2, 4}) {
        if (data % expert != 0) continue;
        for (const Sharding z :
             {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3})
          for (const Checkpoint c :
               {Checkpoint::none, Checkpoint::every_k, Checkpoint::selective,
                                     Checkpoint::pointwise}) {
            Strategy s = spread(data, expert);
            recomputing(c)(s);
            if (z != Sharding::none) sharded(z)(s);
            check_cell(tiny_mixture(), {"experts", s, 0}, recipe);
          }
      }
}

TEST_CASE(
    "executed memory and traffic equal the prediction for experts on tensor ranks and stages") {
  for (const Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zb_h1}) {
    Strategy s = spread(2, 2);
    s.tensor = 2;
    stages(2, schedule)(s);
    check_cell(tiny_mixture(), {"mesh", s, 0}, "mixed");
    s.sequence_parallel = true;
    check_cell(tiny_mixture(), {"rows", s, 0}, "mixed");
    check_cell(tiny_mixture(), {"adapters", s, 3}, "mixed");
  }
}

TEST_CASE("executed memory and traffic equal the prediction for whole experts on tensor ranks") {
  for (const std::int64_t data : {1, 2, 4})
    for (const std::int64_t expert : {2, 4}) {
      if (data * 2 % expert != 0) continue;
      for (const Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3})
        for (const Checkpoint c : {Checkpoint::none, Checkpoint::every_k, Checkpoint::pointwise}) {
          Strategy s = spread(data, expert);
          s.tensor = 2;
          s.sequence_parallel = true;
          s.expert_tensor = 1;
          recomputing(c)(s);
          if (z != Sharding::none) sharded(z)(s);
          check_cell(tiny_mixture(), {"whole", s, 0}, "mixed");
          if (c == Checkpoint::none && z != Sharding::zero3)
            check_cell(tiny_mixture(), {"adapters", s, 3}, "mixed");
        }
    }
}

TEST_CASE("executed memory and traffic equal the prediction for adapters beside frozen experts") {
  for (const std::int64_t expert : {1, 2})
    for (const Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2}) {
      Strategy s = spread(2, expert);
      if (z != Sharding::none) sharded(z)(s);
      check_cell(tiny_mixture(), {"adapters", s, 3}, "mixed");
    }
}

TEST_CASE("each layer exchanges rows four times a micro-batch, six where it recomputes, by hand") {
  // 2 ranks; 1 sample of 8 tokens x 2 copies x 24 wide in f32: S = 1536 B, half of it travels.
  // 4 layers x 6 micro-batches x 4 exchanges.
  const auto entry = [](Checkpoint c) {
    Strategy s = spread(2, 2);
    recomputing(c, 1)(s);
    const ProgramRun run = run_program(tiny_mixture(), tiny_job(tiny_mixture(), 12), s, 1);
    for (const program::TrafficEntry& e : program::rank_traffic(run.program, 1))
      if (e.what == program::Traffic::expert) return e;
    return program::TrafficEntry{};
  };
  CHECK(entry(Checkpoint::none).count == 4 * 6 * 4);
  CHECK(entry(Checkpoint::none).payload == core::Bytes(4 * 6 * 4 * 1536));
  CHECK(entry(Checkpoint::none).wire == core::Bytes(4 * 6 * 4 * 768));
  CHECK(entry(Checkpoint::every_k).count == 4 * 6 * 6);
  CHECK(entry(Checkpoint::none).collective == "exchange");
  CHECK(entry(Checkpoint::none).algorithm == program::Algorithm::pairwise);
}

TEST_CASE("experts hold 1 / expert of their state, and their gradients are summed where alike") {
  const models::ModelSpec spec = tiny_mixture();
  const Job job = tiny_job(spec, 12);
  const auto lowered = [&](Strategy s) {
    s = resolve(spec, job, s);
    const auto graph = models::build_graph(spec, graph_options(job, s));
    REQUIRE(graph.ok());
    program::Program p = lower(*graph, job, s, {});
    const core::Problems unsound = program::check(p);
    INFO(core::to_text(unsound));
    CHECK(unsound.empty());
    return p;
  };
  // A layer's experts: 4 x 3 x 24 x 24 = 6912 parameters; 4 layers.
  const std::int64_t all = lowered(spread(4, 1)).classes[0].trained_elements;
  for (const std::int64_t e : {2, 4}) {
    const program::Program p = lowered(spread(4, e));
    CHECK(p.classes[0].trained_elements == all - 4 * (6912 - 6912 / e));
    std::int64_t experts = 0;
    for (const program::TrafficEntry& t : program::rank_traffic(p, 0))
      if (t.what == program::Traffic::gradients && t.group_size == 4 / e && e < 4)
        experts += t.wire.value();
    // Ring all-reduce over 4 / e ranks of 4 x 6912 / e floats; nothing where one rank has them.
    CHECK(experts == (e == 2 ? 2 * 4 * 6912 / 2 * 4 / 2 : 0));
  }
}

TEST_CASE("an expert degree that nothing divides is refused with the reason") {
  const models::ModelSpec spec = tiny_mixture();
  const auto problem = [&](const models::ModelSpec& of, Strategy s,
                           const char* key = "expert") {
    const Job job = tiny_job(of, 12);
    const core::Problems all = strategy_problems(of, job, resolve(of, job, s), s.workers());
    for (const core::Problem& p : all)
      if (p.where == key) return p.expected;
    return std::string();
  };
  CHECK(problem(tiny_gpt(), spread(2, 2)) == "1 for a model without experts");
  CHECK(problem(spec, spread(3, 3)) == "a divisor of 4 experts");
  CHECK(problem(spec, spread(6, 4)) == "a divisor of data x context 6");
  models::ModelSpec odd = tiny_mixture(4, 1);
  odd.default_seq_len = 7;
  CHECK(problem(odd, spread(2, 2)) == "a divisor of the 7 copies of a sample's tokens");
  Strategy s = spread(4, 4);
  sharded(Sharding::zero3, 2)(s);
  CHECK(problem(spec, s) == "a divisor of shard_group 2");
  s = spread(2, 2);
  servers(1, true)(s);
  CHECK(problem(spec, s) == "1 with parameter servers");
  CHECK(problem(spec, spread(4, 4)).empty());
  // Drawn from tensor ranks, too.
  s = spread(2, 4);
  s.tensor = 2;
  CHECK(problem(spec, s) == "a divisor of data x context 2");
  s.expert_tensor = 1;
  s.sequence_parallel = true;
  CHECK(problem(spec, s).empty());
  s.expert = 1;
  CHECK(problem(spec, s, "expert_tensor") == "0 with expert=1");
  s.expert = 2;
  s.sequence_parallel = false;
  CHECK(problem(spec, s, "expert_tensor") == "0 without sequence_parallel");
  s = spread(4, 2);
  s.tensor = 4;
  s.expert_tensor = 1;
  s.sequence_parallel = true;
  CHECK(problem(spec, s) == "a multiple of tensor 4 with expert_tensor=1");
  models::ModelSpec wide = tiny_mixture(8, 1);  // windows of 8 tokens, 4 to a tensor rank
  s = spread(1, 2);
  s.tensor = 2;
  s.expert_tensor = 1;
  s.sequence_parallel = true;
  CHECK(problem(wide, s, "expert_tensor").starts_with("0 where a tensor rank's 4 tokens"));
}
