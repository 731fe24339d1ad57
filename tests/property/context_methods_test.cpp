// context_method=ring and exchange executed: against a reference that follows the stated order, bit
// by bit; against one rank that has all tokens, whose sums have another order, within a bound;
// memory and traffic, to the byte.
#include "tests/catch.hpp"
#include "tests/property/check_close.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/context_cases.hpp"
#include "tests/property/reference_slices.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

constexpr ContextMethod kPartwise[] = {ContextMethod::ring, ContextMethod::exchange};

}  // namespace

TEST_CASE("2, 3, 4 and 6 ranks of a ring or an exchange equal the reference, bit by bit") {
  for (const auto& base : {tiny_gpt(), tiny_llama(), tiny_llama(models::Family::qwen3),
                           tiny_of(models::Family::mpt)})
    for (const auto& [context, tokens] : {std::pair{2, 8}, {3, 9}, {4, 8}, {6, 12}, {2, 6}})
      for (const ContextMethod method : kPartwise) {
        if (method == ContextMethod::exchange && base.kv_heads % context != 0) continue;
        const models::ModelSpec spec = with_tokens(base, tokens);
        for (const char* recipe : {"fp32", "mixed"})
          check_equal(spec, job_of(spec, recipe), by_method(method, 1, context));
      }
}

TEST_CASE("rows of 130 keys, which take several blocks of queries, pass round a ring bit by bit") {
  const models::ModelSpec spec = with_tokens(tiny_llama(), 390);
  check_equal(spec, job_of(spec, "mixed"), by_method(ContextMethod::ring, 1, 3), 1);
}

TEST_CASE("rings and exchanges beside data ranks, sharded or not, equal the reference") {
  for (const ContextMethod method : kPartwise)
    for (const auto& base : {tiny_gpt(), tiny_llama()}) {
      const models::ModelSpec spec = with_tokens(base, 12);
      for (const char* recipe : {"fp32", "mixed", "fsdp2"})
        for (Sharding z : {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3})
          check_equal(spec, job_of(spec, recipe), by_method(method, 2, 3, sharded_all(z)));
    }
}

TEST_CASE("rings and exchanges in pipelines equal the reference in every schedule") {
  const models::ModelSpec spec = with_tokens(tiny_llama(), 12);
  for (const ContextMethod method : kPartwise) {
    for (Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b,
                              Schedule::zb_h1, Schedule::zb_h2})
      check_equal(spec, job_of(spec, "fp32"), by_method(method, 1, 3, stages(2, schedule)));
    Strategy s = by_method(method, 1, 2, stages(2, Schedule::interleaved));
    s.virtual_stages = 2;
    check_equal(spec, job_of(spec, "fp32"), s);
  }
}

TEST_CASE("rings and exchanges that recompute change no bit") {
  for (const ContextMethod method : kPartwise)
    for (const auto& base : {tiny_gpt(), tiny_llama()})
      for (Checkpoint c : {Checkpoint::every_k, Checkpoint::selective, Checkpoint::selective_op,
                           Checkpoint::pointwise, Checkpoint::memory_poor}) {
        const models::ModelSpec spec = with_tokens(base, 12);
        check_equal(spec, job_of(spec, "mixed"), by_method(method, 2, 3, recomputing(c)));
      }
}

TEST_CASE("rings and exchanges train adapters as the reference") {
  const models::ModelSpec spec = with_tokens(tiny_llama(), 12);
  Job job = job_of(spec, "mixed");
  job.lora_rank = 3;
  for (const ContextMethod method : kPartwise) {
    check_equal(spec, job, by_method(method, 2, 2));
    check_equal(spec, job, by_method(method, 1, 3, sharded_all(Sharding::zero3)));
  }
}

TEST_CASE("rings and exchanges equal one rank that has all tokens, to rounding") {
  for (const auto& base : {tiny_gpt(), tiny_llama()})
    for (const char* recipe : {"fp64", "fp32"}) {
      const double bound = std::string(recipe) == "fp64" ? kDoubleTolerance : kFloatTolerance;
      const models::ModelSpec spec = with_tokens(base, 12);
      const Job job = job_of(spec, recipe);
      const ReferenceResult expected = single_rank(job, spec);
      const auto check = [&](const Strategy& s) {
        check_close(spec, job, expected, s, bound, bound);
      };
      for (const ContextMethod method : kPartwise) {
        for (const std::int64_t context : {2, 3, 6}) check(by_method(method, 1, context));
        check(by_method(method, 2, 3, sharded_all(Sharding::zero3)));
        for (const bool rows : {false, true}) {
          Strategy s = by_method(method, 2, 2, stages(2, Schedule::one_f_one_b));
          s.tensor = 3;
          s.sequence_parallel = rows;
          sharded_all(Sharding::zero1)(s);
          check(s);
        }
      }
      check(by_method(ContextMethod::ring, 1, 4));
    }
}

TEST_CASE("a ring and an exchange of a model without a mask equal one rank, to rounding") {
  const models::ModelSpec spec = with_tokens(tiny_of(models::Family::bert), 12);
  const Job job = job_of(spec, "fp64");
  const ReferenceResult expected = single_rank(job, spec);
  for (const ContextMethod method : kPartwise)
    check_close(spec, job, expected, by_method(method, 1, 3), kDoubleTolerance, kDoubleTolerance);
}

TEST_CASE("linear biases equal one rank in every method, beside tensor ranks too") {
  const models::ModelSpec spec = with_tokens(tiny_of(models::Family::mpt), 12);
  const Job job = job_of(spec, "fp64");
  const ReferenceResult expected = single_rank(job, spec);
  const auto check = [&](const Strategy& s) {
    check_close(spec, job, expected, s, kDoubleTolerance, kDoubleTolerance);
  };
  for (const ContextMethod method : kContextMethods) {
    for (const std::int64_t tensor : {1, 2, 3}) {
      Strategy s = by_method(method, 2, 2);
      s.tensor = tensor;
      check(s);
    }
    check(by_method(method, 1, 3));
    if (method != ContextMethod::exchange) check(by_method(method, 1, 4));
  }
}

TEST_CASE("linear biases of divided samples, sharded, recomputed and in pipelines, bit by bit") {
  const models::ModelSpec spec = with_tokens(tiny_of(models::Family::mpt), 12);
  for (const ContextMethod method : kContextMethods)
    for (const char* recipe : {"fp32", "mixed"}) {
      const auto check = [&](const Strategy& s) {
        check_equal(spec, job_of(spec, recipe), s);
        check_cell(spec, {"biases", s, 0}, recipe);
      };
      check(by_method(method, 1, 3));
      check(by_method(method, 2, 2, sharded_all(Sharding::zero3)));
      check(by_method(method, 1, 2, stages(2, Schedule::one_f_one_b)));
      for (Checkpoint c : {Checkpoint::every_k, Checkpoint::selective, Checkpoint::memory_poor})
        check(by_method(method, 1, 2, recomputing(c)));
    }
}

TEST_CASE("executed memory and traffic of rings and exchanges equal the prediction") {
  for (const ContextMethod method : kPartwise)
    for (const auto& base : {tiny_gpt(), tiny_llama()})
      for (const char* recipe : {"fp32", "mixed", "lean", "fsdp2"}) {
        const models::ModelSpec spec = with_tokens(base, 12);
        const auto check = [&](const Strategy& s) { check_cell(spec, {"part", s, 0}, recipe); };
        for (const std::int64_t context : {2, 3, 6}) check(by_method(method, 1, context));
        for (Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
          check(by_method(method, 2, 2, sharded_all(z)));
        for (Checkpoint c : {Checkpoint::every_k, Checkpoint::selective, Checkpoint::selective_op,
                             Checkpoint::pointwise, Checkpoint::memory_poor})
          check(by_method(method, 2, 2, recomputing(c)));
        Strategy s = by_method(method, 2, 2, stages(2, Schedule::one_f_one_b));
        s.tensor = 3;
        check(s);
        s.sequence_parallel = true;
        check(s);
        s = by_method(method, 2, 2);
        s.offload = {"activations"};
        check(s);
      }
}

TEST_CASE("a ring sends c - 1 blocks forward, and as many of keys and of gradients back, by hand") {
  // Llama: 6 kv heads of 4, 2 x 24 elements a row; 12 tokens over 3 ranks, 2 samples, 4 bytes; 4
  // layers, 6 micro-batches.
  const models::ModelSpec spec = with_tokens(tiny_llama(), 12);
  const auto totals = [&](ContextMethod method) {
    const ProgramRun run =
        run_program(spec, job_of(spec, "fp32"), by_method(method, 1, 3), 1);
    exec::TrafficTotals all;
    for (const auto& [key, t] : run.ranks[0].traffic) {
      if (key.what != program::Traffic::context) continue;
      const bool ring = method == ContextMethod::ring;
      CHECK(exec::collective_name(key) == (ring ? "send" : "exchange"));
      CHECK(key.algorithm == (ring ? program::Algorithm::ring : program::Algorithm::pairwise));
      all += t;
    }
    return all;
  };
  const std::int64_t calls = 4 * 6, block = 2 * 24 * 4 * 2 * 4;
  const exec::TrafficTotals ring = totals(ContextMethod::ring);
  CHECK(ring.calls == calls * 3 * 2);
  CHECK(ring.payload.value() == calls * 3 * 2 * block);
  CHECK(ring.wire.value() == calls * 3 * 2 * block);
  // Heads of q, 12 of 4; qkv and the output, forward and back: two of 96, two of 48 columns.
  const exec::TrafficTotals heads = totals(ContextMethod::exchange);
  const std::int64_t columns = 2 * (48 + 2 * 24) + 2 * 48;
  CHECK(heads.calls == calls * 4);
  CHECK(heads.payload.value() == calls * columns * 4 * 2 * 4);
  CHECK(heads.wire.value() == calls * columns * 4 * 2 * 4 * 2 / 3);
}
