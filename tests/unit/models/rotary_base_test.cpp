// The base of rotary angles, as files and the zoo say it.
#include <algorithm>
#include <string>
#include <vector>

#include "models/spec_file.hpp"
#include "models/zoo.hpp"
#include "tests/catch.hpp"

using namespace models;

static ModelSpec of(const char* name) { return find_model(name).value(); }

TEST_CASE("the base of rotary angles is what the file says, else what transformers takes") {
  const auto base_of = [](const std::string& keys) {
    const auto spec = parse_spec(R"({"hidden_size": 64,
        "intermediate_size": 96, "max_position_embeddings": 128, "num_attention_heads": 4,
        "num_hidden_layers": 12, "num_key_value_heads": 2, "vocab_size": 256, )" + keys + "}",
                                 "config.json");
    INFO((spec.ok() ? "" : core::to_text(spec.problems())));
    REQUIRE(spec.ok());
    CHECK(std::ranges::none_of(spec->not_read, [](const std::string& key) {
      return key.find("rop") != std::string::npos || key.find("rot") != std::string::npos;
    }));
    std::vector<double> all;
    if (spec->kinds.empty()) all.push_back(spec->variants.rotary_base);
    for (const LayerKind& kind : spec->kinds) all.push_back(kind.variants.rotary_base);
    return all;
  };
  using Bases = std::vector<double>;
  CHECK(base_of(R"("model_type": "llama", "rope_theta": 500000.0)") == Bases{5e5});
  CHECK(base_of(R"("model_type": "llama")") == Bases{1e4});
  CHECK(base_of(R"("model_type": "llama", "rope_parameters": {"rope_theta": 25e4,
                   "rope_type": "default"})") == Bases{25e4});
  CHECK(base_of(R"("model_type": "gpt_neox", "rotary_emb_base": 2e4)") == Bases{2e4});
  CHECK(base_of(R"("model_type": "smollm3", "rope_theta": 5e6)") == Bases{5e6, 5e6});
  // Layers with a window turn by a base of their own.
  const std::string gemma = R"("model_type": "gemma3_text", "sliding_window": 16)";
  CHECK(base_of(gemma) == Bases{1e4, 1e6});
  CHECK(base_of(gemma + R"(, "rope_theta": 2e6, "rope_local_base_freq": 2e4)") == Bases{2e4, 2e6});
  CHECK(base_of(gemma + R"(, "rope_parameters": {"full_attention": {"rope_theta": 3e6},
                           "sliding_attention": {"rope_theta": 3e4}})") == Bases{3e4, 3e6});
}

TEST_CASE("the zoo's rotary models turn by the bases that they were trained with") {
  CHECK(of("llama3-8b").variants.rotary_base == 5e5);
  CHECK(of("llama2-7b").variants.rotary_base == 1e4);
  CHECK(of("qwen3-8b").variants.rotary_base == 1e6);
  const ModelSpec gemma = of("gemma-3-4b");
  CHECK(gemma.kinds[0].variants.rotary_base == 1e4);
  CHECK(gemma.kinds[1].variants.rotary_base == 1e6);
}
