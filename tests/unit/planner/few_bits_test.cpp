// What is kept and sent in few bits, by hand: DeepSeek's tensors beside products, and rows that a
// framework weighs before they come back from experts.
#include "planner/lowering/lower.hpp"
#include "sim/program/traffic.hpp"
#include "tests/catch.hpp"
#include "tests/unit/planner/soundness.hpp"

using namespace planner;
using namespace planner_test;

namespace {

// Of exchanges.
std::int64_t payload(const program::Program& p, program::Traffic what) {
  for (const program::TrafficEntry& e : program::traffic(p))
    if (e.what == what && e.collective == "exchange") return e.payload.value();
  return 0;
}

// DeepSeek-V2-Lite's layers: latent attention, 26 mixtures of 64 experts with two shared ones.
program::Program of_latent_mixture(const Job& job, Checkpoint checkpoint,
                                   const hw_profiles::Framework& framework) {
  Strategy s;
  s.data = s.expert = 2;
  s.grad_accum = 2;
  s.checkpoint = checkpoint;
  if (checkpoint == Checkpoint::modules)
    for (const auto m : {models::Module::layernorm, models::Module::moe_act,
                         models::Module::mlp_act, models::Module::mla_up_proj})
      s.recompute_modules = models::both(s.recompute_modules, models::set_of(m));
  return sound(job, s, "deepseek-v2-lite", framework);
}

}  // namespace

TEST_CASE("what is in few bits beside products lives where it would, by hand") {
  constexpr std::int64_t kTokens = 1024, kLayers = 27, kDense = 1, kMixtures = kLayers - kDense;
  constexpr std::int64_t kAttended = 16 * 128, kChosen = 6, kExpert = 1408, kShared = 2 * 1408;
  Job job = job_of(4, kTokens);
  job.precision = core::DType::f8;
  job.fp8_scaling = "blockwise";
  const auto bytes = [&](std::vector<std::string> tensors, Checkpoint c = Checkpoint::none) {
    job.fp8_tensors = std::move(tensors);
    return kept(of_latent_mixture(job, c, {}));
  };
  // A scale of f32 for 128 elements is 1 / 32 of a byte for each.
  const std::int64_t all = bytes({});
  CHECK(all - bytes({"attention_output"}) ==
        kLayers * kTokens * kAttended * (2 * 32 - 49) / 32);    // 2 bytes, or 1.5 + 1 / 32
  const std::int64_t read = 2 * (kDense * 10944 + kMixtures * (kChosen * kExpert + kShared));
  CHECK(all - bytes({"activation_input"}) == kTokens * read * (2 * 32 - 33) / 32);
  // The same where the activations are made again from what was kept of what they read.
  CHECK(bytes({}, Checkpoint::modules) - bytes({"activation_input"}, Checkpoint::modules) ==
        all - bytes({"activation_input"}));
  CHECK(bytes({"dispatch"}) == all);
}

TEST_CASE("rows travel to their experts in 8 bits, and back in 16") {
  Job job = job_of(4, 1024);
  job.precision = core::DType::f8;
  const auto sent = [&] {
    return payload(of_latent_mixture(job, Checkpoint::none, {}), program::Traffic::expert);
  };
  const std::int64_t wide = sent();
  job.fp8_tensors = {"dispatch"};
  CHECK(4 * sent() == 3 * wide);       // two of four exchanges of a layer have half the bytes
}

TEST_CASE("rows that are weighed before they come back are not kept") {
  constexpr std::int64_t kTokens = 1024, kMixtures = 26, kChosen = 6, kHidden = 2048;
  hw_profiles::Framework early;
  early.kept_returned_row = 4;
  const Job job = job_of(4, kTokens);
  const std::int64_t all = kept(of_latent_mixture(job, Checkpoint::none, {}));
  CHECK(all - kept(of_latent_mixture(job, Checkpoint::none, early)) ==
        kMixtures * kTokens * kChosen * (2 * kHidden - 4));
}

TEST_CASE("the busiest expert rank has and gets the rows that are asked for") {
  Job job = job_of(4, 1024);
  const auto of = [&](double imbalance) {
    job.expert_imbalance = imbalance;
    return of_latent_mixture(job, Checkpoint::none, {});
  };
  const program::Program equal = of(1), half_more = of(1.5), twice = of(2);
  const auto sent = [](const program::Program& p) { return payload(p, program::Traffic::expert); };
  CHECK(2 * sent(half_more) == 3 * sent(equal));
  CHECK(sent(twice) == 2 * sent(equal));
  // Per row: what both products read and make, and what comes back.
  constexpr std::int64_t kTokens = 1024, kMixtures = 26, kChosen = 6, kHidden = 2048,
                         kExpert = 1408;
  CHECK(kept(twice) - kept(equal) ==
        kMixtures * kTokens * kChosen * 2 * (2 * kHidden + 3 * kExpert));
  CHECK(2 * (kept(half_more) - kept(equal)) == kept(twice) - kept(equal));
}
