// Split backward passes under sequence parallelism, executed: rows that are gathered again for the
// weight gradients change no bit, and memory and traffic are the prediction, to the byte.
#include "planner/strategy/problems.hpp"
#include "planner/strategy/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/decoder_specs.hpp"
#include "tests/property/run_program.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

constexpr Schedule kSplit[] = {Schedule::zb_h1, Schedule::zb_h2, Schedule::zb_v,
                               Schedule::dualpipe_v};
constexpr Checkpoint kWithinLayers[] = {Checkpoint::none, Checkpoint::selective_op,
                                        Checkpoint::pointwise};

Strategy rows(Schedule schedule, Checkpoint checkpoint, std::int64_t data = 1) {
  Strategy s = mesh(data, 2, 2, data > 1 ? Sharding::zero1 : Sharding::none);
  s.sequence_parallel = true;
  s.schedule = schedule;
  if (in_v(schedule)) s.virtual_stages = 2;
  recomputing(checkpoint)(s);
  return s;
}

std::vector<models::ModelSpec> specs() {
  std::vector<models::ModelSpec> all = decoders();
  all.push_back(tiny_gpt());
  all.push_back(tiny_llama());
  for (models::ModelSpec& spec : all) spec.default_seq_len = 8;
  return all;
}

}  // namespace

TEST_CASE("rows gathered again for weight gradients change no bit") {
  for (const models::ModelSpec& spec : specs()) {
    const Job job = tiny_job(spec, 12, "fp32");
    // A V puts both ends of the model on one rank. Gradients of a table that both ends use are then
    // added in another order than in a line.
    const bool shares_table = spec.mtp_layers > 0 || spec.tied_embeddings;
    for (const Checkpoint checkpoint : kWithinLayers) {
      // Half of a product that is made again is a product of another shape, which OpenBLAS may add
      // up in another order on some processors.
      const Checkpoint as =
          checkpoint == Checkpoint::selective_op ? checkpoint : Checkpoint::none;
      const auto run = [&](Schedule schedule) {
        return run_program(spec, job, rows(schedule, as), 2);
      };
      const bool halves = as == Checkpoint::none ||
                          strategy_problems(spec, job, rows(Schedule::one_f_one_b, as), 4).empty();
      if (!halves) continue;
      const ProgramRun line = run(Schedule::one_f_one_b);
      const ProgramRun v = shares_table ? run(Schedule::zb_v) : line;
      for (const Schedule schedule : kSplit) {
        const Strategy s = rows(schedule, checkpoint);
        if (!strategy_problems(spec, job, s, s.workers()).empty()) continue;
        INFO(spec.name << ", " << to_text(s));
        const ProgramRun split = run_program(spec, job, s, 2);
        const ProgramRun& whole = in_v(schedule) ? v : line;
        CHECK(split.losses == whole.losses);
        CHECK(split.weights == whole.weights);
      }
    }
  }
}

TEST_CASE("memory and traffic of split backward passes over divided rows equal the prediction") {
  for (const models::ModelSpec& spec : specs())
    for (const Schedule schedule : {Schedule::zb_h1, Schedule::dualpipe_v})
      for (const Checkpoint checkpoint : kWithinLayers) {
        const Strategy s = rows(schedule, checkpoint, 2);
        if (!strategy_problems(spec, tiny_job(spec, 12, "mixed"), s, s.workers()).empty()) continue;
        check_cell(spec, {spec.name, s}, "mixed");
      }
}

TEST_CASE("until its weight gradients a rank keeps its own rows of what products read") {
  models::ModelSpec spec = tiny_llama();
  spec.default_seq_len = 8;
  const Job job = tiny_job(spec, 12, "fp32");
  const ProgramRun split = run_program(spec, job, rows(Schedule::zb_h1, Checkpoint::none), 1);
  const auto gathered = [](const ProgramRun& run) {
    std::int64_t count = 0;
    for (const auto& [key, totals] : run.ranks.front().traffic)
      if (key.what == program::Traffic::sequence &&
          key.collective == program::Collective::all_gather)
        count += totals.calls;
    return count;
  };
  const ProgramRun whole =
      run_program(spec, job, rows(Schedule::one_f_one_b, Checkpoint::none), 1);
  CHECK(gathered(split) > 0);
  CHECK(gathered(split) == gathered(whole));  // at another time, not more often
}
