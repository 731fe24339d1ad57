// Configurations of types that are not known, read by the keys of one that is; models of several
// parts; Llama 4.
#include "models/layer_kinds.hpp"
#include "models/spec_file.hpp"
#include "models/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/replaced.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;

namespace {

constexpr std::string_view kUnknown = R"({"model_type": "arcee2", "hidden_size": 64,
  "intermediate_size": 128, "num_attention_heads": 4, "num_key_value_heads": 2,
  "num_hidden_layers": 3, "vocab_size": 100, "max_position_embeddings": 256,
  "rms_norm_eps": 1e-5, "secret_gate": 7})";

bool says(const core::Problems& problems, std::string_view text) {
  return core::to_text(problems).find(text) != std::string::npos;
}

}  // namespace

TEST_CASE("an unknown type is refused, and the nearest known shape is offered") {
  const auto refused = parse_spec(kUnknown, "config.json");
  REQUIRE_FALSE(refused.ok());
  CHECK(says(refused.problems(), "--model-like llama"));
  const std::string unknown(kUnknown);
  const auto near = [&](const std::string& keys) {
    const auto spec = parse_spec(replaced(unknown, "\"secret_gate\": 7", keys), "config.json");
    REQUIRE_FALSE(spec.ok());
    return core::to_text(spec.problems());
  };
  CHECK(near(R"("num_local_experts": 4)").find("--model-like mixtral") != std::string::npos);
  CHECK(near(R"("n_routed_experts": 4)").find("--model-like glm4_moe") != std::string::npos);
  CHECK(near(R"("kv_lora_rank": 4)").find("--model-like deepseek_v2") != std::string::npos);
}

TEST_CASE("model-like reads an unknown type by the keys of a known one, and says so") {
  const auto like = parse_spec(kUnknown, "config.json", "m", "llama");
  if (!like.ok()) FAIL(core::to_text(like.problems()));
  CHECK(like->hidden == 64);
  CHECK(like->kv_heads == 2);
  REQUIRE(like->read_notes.size() == 1);
  CHECK(like->read_notes[0].find("arcee2") != std::string::npos);
  CHECK(like->not_read == std::vector<std::string>{"secret_gate"});
  // What the shape cannot do without is asked for.
  CHECK(says(parse_spec(kUnknown, "config.json", "m", "mixtral").problems(), "num_local_experts"));
}

TEST_CASE("model-like is refused where it has no meaning") {
  const std::string known = replaced(std::string(kUnknown), "arcee2", "llama");
  CHECK(says(parse_spec(known, "config.json", "m", "qwen2").problems(), "leave --model-like out"));
  CHECK(parse_spec(known, "config.json", "m", "llama")->read_notes.empty());
  CHECK(says(parse_spec(kUnknown, "config.json", "m", "lama").problems(), "\"lama\""));
  CHECK(says(parse_spec("{\"schema\": \"model/1\"}", "model.json", "m", "llama").problems(),
             "--model-like"));
  CHECK(says(find_model("llama3-8b", "", "llama").problems(), "--model-like"));
}

TEST_CASE("of a model of several parts the text part is read, and the plan says so") {
  const std::string whole = "{\"model_type\": \"seer\", \"vision_config\": {\"hidden_size\": 9}, "
                            "\"text_config\": " +
                            replaced(std::string(kUnknown), "arcee2", "llama") + "}";
  const auto spec = parse_spec(whole, "config.json");
  if (!spec.ok()) FAIL(core::to_text(spec.problems()));
  CHECK(spec->hidden == 64);
  REQUIRE(spec->read_notes.size() == 1);
  CHECK(spec->read_notes[0].find("text_config") != std::string::npos);
}

TEST_CASE("Llama 4's configurations give the models of the zoo") {
  const auto config = [](std::string_view experts, std::string_view step) {
    return R"({"model_type": "llama4", "text_config": {"model_type": "llama4_text",
      "attention_bias": false, "attention_chunk_size": 8192, "attn_scale": 0.1,
      "attn_temperature_tuning": true, "floor_scale": 8192, "head_dim": 128, "hidden_act": "silu",
      "hidden_size": 5120, "intermediate_size": 8192, "intermediate_size_mlp": 16384,
      "interleave_moe_layer_step": )" + std::string(step) + R"(, "max_position_embeddings": 262144,
      "no_rope_layers": [], "num_attention_heads": 40, "num_experts_per_tok": 1,
      "num_hidden_layers": 48, "num_key_value_heads": 8, "num_local_experts": )" +
           std::string(experts) + R"(, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
      "tie_word_embeddings": false, "use_qk_norm": true, "vocab_size": 202048}})";
  };
  for (const auto& [name, experts, step] :
       {std::tuple{"llama-4-scout", "16", "1"}, std::tuple{"llama-4-maverick", "128", "2"}}) {
    INFO(name);
    const auto read = parse_spec(config(experts, step), "config.json", name);
    if (!read.ok()) FAIL(core::to_text(read.problems()));
    const auto zoo = find_model(name);
    REQUIRE(zoo.ok());
    CHECK(read->not_read.empty());
    const auto count = [](const ModelSpec& spec) {
      return parameter_count(*build_graph(spec, {}));
    };
    CHECK(count(*read) == count(*zoo));
    REQUIRE(read->kinds.size() == zoo->kinds.size());
    CHECK(kind_of_layers(*read) == kind_of_layers(*zoo));
    for (std::size_t k = 0; k < read->kinds.size(); ++k) {
      CHECK(read->kinds[k].variants == zoo->kinds[k].variants);
      CHECK(read->kinds[k].ffn_hidden == zoo->kinds[k].ffn_hidden);
    }
  }
}
