// Layers of several kinds in launch files.
#include "models/layer_kinds.hpp"
#include "tests/unit/reports/emitted.hpp"

using namespace planner;
using namespace reports_test;

// Layers of Mixtral: three dense ones 16384 wide, then mixtures.
static void begin_dense(Plan& plan, Strategy&) {
  models::ModelSpec& m = plan.model;
  models::LayerKind mixture{"moe", m.ffn_hidden, m.variants}, dense = mixture;
  dense.name = "dense";
  dense.ffn_hidden = 16384;
  dense.variants.experts = dense.variants.experts_per_token = 0;
  std::vector<models::LayerKind> layers(3, dense);
  layers.resize(32, mixture);
  models::set_layers(m, layers);
  m.ffn_hidden = 1;                    // of no layer
  m.variants.experts = 3;
}

TEST_CASE("Megatron-LM gets layers of several kinds as patterns, torchtitan refuses them") {
  const auto launch = emitted("mixtral-8x7b", "megatron", [](Plan& plan, Strategy& s) {
    begin_dense(plan, s);
    s.sequence_parallel = true;
  });
  REQUIRE(launch.ok());
  for (const char* option : {"--moe-layer-freq '([0]*1)*3+([1]*1)*29'\n", "--num-experts 8\n",
                             "--ffn-hidden-size 16384\n", "--moe-ffn-hidden-size 14336\n",
                             "--moe-router-topk 2\n"})
    CHECK((has(launch->text.text(), option) ? "" : option) == std::string());
  const auto unrotated = emitted("smollm3-3b", "megatron");
  REQUIRE(unrotated.ok());
  CHECK(has(unrotated->text.text(), "--no-rope-freq '([0]*3+[1]*1)*9'\n"));
  CHECK(has(unrotated->text.text(), "--position-embedding-type rope\n"));
  CHECK(is_refused("smollm3-3b", "torchtitan", fully_sharded, "27 rotary, 9 no_positions",
                   "emit for megatron"));
  CHECK(is_refused("mixtral-8x7b", "megatron", [](Plan& plan, Strategy& s) {
    begin_dense(plan, s);
    s.sequence_parallel = true;
    plan.model.kinds[0].variants.rotary_fraction = 0.5;
  }, "3 dense, 29 moe", "differ in experts, rotation and windows alone"));
}

TEST_CASE("Megatron-LM gets latent attention, and how experts are chosen and weighed") {
  const auto experts_by = [](Plan&, Strategy& s) { s.sequence_parallel = true; };
  const auto third = emitted("deepseek-v3", "megatron", experts_by);
  REQUIRE(third.ok());
  for (const char* option :
       {"--multi-latent-attention\n", "--kv-lora-rank 512\n", "--q-lora-rank 1536\n",
        "--qk-head-dim 128\n", "--qk-pos-emb-head-dim 64\n", "--v-head-dim 128\n",
        "--qk-layernorm\n", "--rope-type rope\n", "--kv-channels 128\n",
        "--moe-layer-freq '([0]*1)*3+([1]*1)*58'\n", "--ffn-hidden-size 18432\n",
        "--moe-ffn-hidden-size 2048\n", "--moe-router-score-function sigmoid\n",
        "--moe-router-topk-scaling-factor 2.5\n", "--moe-router-num-groups 8\n",
        "--moe-router-group-topk 4\n", "--moe-shared-expert-intermediate-size 2048\n"})
    CHECK((has(third->text.text(), option) ? "" : option) == std::string());
  CHECK_FALSE(has(third->text.text(), "--moe-router-pre-softmax"));
  const auto lite = emitted("deepseek-v2-lite", "megatron", experts_by);
  REQUIRE(lite.ok());
  CHECK_FALSE(has(lite->text.text(), "--q-lora-rank"));
  CHECK(has(lite->text.text(), "--moe-router-pre-softmax\n"));
  const auto gated = emitted("qwen2-57b-a14b", "megatron", experts_by);
  REQUIRE(gated.ok());
  CHECK(has(gated->text.text(), "--moe-shared-expert-gate\n"));
  CHECK(is_refused("deepseek-v3", "megatron", [&](Plan& plan, Strategy& s) {
    experts_by(plan, s);
    plan.model.kinds[1].variants.normalised_gates = false;
  }, "a model with scoring", "not known here"));
}

TEST_CASE("Megatron-LM gets sinks, clamped gates and the biases of experts") {
  const auto experts_by = [](Plan&, Strategy& s) { s.sequence_parallel = true; };
  const auto oss = emitted("gpt-oss-20b", "megatron", experts_by);
  REQUIRE(oss.ok());
  for (const char* option :
       {"--quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0\n",
        "--softmax-type learnable\n", "--window-size 127,0\n",
        "--window-attn-skip-freq '([1]*1+[0]*1)*12'\n", "--kv-channels 64\n"})
    CHECK((has(oss->text.text(), option) ? "" : option) == std::string());
  CHECK_FALSE(has(oss->text.text(), "--disable-bias-linear"));
  CHECK_FALSE(has(oss->text.text(), "--swiglu"));
  const auto recipe = emitted("gpt-oss-20b", "megatron_bridge", experts_by);
  REQUIRE(recipe.ok());
  for (const char* line : {"activation_func=quick_gelu,", "softmax_type=\"learnable\",",
                           "add_bias_linear=True,", "fused_bias_geglu import quick_gelu\n"})
    CHECK((has(recipe->text.text(), line) ? "" : line) == std::string());
  CHECK(is_refused("gpt-oss-20b", "megatron", [&](Plan& plan, Strategy& s) {
    experts_by(plan, s);
    for (models::LayerKind& kind : plan.model.kinds) kind.variants.router_bias = false;
  }, "biases of some linear layers", "of all or of none"));
}

TEST_CASE("the release of Megatron-LM that a script's options need is told") {
  const auto experts_by = [](Plan&, Strategy& s) { s.sequence_parallel = true; };
  const auto needed = [&](const char* model) {
    const auto script = emitted(model, "megatron", experts_by);
    for (const std::string& note : script.value().notes)
      if (note.find(" or later: ") != std::string::npos) return note;
    return std::string();
  };
  CHECK(needed("llama3-8b").empty());
  CHECK(has(needed("deepseek-v3"), "core_v0.14.0 or later"));
  CHECK(has(needed("mistral-7b"), "core_v0.15.0 or later: earlier releases do not know --window-"));
  CHECK(has(needed("qwen2-57b-a14b"), "core_v0.16.0 or later"));
}

TEST_CASE("Megatron-LM gets windows of attention, in all layers or in some") {
  const auto all = emitted("mistral-7b", "megatron");
  REQUIRE(all.ok());
  CHECK(has(all->text.text(), "--window-size 4095,0\n"));
  CHECK_FALSE(has(all->text.text(), "--window-attn-skip-freq"));
  const auto in_turns = [](Plan& plan, std::int64_t other) {
    models::ModelSpec& m = plan.model;
    models::LayerKind global{"global", m.ffn_hidden, m.variants}, local = global;
    local.name = "local";
    local.variants.window = 1024;
    global.variants.window = other;
    std::vector<models::LayerKind> layers;
    for (int l = 0; l < 32; ++l) layers.push_back(l % 4 == 3 ? global : local);
    models::set_layers(m, layers);
  };
  const auto some =
      emitted("llama3-8b", "megatron", [&](Plan& plan, Strategy&) { in_turns(plan, 0); });
  REQUIRE(some.ok());
  CHECK(has(some->text.text(), "--window-size 1023,0\n"));
  CHECK(has(some->text.text(), "--window-attn-skip-freq '([1]*3+[0]*1)*8'\n"));
  CHECK(is_refused("llama3-8b", "megatron",
                   [&](Plan& plan, Strategy&) { in_turns(plan, 2048); }, "24 local, 8 global",
                   "windows alone"));
  CHECK(is_refused("mistral-7b", "megatron", [](Plan&, Strategy& s) { s.context = 2; },
                   "context=2", "context=1"));
}
