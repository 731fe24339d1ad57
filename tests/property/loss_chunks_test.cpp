// loss_chunks executed: head and loss, one chunk of the tokens after the other. Against a reference
// whose head adds to its gradient in the same order, bit by bit; against the run without chunks, to
// rounding; memory and traffic, to the byte.
#include "planner/lowering/lower.hpp"
#include "sim/program/checker.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_close.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;
using program::Term;

namespace {

// Twelve tokens a sample: 2, 3, 4, 6 and 12 divide them, and 2 x 3 those of two context ranks.
models::ModelSpec with_tokens(models::ModelSpec spec) {
  spec.default_seq_len = 12;
  spec.positions = 13;
  return spec;
}
models::ModelSpec gpt(bool tied = true) {
  models::ModelSpec spec = with_tokens(tiny_gpt(3));
  spec.tied_embeddings = tied;
  return spec;
}
models::ModelSpec llama() { return with_tokens(tiny_llama()); }
models::ModelSpec mixture() { return with_tokens(tiny_mixture(4, 2)); }

Strategy chunked(std::int64_t chunks, Strategy s) {
  s.loss_chunks = chunks;
  return s;
}

void check(const models::ModelSpec& spec, const Strategy& s, const std::string& recipe = "fp32") {
  check_equal(spec, tiny_job(spec, 12, recipe), s);
}

std::string first_problem(const models::ModelSpec& spec, const Job& job, const Strategy& s) {
  const core::Problems all = strategy_problems(spec, job, resolve(spec, job, s), s.workers());
  return all.empty() ? "" : all.front().where + ": " + all.front().expected;
}

}  // namespace

TEST_CASE("a head in chunks equals the reference whose head takes the same runs of rows") {
  for (const models::ModelSpec& spec : {gpt(), gpt(false), llama(), mixture()}) {
    for (std::int64_t n : {2, 3, 12}) check(spec, chunked(n, strategy(1, 12, 2)));
    for (const char* recipe : {"mixed", "lean", "fsdp2", "pure_bf16"})
      check(spec, chunked(4, strategy(1, 12, 3)), recipe);
  }
}

TEST_CASE("a head in chunks equals the reference beside data ranks, sharded or not") {
  for (const char* recipe : {"fp32", "mixed"}) {
    for (const auto& sync : {ring, tree, naive_all_reduce})
      check(gpt(), chunked(3, strategy(3, 12, 2, sync)), recipe);
    check(gpt(), chunked(3, strategy(2, 12, 1, servers(2, true))), recipe);
    for (Sharding z : {Sharding::zero1, Sharding::zero2, Sharding::zero3})
      for (const models::ModelSpec& spec : {gpt(), llama()})
        check(spec, chunked(3, strategy(3, 12, 2, sharded(z))), recipe);
  }
}

TEST_CASE("a head in chunks equals the reference at the end of pipelines, recomputed or not") {
  for (Schedule schedule : {Schedule::gpipe, Schedule::one_f_one_b, Schedule::zb_h1})
    for (const models::ModelSpec& spec : {gpt(), llama()})
      check(spec, chunked(4, strategy(1, 12, 2, stages(2, schedule))));
  for (Schedule schedule : {Schedule::interleaved, Schedule::zb_v}) {
    Strategy s = strategy(1, 12, 2, stages(2, schedule));
    s.virtual_stages = 2;
    check(with_tokens(tiny_gpt()), chunked(4, s));
  }
  for (Checkpoint c : {Checkpoint::every_k, Checkpoint::selective, Checkpoint::selective_op,
                       Checkpoint::pointwise, Checkpoint::memory_poor})
    check(gpt(), chunked(2, strategy(2, 12, 2, recomputing(c))), "mixed");
}

TEST_CASE("a head in chunks equals the reference beside context ranks and a frozen head") {
  Strategy s = chunked(3, strategy(2, 12, 2));
  s.context = 2;
  check(gpt(), s);
  check(llama(), s);
  Job job = tiny_job(gpt(), 12);
  job.lora_rank = 3;
  check_equal(gpt(), job, chunked(6, strategy(2, 12, 2, ring)));
  check_equal(gpt(), job, chunked(6, strategy(2, 12, 2, sharded(Sharding::zero3))));
}

TEST_CASE("the order of chunks shows in the bits") {
  const models::ModelSpec spec = gpt();
  const Job job = tiny_job(spec, 12);
  const Strategy s = chunked(4, strategy(1, 12, 2));
  const ProgramRun run = run_program(spec, job, s, kSteps, kSeed);
  CHECK(difference(run, reference(spec, job, run.program, s, kSteps)) == "");
  for (std::int64_t n : {1, 2, 3})
    CHECK(difference(run, reference(spec, job, run.program, chunked(n, s), kSteps)) != "");
}

// In f32 sums of 10^2 terms, each rounded at 6e-8.
TEST_CASE("a head in chunks equals the head whole to 1e-6, whatever divides the vocabulary") {
  for (const models::ModelSpec& spec : {gpt(), gpt(false), llama(), mixture()})
    for (const char* recipe : {"fp32", "fp64"}) {
      Job job = tiny_job(spec, 12, recipe);
      job.optimizer = OptimizerKind::momentum;
      const bool wide = job.recipe == "fp64";
      const double tolerance = wide ? kDoubleTolerance : 1e-6;
      const ReferenceResult whole = single_rank(job, spec);
      for (std::int64_t n : {1, 3, 6}) {
        for (std::int64_t t : {1, 2, 3})
          check_close(spec, job, whole, chunked(n, mesh(1, t, 1)), tolerance, tolerance);
        check_close(spec, job, whole, chunked(n, mesh(2, 2, 1, Sharding::zero2)), tolerance,
                    tolerance);
        Strategy s = chunked(n, mesh(1, 3, 2));
        s.sequence_parallel = true;
        check_close(spec, job, whole, s, tolerance, tolerance);
      }
    }
}

TEST_CASE("executed memory and traffic of a head in chunks equal the prediction") {
  for (const models::ModelSpec& spec : {gpt(), gpt(false), llama(), mixture()})
    for (const char* recipe : {"fp32", "mixed"})
      for (std::int64_t n : {2, 6}) {
        check_cell(spec, {"single", chunked(n, strategy(1, 12, 2))}, recipe);
        check_cell(spec, {"tensor", chunked(n, mesh(2, 3, 1, Sharding::zero1))}, recipe);
        check_cell(spec, {"stages", chunked(n, mesh(1, 2, 2))}, recipe);
        Strategy s = chunked(n, mesh(2, 2, 1, Sharding::zero3));
        s.sequence_parallel = true;
        check_cell(spec, {"rows", s}, recipe);
        if (!spec.tied_embeddings) continue;
        check_cell(spec, {"adapters", chunked(n, strategy(2, 12, 2)), 3}, recipe);
      }
}

TEST_CASE("logits take one n-th, and no other term grows but by the gradient of the head's input") {
  const models::ModelSpec spec = gpt();
  const auto replayed = [&](std::int64_t n) {
    return program::replay(run_program(spec, tiny_job(spec, 12), chunked(n, strategy(1, 12, 2)), 1)
                               .program.classes[0]);
  };
  const auto term = [](const program::TermBytes& terms, Term t) {
    return terms[static_cast<std::size_t>(t)].value();
  };
  const program::Replay whole = replayed(1);
  constexpr std::int64_t kRows = 2 * 12, kLoss = 8;
  CHECK(term(whole.peaks, Term::logits) == kRows * 61 * 4 + kLoss);
  for (std::int64_t n : {2, 3, 4, 6, 12}) {
    const program::Replay r = replayed(n);
    CHECK(term(r.peaks, Term::logits) == kRows * 61 * 4 / n + kLoss);
    CHECK(term(r.peaks, Term::activations) <=
          term(whole.peaks, Term::activations) + kRows * 24 * 4);
    CHECK(term(r.peaks, Term::weights) == term(whole.peaks, Term::weights));
    CHECK(term(r.peaks, Term::gradients) == term(whole.peaks, Term::gradients));
  }
}

TEST_CASE("chunks that are left out, taken twice or out of order are found") {
  const models::ModelSpec spec = gpt();
  const program::Program sound =
      run_program(spec, tiny_job(spec, 12), chunked(3, strategy(1, 12, 2)), 1).program;
  CHECK(program::check(sound).empty());
  const program::RankClass& k = sound.classes[0];
  std::vector<std::size_t> chunks;     // the head's weight gradients
  for (std::size_t i = 0; i < k.actions.size(); ++i) {
    const program::Action& a = k.actions[i];
    if (a.kind == program::ActionKind::weight_gradient && k.operators[a.op].parts > 1)
      chunks.push_back(i);
  }
  REQUIRE(chunks.size() == 3);
  program::Program twisted = sound;
  std::swap(twisted.classes[0].actions[chunks[0]], twisted.classes[0].actions[chunks[2]]);
  CHECK_FALSE(program::check(twisted).empty());
  program::Program repeated = sound;
  repeated.classes[0].actions[chunks[1]] = repeated.classes[0].actions[chunks[0]];
  CHECK_FALSE(program::check(repeated).empty());
  program::Program fewer = sound;
  fewer.classes[0].actions[chunks[1]].kind = program::ActionKind::fence;
  fewer.classes[0].actions[chunks[1]].arg_count = 0;
  CHECK_FALSE(program::check(fewer).empty());
}

TEST_CASE("what loss_chunks cannot divide is refused by name") {
  const models::ModelSpec spec = gpt();
  Job job = tiny_job(spec, 12);
  CHECK(first_problem(spec, job, chunked(6, strategy(1, 12, 2))) == "");
  CHECK(first_problem(spec, job, chunked(5, strategy(1, 12, 2))) ==
        "loss_chunks: a divisor of the 12 tokens that a rank has of a sample");
  Strategy s = chunked(4, strategy(1, 12, 2));
  s.context = 2;
  CHECK(first_problem(spec, job, s) ==
        "loss_chunks: a divisor of the 6 tokens that a rank has of a sample");
  job.mode = Mode::inference;
  CHECK(first_problem(spec, job, chunked(3, strategy(1, 12, 2))) == "loss_chunks: 1 for inference");
  for (const models::ModelSpec& other : {small_chain(4, 8), tiny_of(models::Family::uce)})
    CHECK(first_problem(other, tiny_job(other, 12), chunked(3, strategy(1, 12, 2))) ==
          "loss_chunks: 1 for a model without a head over a vocabulary");
}

// Of 6401 columns a row takes 6464: 0.98 % more. Chunks and pipelines see it as they see logits.
TEST_CASE("padded rows of logits change no bit of a run, and their bytes are predicted") {
  models::ModelSpec spec = with_tokens(tiny_gpt(2));
  spec.vocab = 6401;
  hw_profiles::Framework padded, plain;
  padded.aligned_logits = true;
  const auto logits = [](const ProgramRun& run) {
    return run.ranks.back().peaks[static_cast<std::size_t>(Term::logits)].value();
  };
  for (const char* recipe : {"fp32", "mixed"})
    for (const Strategy& s : {strategy(1, 4, 2), chunked(3, strategy(1, 4, 2)),
                              strategy(1, 4, 2, stages(2, Schedule::one_f_one_b))}) {
      const Job job = tiny_job(spec, 4, recipe);
      const ProgramRun run = run_program(spec, job, s, 3, 1, {}, padded);
      const ProgramRun other = run_program(spec, job, s, 3, 1, {}, plain);
      check_prediction(run, 3);
      CHECK(run.losses == other.losses);
      CHECK(run.weights == other.weights);
      CHECK(logits(run) > logits(other));
    }
}
