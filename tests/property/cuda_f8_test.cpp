// Products in 8 bits with the kernels of the GPU on its twin train what the host trains, within the
// bound of their rounding; memory and traffic are the prediction to the byte.
#include "tests/property/cuda_runs.hpp"
#include "tests/property/f8_jobs.hpp"

using namespace planner;
using namespace tests;

namespace {

// An operand that is rounded the other way is off by a unit of its code, of gradients 2^-2 (e5m2).
// Of biases, which begin at zero, a weight is all that training changed.
constexpr Bounds kCodes{0.25, std::numeric_limits<double>::infinity()};
constexpr double kLosses = 1e-3;

// Casts to 8 bits of all ranks in a step.
std::int64_t casts(const program::Program& p) {
  std::int64_t count = 0;
  for (std::size_t at = 0; at < p.classes.size(); ++at) {
    const program::RankClass& k = p.classes[at];
    const auto ranks = std::ssize(p.ranks_of(static_cast<int>(at)));
    program::for_each_routine(
        k, [&](const program::Routine& routine, std::int64_t times, std::int64_t) {
          for (const program::Call& call : routine)
            for (auto i = k.blocks[call.block].first; i < k.blocks[call.block].last; ++i) {
              const program::Action& a = k.actions[i];
              const bool is_cast = a.kind == program::ActionKind::cast &&
                                   k.buffers[k.views[a.first_arg + 1U].buffer].f8.has_value();
              count += is_cast ? times * ranks : 0;
            }
        });
  }
  return count;
}

void check_f8(const models::ModelSpec& spec, const Strategy& s) {
  Job job = f8_job(spec);
  job.optimizer = OptimizerKind::momentum;
  INFO(spec.name << " " << to_text(s));
  const ProgramRun found = on_twin(spec, job, s, kSteps, exec::cuda::AttentionKernel::own, true,
                                   executor());
  CHECK(found.replicas_agree);
  check_prediction(found);
  const std::int64_t expected = kSteps * casts(found.program);
  CHECK(expected > 0);
  CHECK(launches["f8_maxima"] == expected);
  CHECK(launches["f8_cast"] == expected);
  // Epilogues with a GELU are of 16-bit operands: here of widths that are no multiple of 16.
  CHECK((launches["product_gelu"] > 0) == (spec.ffn_hidden / s.tensor % 16 != 0));
  const ProgramRun before = run_program(spec, job, s, 0, kCudaSeed, {}, executor());
  const ProgramRun on_host = run_program(spec, job, s, kSteps, kCudaSeed, {}, executor());
  compare(found, on_host, before, kCodes);
  for (std::size_t i = 0; i < on_host.losses.size(); ++i)
    CHECK(std::abs(found.losses[i] / on_host.losses[i] - 1) < kLosses);
}

}  // namespace

TEST_CASE("products in 8 bits train on a GPU what they train on the host") {
  models::ModelSpec longer = even_llama();
  longer.default_seq_len = 16;         // columns of codes are written in sixteens
  for (const models::ModelSpec& spec : {even(tiny_gpt()), even_llama(), longer}) {
    check_f8(spec, strategy(1, 12, 2));
    check_f8(spec, strategy(2, 12, 1, sharded(Sharding::zero3)));
    check_f8(spec, strategy(1, 12, 2, recomputing(Checkpoint::every_k)));
  }
  check_f8(even(tiny_gpt()), mesh(2, 2, 2, Sharding::zero1));
  check_f8(even_llama(), strategy(1, 12, 1, stages(2, Schedule::zb_h1)));
}
