// Mixtures of experts: what many ranks train, experts divided over them or not, equals bit by bit
// what one rank trains in the stated order.
#include "tests/catch.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

void check_mixture(const Strategy& s, const std::string& recipe = "fp32",
                   const models::ModelSpec& spec = tiny_mixture()) {
  check_equal(spec, tiny_job(spec, 12, recipe), s);
}

// `data` ranks, of which `expert` neighbours divide the experts.
Strategy divided(std::int64_t data, std::int64_t expert, std::int64_t micro_batch = 1,
                 const std::function<void(Strategy&)>& change = {}) {
  Strategy s = strategy(data, 12, micro_batch, change);
  s.expert = expert;
  return s;
}

}  // namespace

TEST_CASE("one rank trains a mixture of experts as the reference does, in every recipe") {
  for (const char* recipe : {"fp32", "mixed", "lean", "megatron", "fsdp2", "pure_bf16", "fp64"})
    check_mixture(divided(1, 1, 2), recipe);
}

TEST_CASE("experts that divide no sample evenly, and tokens that take all of them, train too") {
  check_mixture(divided(1, 1, 3), "fp32", tiny_mixture(5, 2));
  check_mixture(divided(2, 1, 2), "mixed", tiny_mixture(3, 1));
  check_mixture(divided(2, 2), "fp32", tiny_mixture(2, 2));
  models::ModelSpec odd = tiny_mixture(6, 2);
  odd.default_seq_len = 7;             // 14 copies over 6 experts
  check_mixture(divided(2, 2, 3), "fp32", odd);
}

TEST_CASE("Qwen3's experts, beside norms of its heads, equal the reference") {
  models::ModelSpec spec = tiny_mixture();
  spec.family = models::Family::qwen3;
  spec.variants.qk_norm = models::QkNorm::heads;
  check_mixture(divided(1, 1, 2), "fp32", spec);
  check_mixture(divided(4, 2), "mixed", spec);
  check_mixture(divided(2, 2, 2, recomputing(Checkpoint::pointwise)), "mixed", spec);
}

TEST_CASE("experts on every data rank equal the reference, sharded or not") {
  for (const std::int64_t k : {2, 3}) {
    for (const auto& change : {ring, tree, naive_all_reduce})
      check_mixture(divided(k, 1, 1, change));
    check_mixture(divided(k, 1, 1, servers(2, true)));
    for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
      check_mixture(divided(k, 1, 1, sharded(z)), "mixed");
  }
}

TEST_CASE("experts divided over data ranks equal the reference") {
  for (const char* recipe : {"fp32", "mixed", "lean", "megatron", "fsdp2"}) {
    check_mixture(divided(2, 2, 2), recipe);
    check_mixture(divided(4, 2), recipe);  // two ranks hold each expert
  }
  check_mixture(divided(4, 4, 3));
  for (const auto& change : {ring, tree, naive_all_reduce}) check_mixture(divided(6, 2, 1, change));
}

TEST_CASE("what divided experts hold is sharded over the ranks that hold them") {
  for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
    for (const char* recipe : {"fp32", "mixed", "fsdp2"}) {
      check_mixture(divided(2, 2, 1, sharded(z)), recipe);  // each alone
      check_mixture(divided(4, 2, 1, sharded(z)), recipe);
      check_mixture(divided(6, 2, 1, sharded(z)), recipe);  // shards with padding
    }
  check_mixture(divided(4, 2, 1, sharded(Sharding::zero3, 2)));
  check_mixture(divided(12, 2, 1, sharded(Sharding::zero3, 6)));
}

TEST_CASE("divided experts' gradients travel in another type where ranks share them") {
  for (const bool overlap : {true, false})
    for (const Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3})
      for (const std::int64_t data : {2, 4}) {
        Strategy s = divided(data, 2);
        if (z != Sharding::none) sharded(z)(s);
        s.overlap = overlap;
        Job job = tiny_job(tiny_mixture(), 12, "mixed");
        job.reduce_dtype = core::DType::f32;
        check_equal(tiny_mixture(), job, s);
      }
}

TEST_CASE("pipelines of divided experts equal the reference in every schedule") {
  for (const Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b,
                                  Schedule::zb_h1, Schedule::zb_h2})
    check_mixture(divided(2, 2, 1, stages(2, schedule)));
  Strategy s = divided(2, 2, 1, stages(2, Schedule::interleaved));
  s.virtual_stages = 2;
  check_mixture(s);
  for (const Sharding z : {Sharding::zero1, Sharding::zero3}) {
    s = divided(4, 2, 1, stages(2, Schedule::one_f_one_b));
    sharded(z)(s);
    check_mixture(s, "mixed");
  }
}

TEST_CASE("recomputing experts, exchanges included, changes no bit") {
  for (const Checkpoint c : {Checkpoint::every_k, Checkpoint::memory_poor, Checkpoint::selective,
                             Checkpoint::pointwise})
    for (const std::int64_t expert : {1, 2}) {
      check_mixture(divided(2, expert, 2, recomputing(c)));
      check_mixture(divided(4, expert, 1, [&](Strategy& s) {
        recomputing(c)(s);
        sharded(Sharding::zero3)(s);
      }), "mixed");
    }
}

TEST_CASE("every optimizer updates divided experts as the reference does") {
  for (const Optimizer& o : optimizers()) {
    Job job = tiny_job(tiny_mixture(), 12, "fp32");
    job.optimizer = o.kind;
    INFO(o.name);
    check_equal(tiny_mixture(), job, divided(4, 2, 1, sharded(Sharding::zero1)));
  }
}

TEST_CASE("divided experts' state in the memory of the host changes no bit") {
  for (const char* recipe : {"fp32", "mixed", "fsdp2"})
    for (const std::int64_t data : {2, 4}) {
      check_mixture(divided(data, 2, 1, [](Strategy& s) { s.offload = {"optimizer"}; }), recipe);
      check_mixture(divided(data, 2, 1, [](Strategy& s) {
        sharded(Sharding::zero3)(s);
        s.offload = {"params"};
      }), recipe);
    }
}
