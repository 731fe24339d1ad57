// OPT, BLOOM, BERT, MPT and UCE, executed: what many ranks train equals the reference, bit by bit,
// and memory and traffic are the prediction to the byte.
#include "tests/catch.hpp"
#include "tests/property/check_equal.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;
using models::Family;

namespace {

void check_both(Family family, const Strategy& s, const std::string& recipe = "fp32") {
  const models::ModelSpec spec = tiny_of(family);
  INFO(spec.name);
  check_equal(spec, tiny_job(spec, 12, recipe), s);
  check_cell(spec, {"family", s, 0}, recipe);
}

constexpr Family kFamilies[] = {Family::opt, Family::bloom, Family::bert, Family::mpt, Family::uce};

std::vector<double> losses(const models::ModelSpec& spec) {
  return run_program(spec, tiny_job(spec, 12), strategy(1, 12, 2), kSteps, kSeed).losses;
}

}  // namespace

TEST_CASE("one rank trains OPT, BLOOM, BERT, MPT and UCE as the reference does, in every recipe") {
  for (const Family family : kFamilies)
    for (const char* recipe : {"fp32", "mixed", "lean", "megatron", "fsdp2", "pure_bf16", "fp64"})
      check_both(family, strategy(1, 12, 2), recipe);
}

TEST_CASE("OPT, BLOOM, BERT, MPT and UCE on data ranks, sharded or not, equal the reference") {
  for (const Family family : kFamilies) {
    for (const std::int64_t k : {2, 3}) check_both(family, strategy(k, 12, 1, ring));
    for (const Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
      check_both(family, strategy(2, 12, 2, sharded(z)));
    check_both(family, strategy(4, 12, 1, sharded(Sharding::zero3)), "mixed");
  }
}

TEST_CASE("OPT, BLOOM, BERT, MPT and UCE in pipelines and recomputed equal the reference") {
  for (const Family family : kFamilies) {
    check_both(family, strategy(1, 12, 2, stages(3, Schedule::one_f_one_b)));
    check_both(family, strategy(2, 12, 1, stages(2, Schedule::gpipe)), "mixed");
    Strategy folded = strategy(2, 12, 1, stages(2, Schedule::zb_v));
    folded.virtual_stages = 2;
    check_both(family, folded);
    for (const Checkpoint c :
         {Checkpoint::every_k, Checkpoint::memory_poor, Checkpoint::selective})
      check_both(family, strategy(2, 12, 2, recomputing(c)));
  }
}

TEST_CASE(
    "memory and traffic of tensor ranks of OPT, BLOOM, BERT, MPT and UCE are the prediction") {
  for (const Family family : kFamilies)
    for (const bool divided : {false, true}) {
      Strategy s = mesh(2, 3, 1, Sharding::zero1);
      s.sequence_parallel = divided && family != Family::uce;
      models::ModelSpec spec = tiny_of(family);
      spec.variants.pooler = spec.variants.pooler && !divided;
      check_cell(spec, {"tensor", s, 0}, "mixed");
    }
}

TEST_CASE("MPT that stores its probabilities trains as the reference that does") {
  const models::ModelSpec spec = tiny_of(Family::mpt);
  Job job = tiny_job(spec, 12);
  job.attention = "unfused";
  check_equal(spec, job, strategy(1, 12, 2));
  check_equal(spec, job, strategy(2, 12, 2, recomputing(Checkpoint::selective)));
}

TEST_CASE("masks, token types and linear biases change what is trained") {
  models::ModelSpec masked = tiny_of(Family::bert), untyped = masked;
  masked.variants.causal = true;
  untyped.variants.token_types = 0;
  CHECK(losses(masked) != losses(tiny_of(Family::bert)));
  CHECK(losses(untyped) != losses(tiny_of(Family::bert)));
  models::ModelSpec plain = tiny_of(Family::mpt);
  plain.variants.position_kind = models::Positions::none;
  CHECK(losses(plain) != losses(tiny_of(Family::mpt)));
  models::ModelSpec bare = tiny_of(Family::bloom);
  bare.variants.embedding_norm = false;
  CHECK(losses(bare) != losses(tiny_of(Family::bloom)));
  CHECK(losses(tiny_of(Family::opt)) != losses(tiny_of(Family::gpt2)));
}
