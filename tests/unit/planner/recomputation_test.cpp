// What each kind of checkpoint within layers drops, by hand.
#include "planner/lowering/lower.hpp"
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

TEST_CASE("modules drop what their operators make, by hand") {
  constexpr std::int64_t kTokens = 1024, kMixtures = 26, kLayers = 27;
  constexpr std::int64_t kHeads = 16, kChosen = 6, kExpert = 1408, kShared = 2 * 1408;
  const auto all = [&](Checkpoint checkpoint, models::ModuleSet modules = 0) {
    Strategy s;
    s.checkpoint = checkpoint;
    s.recompute_modules = modules;
    return kept(sound(job_of(1, kTokens), s, "deepseek-v2-lite"));
  };
  const auto drops = [&](models::Module m) {
    return all(Checkpoint::none) - all(Checkpoint::modules, models::set_of(m));
  };
  using enum models::Module;
  CHECK(drops(core_attn) == all(Checkpoint::none) - all(Checkpoint::selective));
  CHECK(drops(moe_act) == kMixtures * kTokens * 2 * kChosen * kExpert);
  CHECK(drops(mlp_act) == kTokens * 2 * (10944 + kMixtures * kShared));
  CHECK(drops(layernorm) + drops(moe_act) + drops(mlp_act) ==
        all(Checkpoint::none) - all(Checkpoint::pointwise));
  // Queries and keys of 192, values of 128; the latent's norm, 512 and its f32 statistic; the 64 of
  // keys that turn are kept instead.
  CHECK(drops(mla_up_proj) == kLayers * kTokens * (2 * kHeads * (192 + 192 + 128) + 2 * 512 + 4 -
                                                   2 * 64));
}

namespace {

hw_profiles::Framework one_in_k() {
  hw_profiles::Framework f;
  f.recomputes_one_in_k = true;
  return f;
}

Strategy every(std::int64_t k, std::int64_t micro_batch) {
  Strategy s;
  s.micro_batch = micro_batch;
  s.checkpoint = Checkpoint::every_k;
  s.checkpoint_every = k;
  return s;
}

// Layers of a rank that a backward pass computes again, in the order of its chunks' routines.
std::vector<int> computed_again(const program::RankClass& k) {
  std::vector<int> layers;
  const auto read = [&](const program::Routine& routine) {
    for (const program::Call& call : routine)
      if (k.blocks[call.block].name == "layer.recompute") layers.push_back(call.layer);
  };
  read(k.last_backward);
  for (const program::PassRoutines& chunk : k.later_chunks) read(chunk.last_backward);
  return layers;
}

}  // namespace

TEST_CASE("one layer in k keeps its input alone, the others all, by hand") {
  constexpr std::int64_t kLayers = 48, h = 1600, a = 25, kTokens = 4 * 1024;
  const Job job = job_of(4);
  Strategy s;
  s.micro_batch = 4;
  const program::Program none = sound(job, s);
  const auto in_k = [&](std::int64_t k) {
    return sound(job, every(k, 4), "gpt2-1.5b", one_in_k());
  };
  // What a layer keeps beside its input, in 16 bits: the results of both norms, q, k and v, the
  // core's output and the sum, 2 h (2 + 3 + 1 + 1); both sides of the GELU, 2 (4 h + 4 h); in f32
  // log-sum-exps of the heads, 4 a, and mean and deviation of each norm, 16.
  const std::int64_t beside = kTokens * (2 * 15 * h + 4 * a + 16);
  for (std::int64_t k : {1, 2, 5, 7, 48})
    CHECK(kept(none) - kept(in_k(k)) == kLayers / k * beside);
  const auto live = [](const program::Program& p) { return program::replay(p.classes[0]).live; };
  CHECK(live(in_k(1)) < live(in_k(2)));
  CHECK(live(in_k(2)) < live(in_k(3)));
  CHECK(live(in_k(48)) <= live(none));
  // Half the recomputation of k = 1, where segments of two layers have all of it.
  CHECK(in_k(1).classes[0].forward_evaluations == 2 * kLayers);
  CHECK(in_k(2).classes[0].forward_evaluations == kLayers + kLayers / 2);
  CHECK(sound(job, every(2, 4)).classes[0].forward_evaluations == 2 * kLayers);
}

TEST_CASE("with k = 1 a segment of one layer and one layer in one are the same program") {
  const auto segments = sound(job_of(4), every(1, 4)).classes[0];
  const auto alone = sound(job_of(4), every(1, 4), "gpt2-1.5b", one_in_k()).classes[0];
  const auto calls = [](const program::RankClass& k) {
    std::vector<std::pair<std::string, int>> names;
    for (const program::Routine* routine : {&k.forward, &k.backward, &k.last_backward})
      for (const program::Call& call : *routine)
        names.emplace_back(k.blocks[call.block].name, call.layer);
    return names;
  };
  CHECK(calls(alone) == calls(segments));
  CHECK(alone.actions.size() == segments.actions.size());
  CHECK(program::replay(alone).peaks == program::replay(segments).peaks);
}

TEST_CASE("first_k computes the first layers of each chunk again, one by one, and keeps the rest") {
  Strategy s = every(2, 1);
  s.checkpoint = Checkpoint::first_k;
  s.grad_accum = 4;
  const auto whole = sound(job_of(4), s, "gpt2-124m").classes[0];
  CHECK(computed_again(whole) == std::vector<int>{1, 0});
  s.pipeline = 2;
  s.schedule = Schedule::interleaved;
  s.virtual_stages = 2;
  s.stages = {3, 3, 3, 3};             // local layers 0 to 2, 3 to 5
  const auto chunks = sound(job_of(4), s, "gpt2-124m");
  CHECK(computed_again(chunks.classes[0]) == std::vector<int>{1, 0, 4, 3});
  // More than a chunk has: all of them, as every_k with k = 1.
  s.checkpoint_every = 5;
  const auto all = sound(job_of(4), s, "gpt2-124m").classes[0];
  s.checkpoint = Checkpoint::every_k, s.checkpoint_every = 1;
  const auto each = sound(job_of(4), s, "gpt2-124m").classes[0];
  CHECK(all.forward_evaluations == each.forward_evaluations);
  CHECK(program::replay(all).peaks == program::replay(each).peaks);
}

// torchtitan counts wrapped layers through all model parts of a process, from one.
TEST_CASE("each pipeline rank counts its own layers, through all its chunks") {
  Strategy s = every(2, 1);
  s.pipeline = 2;
  s.schedule = Schedule::one_f_one_b;
  s.grad_accum = 4;
  s.stages = {7, 5};
  const auto program = sound(job_of(4), s, "gpt2-124m", one_in_k());
  CHECK(computed_again(program.classes[0]) == std::vector<int>{5, 3, 1});
  CHECK(computed_again(program.classes[1]) == std::vector<int>{3, 1});
  s.schedule = Schedule::interleaved;
  s.virtual_stages = 2;
  s.stages = {3, 3, 3, 3};             // local layers 0 to 2, 3 to 5
  const auto chunks = sound(job_of(4), s, "gpt2-124m", one_in_k());
  CHECK(computed_again(chunks.classes[0]) == std::vector<int>{1, 5, 3});
  CHECK(computed_again(chunks.classes[1]) == std::vector<int>{1, 5, 3});
}
