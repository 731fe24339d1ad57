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
  }, "3 dense, 29 moe", "differ in experts and rotation alone"));
}
