// Models whose layers are of several kinds (dense and mixtures in turn, layers without rotation):
// what many ranks train equals the reference, bit by bit, and memory and traffic are the prediction
// to the byte.
#include "tests/catch.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

void check_mixed(const Strategy& s, const std::string& recipe = "fp32",
                 const std::string& letters = "dmdm", std::int64_t lora = 0) {
  const models::ModelSpec spec = tiny_mixed(letters);
  INFO(spec.name);
  Job job = tiny_job(spec, 12, recipe);
  job.lora_rank = lora;
  check_equal(spec, job, s);
  check_cell(spec, {"mixed", s, lora}, recipe);
}

Strategy divided(std::int64_t data, std::int64_t expert,
                 const std::function<void(Strategy&)>& change = {}) {
  Strategy s = strategy(data, 12, 1, change);
  s.expert = expert;
  return s;
}

}  // namespace

TEST_CASE("one rank trains layers of several kinds as the reference does, in every recipe") {
  for (const char* letters : {"dmdm", "ddmm", "mdss", "dmsd"})
    for (const char* recipe : {"fp32", "mixed", "lean", "megatron", "fsdp2", "fp64"})
      check_mixed(strategy(1, 12, 2), recipe, letters);
}

TEST_CASE("layers of several kinds on data ranks, sharded or not, equal the reference") {
  for (const std::int64_t expert : {1, 2}) {
    check_mixed(divided(2, expert, ring));
    for (const bool overlap : {true, false})
      for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
        Strategy s = divided(4, expert, sharded(z));
        s.overlap = overlap;
        check_mixed(s, "mixed", "ddmm");
        check_mixed(s, "fsdp2", "dmsd");
      }
  }
  check_mixed(divided(3, 1, servers(2, true)), "fp32", "dmsd");
  check_mixed(divided(4, 4, sharded(Sharding::zero1)), "lean", "dddm");
}

TEST_CASE("pipelines of layers of several kinds equal the reference in every schedule") {
  for (const Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b,
                                  Schedule::zb_h1, Schedule::zb_h2})
    for (const char* letters : {"ddmm", "dmsd"})
      check_mixed(divided(2, 2, stages(2, schedule)), "fp32", letters);
  for (const Schedule schedule : {Schedule::interleaved, Schedule::zb_v}) {
    Strategy s = divided(2, 2, stages(2, schedule));
    s.virtual_stages = 2;
    check_mixed(s, "fp32", "ddmm");
  }
  Strategy uneven = divided(2, 2, stages(3, Schedule::one_f_one_b));
  uneven.stages = {1, 1, 2};
  sharded(Sharding::zero2)(uneven);
  check_mixed(uneven, "mixed", "ddmm");
}

TEST_CASE("recomputing layers of several kinds changes no bit") {
  for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::memory_poor, Checkpoint::selective,
                             Checkpoint::pointwise})
    for (const char* letters : {"dmdm", "ddms"}) {
      check_mixed(divided(2, 2, recomputing(c)), "fp32", letters);
      check_mixed(divided(2, 1, [&](Strategy& s) {
        recomputing(c)(s);
        sharded(Sharding::zero3)(s);
      }), "mixed", letters);
    }
  Strategy first = divided(2, 2, stages(2, Schedule::one_f_one_b));
  first.checkpoint = Checkpoint::first_k;
  first.checkpoint_every = 1;
  check_mixed(first, "mixed", "dmdm");
}

// The reference has no adapters beside frozen experts.
TEST_CASE("adapters train in layers of several kinds; mixtures take none of a feed-forward's") {
  check_mixed(strategy(1, 12, 2), "mixed", "dsds", 3);
  check_mixed(strategy(2, 12, 1, sharded(Sharding::zero3)), "mixed", "ddss", 3);
  check_cell(tiny_mixed(), {"adapters", strategy(1, 12, 2), 3}, "mixed");
  check_cell(tiny_mixed("ddmm"), {"adapters", divided(2, 2, sharded(Sharding::zero1)), 3}, "mixed");
}

TEST_CASE("memory and traffic of tensor ranks of layers of several kinds are the prediction") {
  for (const bool rows : {false, true}) {
    Strategy s = mesh(2, 2, 2, Sharding::zero1);
    s.expert = 2;
    s.sequence_parallel = rows;
    check_cell(tiny_mixed("ddmm"), {"tensor", s, 0}, "mixed");
    check_cell(tiny_mixed("dmsd"), {"tensor", s, 0}, "mixed");
  }
}

TEST_CASE("where the layers of a kind lie changes what is trained") {
  const auto losses = [](const std::string& letters) {
    const models::ModelSpec spec = tiny_mixed(letters);
    return run_program(spec, tiny_job(spec, 12), strategy(1, 12, 2), kSteps, kSeed).losses;
  };
  CHECK(losses("ddmm") != losses("dmdm"));
  CHECK(losses("dddm") != losses("ddsm"));
}
