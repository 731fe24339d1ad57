// Decoders since Llama: their configurations, and what their graphs hold, by hand. Counts of their
// parameters: zoo_test.cpp.
#include "models/graph.hpp"
#include "models/spec_file.hpp"
#include "models/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;

TEST_CASE("published configurations of decoders give the zoo's layers and parameters") {
  const std::pair<const char*, const char*> configs[] = {
      {"olmo-2-13b", R"({"model_type": "olmo2", "attention_bias": false, "hidden_act": "silu",
        "hidden_size": 5120, "intermediate_size": 13824, "max_position_embeddings": 4096,
        "num_attention_heads": 40, "num_hidden_layers": 40, "num_key_value_heads": 40,
        "rms_norm_eps": 1e-06, "tie_word_embeddings": false, "vocab_size": 100352})"},
      {"command-r-35b", R"({"model_type": "cohere", "attention_bias": false,
        "hidden_act": "silu", "hidden_size": 8192, "intermediate_size": 22528,
        "layer_norm_eps": 1e-05, "logit_scale": 0.0625, "max_position_embeddings": 8192,
        "num_attention_heads": 64, "num_hidden_layers": 40, "num_key_value_heads": 64,
        "use_qk_norm": false, "vocab_size": 256000})"},
      {"falcon-7b", R"({"model_type": "falcon", "alibi": false, "bias": false,
        "hidden_size": 4544, "layer_norm_epsilon": 1e-05, "multi_query": true,
        "new_decoder_architecture": false, "num_attention_heads": 71, "num_hidden_layers": 32,
        "parallel_attn": true, "vocab_size": 65024})"},
      {"phi-2", R"({"model_type": "phi", "hidden_act": "gelu_new", "hidden_size": 2560,
        "intermediate_size": 10240, "layer_norm_eps": 1e-05, "max_position_embeddings": 2048,
        "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 32,
        "partial_rotary_factor": 0.4, "qk_layernorm": false, "tie_word_embeddings": false,
        "vocab_size": 51200})"},
      {"granite-3-2b", R"({"model_type": "granite", "attention_bias": false,
        "attention_multiplier": 0.015625, "embedding_multiplier": 12.0, "hidden_act": "silu",
        "hidden_size": 2048, "intermediate_size": 8192, "logits_scaling": 8.0,
        "max_position_embeddings": 4096, "mlp_bias": false, "num_attention_heads": 32,
        "num_hidden_layers": 40, "num_key_value_heads": 8, "residual_multiplier": 0.22,
        "rms_norm_eps": 1e-05, "tie_word_embeddings": true, "vocab_size": 49155})"},
      {"starcoder2-15b", R"({"model_type": "starcoder2", "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": 6144, "intermediate_size": 24576, "max_position_embeddings": 16384,
        "norm_epsilon": 1e-05, "num_attention_heads": 48, "num_hidden_layers": 40,
        "num_key_value_heads": 4, "sliding_window": 4096, "tie_word_embeddings": false,
        "use_bias": true, "vocab_size": 49152})"},
      {"stablelm-2-1.6b", R"({"model_type": "stablelm", "hidden_act": "silu",
        "hidden_size": 2048, "intermediate_size": 5632, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 24,
        "num_key_value_heads": 32, "partial_rotary_factor": 0.25, "tie_word_embeddings": false,
        "use_qkv_bias": true, "vocab_size": 100352})"}};
  for (const auto& [name, text] : configs) {
    INFO(name);
    const auto spec = parse_spec(text, "config.json", name);
    if (!spec) FAIL(core::to_text(spec.problems()));
    const ModelSpec known = *find_model(name);
    CHECK(spec->variants == known.variants);
    CHECK(spec->activation == known.activation);
    CHECK(parameter_count(*build_graph(*spec, {})) == parameter_count(*build_graph(known, {})));
  }
}

TEST_CASE("a window's attention does the FLOPs of its keys, and keeps what any attention keeps") {
  const ModelSpec spec = *find_model("mistral-7b");  // a window of 4096
  const auto core_of = [&](std::int64_t tokens) {
    const auto graph = build_graph(spec, {.seq_len = tokens});
    return find_operator(graph->templates[0], "attn.core");
  };
  // 8192 tokens: 4096 x (2 x 8192 - 4096) / 8192 = 6144 keys, where all would be 8192.
  CHECK(reach(core_of(8192)) == 6144);
  CHECK(core_of(8192).flops_forward.value() == 4.0 * 8192 * 6144 * 4096);
  CHECK(core_of(8192).flops_input_gradient.value() == 10.0 * 8192 * 6144 * 4096);
  CHECK(core_of(8192).saved.size() == 3);
  // A window that reaches every token is none.
  CHECK(core_of(4096).window_keys == 0);
  CHECK(core_of(4096).flops_forward.value() == 4.0 * 4096 * 4096 * 4096);
  ModelSpec chunked = spec;
  chunked.variants.window = 0;
  chunked.variants.chunk = 3000;       // 2 x 3000^2 + 2192^2 of 8192 rows
  const auto graph = build_graph(chunked, {.seq_len = 8192});
  const Operator core = find_operator(graph->templates[0], "attn.core");
  CHECK(reach(core) == (2.0 * 3000 * 3000 + 2192.0 * 2192) / 8192);
}

TEST_CASE("latent attention keeps latents, and joins heads of 192 and 128 columns, by hand") {
  const ModelSpec spec = *find_model("deepseek-v3");
  const auto graph = build_graph(spec, {.seq_len = 4, .tensor = 8});
  REQUIRE(graph.ok());
  const Segment& layer = graph->templates[0];
  const Operator& core = find_operator(layer, "attn.core");
  CHECK(core.heads == 16);             // of 128
  CHECK(core.k == 16 * (192 + 192 + 128));
  CHECK(core.n == 16 * 128);
  CHECK(core.flops_forward.value() == 2.0 * 4 * 4 * 16 * (192 + 128));
  CHECK(core.flops_input_gradient.value() == 2.0 * 4 * 4 * 16 * (3 * 192 + 2 * 128));
  CHECK(find_parameter(layer, "attn.q_a.weight").elements == 1536 * 7168);  // whole on each rank
  CHECK(find_parameter(layer, "attn.q_b.weight").elements == 128 / 8 * 192 * 1536);
  CHECK(find_parameter(layer, "attn.kv_b.weight").elements == 128 / 8 * 256 * 512);
  CHECK(find_parameter(layer, "attn.k_rope.weight").elements == 64 * 7168);
}

TEST_CASE("what contradicts itself in a decoder is named") {
  const auto problem = [](const std::string& model, void (*change)(ModelSpec&)) {
    ModelSpec spec = *find_model(model);
    change(spec);
    const core::Problems problems = check_spec(spec);
    return problems.empty() ? std::string("none") : problems.front().where;
  };
  const auto named = [](const std::string& where, const char* field) {
    INFO(where);
    return where.ends_with(std::string(": ") + field);
  };
  CHECK(named(problem("mistral-7b", [](ModelSpec& s) { s.variants.chunk = 5; }), "chunk"));
  CHECK(named(problem("mistral-7b", [](ModelSpec& s) { s.variants.causal = false; }), "causal"));
  CHECK(named(problem("llama3-8b", [](ModelSpec& s) { s.variants.shared_norm = true; }),
              "shared_norm"));
  CHECK(named(problem("llama3-8b", [](ModelSpec& s) { s.variants.shared_ffn = 8; }), "experts"));
  CHECK(named(problem("qwen2-57b-a14b", [](ModelSpec& s) { s.variants.gated_inputs = true; }),
              "gated_inputs"));
  CHECK(named(problem("gpt2-124m", [](ModelSpec& s) { s.variants.norm_offset = true; }),
              "norm_offset"));
  CHECK(named(problem("deepseek-v2-lite", [](ModelSpec& s) { s.kv_heads = 8; }), "kv_heads"));
}
