// Models whose layers are of several kinds: the closed form against the lowering.
#include "tests/unit/planner/against_lowering.hpp"

using namespace planner;
using namespace planner_test;

namespace {

// A Llama of eight layers by letters: dense (5632 wide), mixtures (16 experts of 1408, 2 a token),
// or dense without rotation (n); "+1": and a module for multi-token prediction behind them.
models::ModelSpec llama_of(const std::string& letters_and_more) {
  const std::size_t plus = letters_and_more.find('+');
  const std::string letters = letters_and_more.substr(0, plus);
  models::ModelSpec spec;
  if (plus != std::string::npos) spec.mtp_layers = letters_and_more[plus + 1] - '0';
  spec.name = letters;
  spec.family = models::Family::llama;
  spec.variants = models::variants_of(spec.family);
  spec.hidden = 2048;
  spec.heads = 16;
  spec.kv_heads = 8;
  spec.ffn_hidden = 5632;
  spec.vocab = 32000;
  spec.positions = 8192;
  spec.tied_embeddings = false;
  std::vector<models::LayerKind> layers;
  for (const char letter : letters) {
    layers.push_back({std::string(1, letter), spec.ffn_hidden, spec.variants});
    models::LayerKind& layer = layers.back();
    if (letter == 'n') layer.variants.position_kind = models::Positions::none;
    if (letter != 'm') continue;
    layer.ffn_hidden = 1408;
    layer.variants.experts = 16;
    layer.variants.experts_per_token = 2;
  }
  models::set_layers(spec, layers);
  return spec;
}

struct MixedCase {
  const char* layers;                  // letters, or a model of the zoo
  const char* recipe = "mixed";
  std::int64_t gpus = 8, seq_len = 512, batch = 32;
  std::vector<const char*> pins{};
  const char* framework = "native";
  std::int64_t lora_rank = 0;
  const char* quantization = "none";
  bool wide = false;                   // gradients travel in f32
  const char* fp8 = "";                // "params", or how what products read in 8 bits is scaled
};

}  // namespace

TEST_CASE("the closed form follows the lowering of models whose layers differ") {
  const MixedCase c = GENERATE(
      MixedCase{"dmdmdmdm"}, MixedCase{"ddmmmmmm"}, MixedCase{"ddmmmmmm", "lean"},
      MixedCase{"ddddnddn", "mixed"},
      MixedCase{"dmdmdmdm", "mixed", 8, 512, 32, {}, "native", 0, "none", false,
                "params"},
      MixedCase{"ddmmmmmm", "mixed", 8, 512, 32, {"expert=4", "sharding=zero2|zero3"}, "native", 0,
                "none", false, "params"},
      MixedCase{"dmdmdmdm", "fsdp2", 8, 512, 64, {"sharding=zero3"}, "fsdp2", 0, "none", false,
                "params"},
      MixedCase{"ddmmmmmm", "mixed", 8, 512, 64, {"expert=1|4", "schedule=none|zb_h1"}, "native", 0,
                "none", false, "rowwise"},
      MixedCase{"dmmnmmmm", "mixed", 8, 512, 32, {"expert=2|4"}},
      MixedCase{"ddmmmmmm", "mixed", 8, 512, 32, {"expert=4", "sharding=zero2|zero3"}},
      MixedCase{"dmdmdmdm", "fsdp2", 8, 512, 64, {"sharding=zero3"}, "fsdp2"},
      MixedCase{"dmdmdmdm", "fsdp2", 8, 512, 64, {"checkpoint=every_k"}, "fsdp2"},
      MixedCase{"ddmmmmmm", "mixed", 8, 512, 64, {"schedule=interleaved"}},
      MixedCase{"dmdmdmdm", "mixed", 8, 512, 64, {"schedule=zb_h1|zb_h2"}},
      MixedCase{"dmdmdmdm", "mixed", 8, 512, 64, {"schedule=pipedream|pipedream_2bw"}},
      MixedCase{"ddmmmmmm", "mixed", 8, 512, 64, {"checkpoint=first_k"}},
      MixedCase{"ddmmmmmm", "mixed", 8, 512, 64, {"pipeline=4", "stages=3,1,1,3"}},
      MixedCase{"ddmmmmmm", "mixed", 8, 512, 64,
                {"pipeline=4", "stages=1,2,4,1", "sharding=zero2"}},
      MixedCase{"mdddddmd", "mixed", 8, 512, 64,
                {"pipeline=2", "virtual_stages=2", "stages=1,3,2,2", "schedule=interleaved"}},
      MixedCase{"gemma-3-1b", "mixed", 8, 1024, 32, {"tensor=1"}},
      MixedCase{"gpt-oss-20b", "mixed", 8, 512, 32, {"data=4", "sharding=zero1|zero3"}},
      MixedCase{"deepseek-v2-lite", "mixed", 8, 512, 32, {"expert=2", "pipeline=1|4"}},
      MixedCase{"dddmdddm", "mixed", 8, 512, 32, {"sharding=zero3"}, "native", 16, "nf4"},
      MixedCase{"ddmmmmmm", "mixed", 16, 2048, 16, {"context=2"}},
      MixedCase{"ddmmmmmm+1", "mixed", 8, 512, 32, {"expert=1|2"}},
      MixedCase{"dddddddd+2", "lean"},
      MixedCase{"ddmmmmmm+1", "mixed", 8, 512, 32, {"expert=4", "sharding=zero2|zero3"}},
      MixedCase{"ddmmmmmm+1", "mixed", 8, 512, 64, {"schedule=interleaved|zb_h1", "expert=2"}});
  INFO(c.layers << " on " << c.gpus << ", " << c.recipe);
  const bool overlap = GENERATE(true, false);
  const auto known = models::find_model(c.layers);
  const models::ModelSpec model = known ? *known : llama_of(c.layers);
  const Compared all = against_lowering(question_of(c, model, "h100-sxm-80g"),
                                        constraints_of(c, overlap), overlap);
  REQUIRE(all.errors.size() > (c.pins.empty() ? 100 : 5));
  CHECK(all.declined == 0);
  CHECK(all.median() < 0.02);
}
