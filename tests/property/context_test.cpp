// Context parallelism executed: ranks that divide the tokens of each sample. Against a reference
// that follows the stated accumulation, bit by bit; against one rank that has all tokens, whose
// sums have another order, within a bound; memory and traffic, to the byte.
#include <random>

#include "sim/program/sequence.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_close.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/context_cases.hpp"
#include "tests/property/reference_slices.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

TEST_CASE("a context rank has the i-th run from the start and the i-th from the end") {
  // 2 ranks of 4 tokens each: 0 1 | 6 7 and 2 3 | 4 5.
  CHECK(positions_of(8, 0, 2) == std::vector<std::int64_t>{0, 1, 6, 7});
  CHECK(positions_of(8, 1, 2) == std::vector<std::int64_t>{2, 3, 4, 5});
  for (std::int64_t ranks = 1; ranks <= 5; ++ranks)
    for (std::int64_t rows = 1; rows <= 9; ++rows) {
      std::vector<std::int64_t> seen(static_cast<std::size_t>(ranks * rows), 0);
      std::int64_t keys_of_first = 0;
      for (int index = 0; index < ranks; ++index) {
        const program::SequenceSlice slice{rows, index, static_cast<int>(ranks)};
        std::vector<std::int64_t> all;
        std::int64_t keys = 0;         // that the rank's queries see
        for (std::int64_t row = 0; row < rows; ++row)  // in pieces, as tensor ranks have them
          for (const program::RowRun& run : slice.runs(row, 1))
            for (std::int64_t i = 0; i < run.rows; ++i) {
              CHECK(run.row == row);
              all.push_back(run.position + i);
              keys += all.back() + 1;
              ++seen[static_cast<std::size_t>(all.back())];
            }
        CHECK(all == positions_of(ranks * rows, index, ranks));
        if (index == 0) keys_of_first = keys;
        if (rows % 2 == 0) CHECK(keys == keys_of_first);
      }
      CHECK(std::ranges::count(seen, 1) == ranks * rows);
    }
}

TEST_CASE("2, 3 and 4 context ranks equal the reference, in GPT-2, Llama and Qwen3") {
  for (const auto& base : {tiny_gpt(), tiny_llama(), tiny_llama(models::Family::qwen3)})
    for (const auto& [context, tokens] : {std::pair{2, 8}, {3, 9}, {4, 8}, {2, 6}}) {
      const models::ModelSpec spec = with_tokens(base, tokens);
      check_equal(spec, job_of(spec, "fp32"), sliced(1, context));
      check_equal(spec, job_of(spec, "mixed"), sliced(1, context));
    }
}

TEST_CASE("context ranks beside data ranks, sharded or not, equal the reference") {
  for (const auto& base : {tiny_gpt(), tiny_llama()}) {
    const models::ModelSpec spec = with_tokens(base, 8);
    for (const char* recipe : {"fp32", "mixed", "fsdp2"}) {
      const Job job = job_of(spec, recipe);
      for (const auto& change : {ring, tree, naive_all_reduce})
        check_equal(spec, job, sliced(2, 2, change));
      for (Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
        check_equal(spec, job, sliced(2, 2, sharded_all(z)));
        check_equal(spec, job, sliced(1, 4, sharded_all(z)));
      }
      check_equal(spec, job, sliced(2, 2, sharded_all(Sharding::zero3, 2)));
    }
  }
}

TEST_CASE("context ranks in pipelines equal the reference in every schedule") {
  const models::ModelSpec spec = with_tokens(tiny_llama(), 8);
  for (Schedule schedule : {Schedule::naive, Schedule::gpipe, Schedule::one_f_one_b,
                            Schedule::zb_h1, Schedule::zb_h2})
    check_equal(spec, job_of(spec, "fp32"), sliced(1, 2, stages(2, schedule)));
  Strategy s = sliced(1, 2, stages(2, Schedule::interleaved));
  s.virtual_stages = 2;
  check_equal(spec, job_of(spec, "fp32"), s);
  s = sliced(2, 2, stages(2, Schedule::one_f_one_b));
  sharded_all(Sharding::zero1)(s);
  check_equal(spec, job_of(spec, "mixed"), s);
}

TEST_CASE("context ranks that recompute change no bit") {
  for (const auto& base : {tiny_gpt(), tiny_llama()}) {
    const models::ModelSpec spec = with_tokens(base, 8);
    for (Checkpoint c : {Checkpoint::every_k, Checkpoint::selective, Checkpoint::selective_op,
                         Checkpoint::pointwise, Checkpoint::memory_poor}) {
      Strategy s = sliced(2, 2, recomputing(c));
      check_equal(spec, job_of(spec, "mixed"), s);
      stages(2, Schedule::one_f_one_b)(s);
      check_equal(spec, job_of(spec, "fp32"), s);
    }
  }
}

TEST_CASE("context ranks train adapters, whose frozen matrices may be codes, as the reference") {
  const models::ModelSpec spec = with_tokens(tiny_llama(), 8);
  Job job = job_of(spec, "mixed");
  job.lora_rank = 3;
  check_equal(spec, job, sliced(2, 2));
  check_equal(spec, job, sliced(1, 4, sharded_all(Sharding::zero2)));
  check_equal(spec, job, sliced(2, 2, sharded_all(Sharding::zero3)));
  job.quantization = "nf4";
  check_equal(spec, job, sliced(1, 2));
}

TEST_CASE("context ranks that store their probabilities equal the reference that does") {
  for (const auto& base : {tiny_gpt(), tiny_llama(), tiny_of(models::Family::mpt)}) {
    const models::ModelSpec spec = with_tokens(base, 8);
    Job job = job_of(spec, "mixed");
    job.attention = "unfused";
    check_equal(spec, job, sliced(2, 2));
    check_equal(spec, job, sliced(1, 2, recomputing(Checkpoint::selective)));
  }
}

TEST_CASE("the order of the mesh does not change what context ranks train") {
  const models::ModelSpec spec = with_tokens(tiny_gpt(), 8);
  Strategy s = sliced(2, 2, stages(2, Schedule::one_f_one_b));
  s.mesh_order = {Degree::pipeline, Degree::context, Degree::data, Degree::tensor};
  check_equal(spec, job_of(spec, "fp32"), s);
}

TEST_CASE("context ranks equal one rank that has all tokens, to rounding") {
  for (const auto& base : {tiny_gpt(), tiny_llama()})
    for (const char* recipe : {"fp64", "fp32"}) {
      const bool wide = std::string(recipe) == "fp64";
      const double tolerance = wide ? kDoubleTolerance : kFloatTolerance;
      const models::ModelSpec spec = with_tokens(base, 12);
      const Job job = job_of(spec, recipe);
      const ReferenceResult expected = single_rank(job, spec);
      for (const std::int64_t context : {2, 3, 4, 6})
        check_close(spec, job, expected, sliced(1, context), tolerance, tolerance);
      check_close(spec, job, expected, sliced(2, 3, sharded_all(Sharding::zero3)), tolerance,
                  tolerance);
      // Each tensor rank has some rows of the slice, the other degrees beside.
      for (const bool rows : {false, true}) {
        Strategy s = sliced(2, 2, stages(2, Schedule::one_f_one_b));
        s.tensor = 3;
        s.sequence_parallel = rows;
        sharded_all(Sharding::zero1)(s);
        check_close(spec, job, expected, s, tolerance, tolerance);
        recomputing(Checkpoint::selective)(s);
        s.pipeline = 1;
        s.schedule = Schedule::none;
        sharded_all(Sharding::zero2)(s);
        check_close(spec, job, expected, s, tolerance, tolerance);
      }
    }
}

TEST_CASE("executed memory and traffic of context ranks equal the prediction") {
  for (const auto& base : {tiny_gpt(), tiny_llama()})
    for (const char* recipe : {"fp32", "mixed", "lean", "fsdp2"}) {
      const models::ModelSpec spec = with_tokens(base, 12);
      const auto check = [&](const Strategy& s) { check_cell(spec, {"context", s, 0}, recipe); };
      for (const std::int64_t context : {2, 3, 4}) check(sliced(1, context));
      for (Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
        check(sliced(2, 2, sharded_all(z)));
      for (Checkpoint c : {Checkpoint::every_k, Checkpoint::selective, Checkpoint::memory_poor})
        check(sliced(2, 2, recomputing(c)));
      Strategy s = sliced(2, 2, stages(2, Schedule::one_f_one_b));
      s.tensor = 3;
      check(s);
      s.sequence_parallel = true;
      check(s);
    }
}

TEST_CASE("a layer gathers keys and values twice and scatters their gradients once, by hand") {
  // Llama: 6 kv heads of 4, so rows of 2 x 24 elements; 12 tokens of 2 samples, 4 layers, 6
  // micro-batches, 4 bytes. Forward and backward gather, backward scatters: each sends half of S.
  const models::ModelSpec spec = with_tokens(tiny_llama(), 12);
  const ProgramRun run = run_program(spec, job_of(spec, "fp32"), sliced(1, 2), 1);
  const std::int64_t size = 2 * 24 * 12 * 2 * 4, calls = 4 * 6;
  std::int64_t gathered = 0, scattered = 0;
  for (const auto& [key, totals] : run.ranks[0].traffic) {
    if (key.what != program::Traffic::context) continue;
    const bool gathers = key.collective == program::Collective::all_gather;
    (gathers ? gathered : scattered) += totals.wire.value();
    CHECK(totals.calls == (gathers ? 2 : 1) * calls);
  }
  CHECK(gathered == 2 * calls * size / 2);
  CHECK(scattered == calls * size / 2);
}
