// What each kind of checkpoint within layers drops, by hand.
#include "planner/lower.hpp"
#include "tests/unit/planner/soundness.hpp"

using namespace planner;
using namespace planner_test;

TEST_CASE("selective checkpointing drops the attention core's output and log-sum-exp") {
  constexpr std::int64_t kLayers = 48, kHidden = 1600, kHeads = 25;
  const Job job = job_of(4);
  Strategy s;
  s.micro_batch = 4;
  const std::int64_t none = kept(sound(job, s));
  s.checkpoint = Checkpoint::selective;
  const program::Program p = sound(job, s);
  // Per layer and token: the output, 2 h bytes, and f32 log-sum-exps of the heads, 4 a.
  const std::int64_t tokens = 4 * 1024;
  CHECK(none - kept(p) == kLayers * tokens * (2 * kHidden + 4 * kHeads));
  std::int64_t cores = 0;
  for (const program::Call& call : p.classes[0].last_backward)
    for (auto i = p.classes[0].blocks[call.block].first; i < p.classes[0].blocks[call.block].last;
         ++i) {
      const program::Action& a = p.classes[0].actions[i];
      cores += a.kind == program::ActionKind::forward &&
               p.classes[0].operators[a.op].kind == models::OpKind::attention;
    }
  CHECK(cores == kLayers);  // each made again once
}

TEST_CASE("pointwise drops norms and activations; selective_op more, and half of a product") {
  constexpr std::int64_t kTokens = 4096, kLlamaLayers = 32, h = 4096, f = 11008;
  Strategy s;
  const auto all = [&](Checkpoint checkpoint) {
    s.checkpoint = checkpoint;
    return kept(sound(job_of(1, kTokens), s, "llama2-7b"));
  };
  // Two norms' results, 4 h, and their f32 statistics, 8; gate and up's product, 2 f.
  const std::int64_t most = all(Checkpoint::none) - kTokens * kLlamaLayers * (4 * h + 8 + 2 * f);
  CHECK(all(Checkpoint::pointwise) == most);
  // The sum between the branches, 2 h; gate and up, 4 f, of which 2 f stay.
  CHECK(all(Checkpoint::selective_op) == most - kTokens * kLlamaLayers * (2 * h + 2 * f));
  sound(job_of(1), s);
  s.tensor = 4;
  s.sequence_parallel = true;
  sound(job_of(1, kTokens), s, "llama2-7b");
}
