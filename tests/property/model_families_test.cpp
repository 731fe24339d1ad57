// Every family of models, small, under every kind of strategy: the lowered Program is sound.
#include "planner/lowering/lower.hpp"
#include "sim/program/checker.hpp"
#include "tests/catch.hpp"
#include "tests/property/run_program.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

models::ModelSpec tiny(models::Family family) {
  models::ModelSpec spec = tiny_gpt(4);
  spec.family = family;
  spec.variants = models::variants_of(family);
  spec.activation = models::activation_of(family);
  spec.heads = spec.kv_heads = 4;
  spec.hidden = 32;
  spec.ffn_hidden = 48;
  return spec;
}

std::vector<models::ModelSpec> families() {
  std::vector<models::ModelSpec> all;
  for (const auto family : {models::Family::opt, models::Family::bloom, models::Family::llama,
                            models::Family::qwen2, models::Family::qwen3, models::Family::mpt,
                            models::Family::gpt_neox, models::Family::bert}) {
    all.push_back(tiny(family));
    all.back().name = models::name(family);
  }
  all.push_back(tiny(models::Family::llama));
  all.back().name = "llama with grouped queries";
  all.back().kv_heads = 2;
  all.back().head_dim = 6;
  all.back().tied_embeddings = false;
  all.push_back(tiny(models::Family::uce));
  all.back().name = "uce";
  all.back().vocab = 0;
  all.back().tied_embeddings = false;
  all.back().variants.token_features = 20;
  all.back().variants.decoder_hidden = 12;
  all.push_back(tiny(models::Family::mixtral));
  all.back().name = "mixtral";
  all.back().variants.experts = 6;
  all.back().variants.experts_per_token = 2;
  all.push_back(tiny_mixed("dmsd"));
  all.push_back(tiny(models::Family::qwen3));
  all.back().name = "qwen3 with experts";
  all.back().kv_heads = 2;
  all.back().head_dim = 6;
  all.back().variants.experts = 6;
  all.back().variants.experts_per_token = 2;
  return all;
}

std::vector<Strategy> strategies() {
  std::vector<Strategy> all;
  for (const std::int64_t tensor : {1, 2})
    for (const std::int64_t pipeline : {1, 2})
      for (const auto checkpoint : {Checkpoint::none, Checkpoint::every_k, Checkpoint::memory_poor,
                                    Checkpoint::selective})
        for (const auto sharding :
             {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::zero3}) {
          Strategy s = strategy(2, 8, 1, recomputing(checkpoint, 2));
          s.tensor = tensor;
          s.pipeline = pipeline;
          s.schedule = pipeline > 1 ? Schedule::one_f_one_b : Schedule::none;
          s.sharding = sharding;
          s.shard_group = sharding == Sharding::none ? 1 : 2;
          all.push_back(s);
        }
  return all;
}

void check_sound(const models::ModelSpec& spec, const Job& job, Strategy s) {
  s = resolve(spec, job, s);
  INFO(spec.name << ", " << to_text(s));
  const auto problems = strategy_problems(spec, job, s, s.workers());
  INFO(core::to_text(problems));
  REQUIRE(problems.empty());
  const auto graph = models::build_graph(spec, graph_options(job, s));
  REQUIRE(graph.ok());
  const program::Program p = lower(*graph, job, s, {});
  const core::Problems unsound = program::check(p);
  INFO(core::to_text(unsound));
  CHECK(unsound.empty());
}

}  // namespace

TEST_CASE("programs of every family are sound under every kind of strategy") {
  for (const models::ModelSpec& spec : families())
    for (const Strategy& s : strategies()) check_sound(spec, tiny_job(spec, 8), s);
}

TEST_CASE("programs of divided experts are sound under every kind of strategy") {
  models::ModelSpec spec = families().back();
  spec.default_seq_len = 9;            // 18 copies over 6 experts
  for (Strategy s : strategies())
    for (const std::int64_t data : {2, 6}) {
      s.data = data;
      s.grad_accum = 12 / data;
      s.expert = data == 6 ? 3 : 2;
      if (s.sharding != Sharding::none) s.shard_group = data;
      check_sound(spec, tiny_job(spec, 12), s);
    }
  spec = tiny_mixed("ddmm");           // a stage without experts
  for (Strategy s : strategies()) {
    s.grad_accum = 6;
    s.expert = 2;
    check_sound(spec, tiny_job(spec, 12), s);
  }
}

TEST_CASE("programs of every family are sound with chunks and with split backward passes") {
  for (const models::ModelSpec& spec : families())
    for (const Schedule schedule : {Schedule::interleaved, Schedule::zb_h1, Schedule::zb_h2}) {
      Strategy s = strategy(1, 8, 1);
      s.pipeline = 2;
      s.schedule = schedule;
      s.virtual_stages = schedule == Schedule::interleaved ? 2 : 1;
      check_sound(spec, tiny_job(spec, 8), s);
    }
}

static std::vector<std::string> all_linear(const models::ModelSpec& spec) {
  const auto names = models::lora_targets_of(spec);
  return {names.begin(), names.end()};
}

TEST_CASE("programs of every family are sound for inference and for LoRA") {
  for (const models::ModelSpec& spec : families()) {
    Job job = tiny_job(spec, 8);
    job.mode = Mode::inference;
    check_sound(spec, job, strategy(2, 8, 1));
    job.mode = Mode::finetune;
    job.lora_rank = 2;
    for (const std::vector<std::string>& targets :
         {std::vector<std::string>{"q", "k", "v", "o"}, {"q"}, {"v", "o"}, all_linear(spec)}) {
      job.lora_targets = targets;
      check_sound(spec, job, strategy(2, 8, 1));
      check_sound(spec, job, strategy(2, 8, 1, recomputing(Checkpoint::every_k, 1)));
    }
  }
}

TEST_CASE("weights of a rank are the parameters that the graph states, in every family") {
  for (const models::ModelSpec& spec : families()) {
    const Job job = tiny_job(spec, 8, "mixed");
    const auto graph = models::build_graph(spec, graph_options(job, Strategy{}));
    REQUIRE(graph.ok());
    const program::Program p = lower(*graph, job, resolve(spec, job, strategy(1, 8, 1)), {});
    CHECK(p.classes[0].trained_elements == models::parameter_count(*graph));
  }
}
