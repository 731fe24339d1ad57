#include "models/spec_file.hpp"

#include "models/layer_kinds.hpp"
#include "models/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/replaced.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;
using namespace models_test;

// As openai-community/gpt2 has it, keys that do not concern us included.
static const std::string kGpt2Config = R"({
  "activation_function": "gelu_new", "architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.1,
  "bos_token_id": 50256, "embd_pdrop": 0.1, "eos_token_id": 50256, "initializer_range": 0.02,
  "layer_norm_epsilon": 1e-05, "model_type": "gpt2", "n_ctx": 1024, "n_embd": 768, "n_head": 12,
  "n_layer": 12, "n_positions": 1024, "resid_pdrop": 0.1, "summary_type": "cls_index",
  "vocab_size": 50257
})";

static std::string pointer_of(const std::string& text) {
  const auto spec = parse_spec(text, "config.json", "m");
  if (spec.ok()) return "accepted";
  const std::string& where = spec.problems()[0].where;
  return where.substr(where.rfind(' ') + 1);
}

TEST_CASE("every model of the zoo is written and read back equal") {
  for (const ZooEntry& entry : zoo()) {
    const std::string text = spec_to_json(entry.spec);
    const auto back = parse_spec(text, "model.json");
    INFO(text);
    REQUIRE(back.ok());
    CHECK(*back == entry.spec);
    CHECK(spec_to_json(*back, 0) == spec_to_json(entry.spec, 0));
  }
}

TEST_CASE("Hugging Face's gpt2 is our gpt2-124m") {
  const auto read = parse_spec(kGpt2Config, "config.json", "gpt2");
  REQUIRE(read.ok());
  ModelSpec expected = *find_model("gpt2-124m");
  expected.name = "gpt2";
  expected.source = read->source;
  expected.dropout = 0.1;              // of the configuration; the zoo's says nothing of it
  CHECK(*read == expected);
}

TEST_CASE("Hugging Face defaults: n_inner null, n_ctx for n_positions, tied unless said") {
  const auto spec = [](const std::string& text) { return *parse_spec(text, "config.json", "m"); };
  CHECK(spec(replaced(kGpt2Config, "\"n_ctx\": 1024", "\"n_inner\": null")).ffn_hidden == 3072);
  CHECK(spec(replaced(kGpt2Config, "\"n_ctx\": 1024", "\"n_inner\": 100")).ffn_hidden == 100);
  CHECK(spec(replaced(kGpt2Config, "\"n_positions\": 1024, ", "")).positions == 1024);
  CHECK_FALSE(spec(replaced(kGpt2Config, "\"n_ctx\": 1024", "\"tie_word_embeddings\": false"))
                  .tied_embeddings);
  // 524,288 tokens are 2048 samples of 256, capped at 512, and 256 samples of 2048.
  const std::string no_ctx = replaced(kGpt2Config, "\"n_ctx\": 1024, ", "");
  CHECK(spec(replaced(no_ctx, "1024", "256")).default_global_batch == 512);
  CHECK(spec(replaced(no_ctx, "1024", "2048")).default_global_batch == 256);
}

TEST_CASE("variants that compute something else are refused, not approximated") {
  const auto with = [](const std::string& key, const std::string& value) {
    return pointer_of(replaced(kGpt2Config, "\"n_ctx\": 1024", "\"" + key + "\": " + value));
  };
  CHECK(with("scale_attn_by_inverse_layer_idx", "true") == "/scale_attn_by_inverse_layer_idx");
  CHECK(with("scale_attn_weights", "false") == "/scale_attn_weights");
  CHECK(with("add_cross_attention", "true") == "/add_cross_attention");
  CHECK(with("scale_attn_weights", "true") == "accepted");
  CHECK(pointer_of(replaced(kGpt2Config, "gelu_new", "relu")) == "/activation_function");
  CHECK(parse_spec(replaced(kGpt2Config, "gelu_new", "gelu"), "c")->activation ==
        Activation::gelu_erf);
  CHECK(pointer_of(replaced(kGpt2Config, "gelu_new", "gelu_pytorch_tanh")) == "accepted");
}

TEST_CASE("another model_type names what is supported") {
  const auto spec = parse_spec(R"({"model_type": "t5", "hidden_size": 8})", "config.json");
  REQUIRE_FALSE(spec.ok());
  REQUIRE(spec.problems().size() == 1);
  CHECK(core::to_text(spec.problems()).find("gpt2") != std::string::npos);
  CHECK(core::to_text(spec.problems()).find("gpt_neox") != std::string::npos);
}

TEST_CASE("configurations of the zoo's models, as published, give the zoo's parameters") {
  const std::pair<const char*, const char*> configs[] = {
      {"llama3-8b", R"({"model_type": "llama", "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 8192, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
        "rope_scaling": null, "rope_theta": 500000.0, "tie_word_embeddings": false,
        "attention_bias": false, "vocab_size": 128256})"},
      {"mistral-7b", R"({"model_type": "mistral", "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32,
        "num_hidden_layers": 32, "num_key_value_heads": 8, "rms_norm_eps": 1e-05,
        "sliding_window": 4096, "tie_word_embeddings": false, "vocab_size": 32000})"},
      {"mixtral-8x7b", R"({"model_type": "mixtral", "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 14336, "max_position_embeddings": 32768, "num_attention_heads": 32,
        "num_experts_per_tok": 2, "num_hidden_layers": 32, "num_key_value_heads": 8,
        "num_local_experts": 8, "rms_norm_eps": 1e-05, "vocab_size": 32000})"},
      {"mpt-7b", R"({"model_type": "mpt", "attn_config": {"alibi": true, "qk_ln": false,
        "attn_type": "multihead_attention"}, "d_model": 4096, "expansion_ratio": 4,
        "max_seq_len": 2048, "n_heads": 32, "n_layers": 32, "no_bias": true,
        "vocab_size": 50432})"},
      {"bert-large", R"({"model_type": "bert", "hidden_act": "gelu", "hidden_size": 1024,
        "intermediate_size": 4096, "layer_norm_eps": 1e-12, "max_position_embeddings": 512,
        "num_attention_heads": 16, "num_hidden_layers": 24, "type_vocab_size": 2,
        "vocab_size": 30522})"},
      {"gpt-neox-20b", R"({"model_type": "gpt_neox", "hidden_act": "gelu_fast",
        "hidden_size": 6144, "intermediate_size": 24576, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 2048, "num_attention_heads": 64, "num_hidden_layers": 44,
        "rotary_pct": 0.25, "tie_word_embeddings": false, "vocab_size": 50432})"},
      {"opt-125m", R"({"model_type": "opt", "_remove_final_layer_norm": false,
        "activation_function": "relu", "do_layer_norm_before": true, "enable_bias": true,
        "ffn_dim": 3072, "hidden_size": 768, "max_position_embeddings": 2048,
        "num_attention_heads": 12, "num_hidden_layers": 12, "vocab_size": 50272,
        "word_embed_proj_dim": 768})"},
      {"bloom-7b1", R"({"model_type": "bloom", "apply_residual_connection_post_layernorm": false,
        "hidden_size": 4096, "n_head": 32, "n_layer": 30, "vocab_size": 250880,
        "layer_norm_epsilon": 1e-05})"},
      {"bloom-176b", R"({"model_type": "bloom", "n_embed": 14336, "num_attention_heads": 112,
        "n_layer": 70, "seq_length": 2048, "vocab_size": 250880})"},
      {"phi-4", R"({"model_type": "phi3", "rope_theta": 250000,
        "attention_bias": false, "hidden_act": "silu",
        "hidden_size": 5120, "intermediate_size": 17920, "max_position_embeddings": 16384,
        "num_attention_heads": 40, "num_hidden_layers": 40, "num_key_value_heads": 10,
        "partial_rotary_factor": 1.0, "rms_norm_eps": 1e-05, "sliding_window": null,
        "tie_word_embeddings": false, "vocab_size": 100352})"},
      {"qwen3-30b-a3b", R"({"model_type": "qwen3_moe", "rope_theta": 1000000.0,
        "attention_bias": false,
        "decoder_sparse_step": 1, "head_dim": 128, "hidden_act": "silu", "hidden_size": 2048,
        "intermediate_size": 6144, "max_position_embeddings": 32768, "mlp_only_layers": [],
        "moe_intermediate_size": 768, "norm_topk_prob": true, "num_attention_heads": 32,
        "num_experts": 128, "num_experts_per_tok": 8, "num_hidden_layers": 48,
        "num_key_value_heads": 4, "rms_norm_eps": 1e-06, "tie_word_embeddings": false,
        "vocab_size": 151936})"},
      {"smollm3-3b", R"({"model_type": "smollm3", "rope_theta": 5000000.0,
        "attention_bias": false, "hidden_act": "silu",
        "hidden_size": 2048, "intermediate_size": 11008, "max_position_embeddings": 65536,
        "max_window_layers": 28, "mlp_bias": false, "no_rope_layer_interval": 4,
        "num_attention_heads": 16, "num_hidden_layers": 36, "num_key_value_heads": 4,
        "rms_norm_eps": 1e-06, "sliding_window": null, "use_sliding_window": false,
        "vocab_size": 128256})"}};
  for (const auto& [name, text] : configs) {
    INFO(name);
    const auto spec = parse_spec(text, "config.json", name);
    if (!spec) FAIL(core::to_text(spec.problems()));
    const ModelSpec known = *find_model(name);
    CHECK(spec->variants == known.variants);
    CHECK(spec->kinds == known.kinds);
    CHECK(spec->runs == known.runs);
    CHECK((spec->activation == models::Activation::relu) == (known.family == Family::opt));
    CHECK(parameter_count(*build_graph(*spec, {})) == parameter_count(*build_graph(known, {})));
  }
}

TEST_CASE("mixtures whose gates do not add up, and OPT that norms after, are refused by key") {
  const std::string mixture = R"({"model_type": "qwen3_moe", "hidden_size": 64,
    "intermediate_size": 96, "max_position_embeddings": 64, "moe_intermediate_size": 32,
    "num_attention_heads": 2, "num_experts": 4, "num_experts_per_tok": 2,
    "num_hidden_layers": 3, "vocab_size": 100, "norm_topk_prob": )";
  CHECK(parse_spec(mixture + "true}", "config.json").ok());
  CHECK(pointer_of(mixture + "false}") == "/norm_topk_prob");
  const std::string opt = R"({"model_type": "opt", "ffn_dim": 256, "hidden_size": 64,
    "max_position_embeddings": 64, "num_attention_heads": 2, "num_hidden_layers": 2,
    "vocab_size": 100, )";
  CHECK(parse_spec(opt + R"("word_embed_proj_dim": 64})", "config.json")->positions == 66);
  CHECK(parse_spec(opt + R"("word_embed_proj_dim": 64})", "config.json")->default_seq_len == 64);
  CHECK(pointer_of(opt + R"("word_embed_proj_dim": 32})").ends_with("/word_embed_proj_dim"));
  CHECK(pointer_of(opt + R"("do_layer_norm_before": false})").ends_with("/do_layer_norm_before"));
}

// m: a mixture, 32 wide, d: dense, 96 wide.
static std::string layers_of_mixture(const std::string& more) {
  const auto spec = parse_spec(R"({"model_type": "qwen3_moe", "hidden_size": 64,
    "intermediate_size": 96, "max_position_embeddings": 64, "moe_intermediate_size": 32,
    "num_attention_heads": 2, "num_experts": 4, "num_experts_per_tok": 2,
    "num_hidden_layers": 6, "vocab_size": 100, "norm_topk_prob": true)" + more + "}",
                               "config.json");
  if (!spec) return spec.problems()[0].where;
  if (spec->kinds.empty()) return spec->variants.experts > 0 ? "m" : "d";
  std::string text;
  for (const int k : kind_of_layers(*spec)) {
    const LayerKind& kind = spec->kinds[static_cast<std::size_t>(k)];
    const bool mixture = kind.variants.experts == 4;
    CHECK(kind.ffn_hidden == (mixture ? 32 : 96));
    text += mixture ? "m" : "d";
  }
  return text;
}

TEST_CASE("every way in which Hugging Face says which layers are mixtures is read") {
  CHECK(layers_of_mixture("") == "m");
  CHECK(layers_of_mixture(R"(, "decoder_sparse_step": 2)") == "dmdmdm");
  CHECK(layers_of_mixture(R"(, "decoder_sparse_step": 2, "mlp_only_layers": [3, 0])") == "dmdddm");
  CHECK(layers_of_mixture(R"(, "mlp_only_layers": [0])") == "dmmmmm");
  CHECK(layers_of_mixture(R"(, "first_k_dense_replace": 2)") == "ddmmmm");
  CHECK(layers_of_mixture(R"(, "first_k_dense_replace": 1, "moe_layer_freq": 2)") == "ddmdmd");
  CHECK(layers_of_mixture(R"(, "interleave_moe_layer_step": 3)") == "ddmddm");
  CHECK(layers_of_mixture(R"(, "moe_layers": [5, 1])") == "dmdddm");
  CHECK(layers_of_mixture(R"(, "decoder_sparse_step": 7)") == "d");
  CHECK(layers_of_mixture(R"(, "decoder_sparse_step": 0)").ends_with("/decoder_sparse_step"));
}

TEST_CASE("windows are read layer by layer, and types of layers that no builder makes refused") {
  const auto read = [](const std::string& more) {
    const auto spec = parse_spec(R"({"model_type": "qwen3", "hidden_size": 64,
      "intermediate_size": 128, "max_position_embeddings": 512, "num_attention_heads": 4,
      "num_hidden_layers": 2, "vocab_size": 100, "sliding_window": 128)" + more + "}",
                                 "config.json");
    if (!spec) return spec.problems()[0].where;
    if (spec->kinds.empty()) return std::to_string(spec->variants.window);
    std::string windows;               // layer by layer
    for (const int k : kind_of_layers(*spec))
      windows += std::to_string(spec->kinds[static_cast<std::size_t>(k)].variants.window) + " ";
    return windows;
  };
  CHECK(read("") == "128");
  CHECK(read(R"(, "layer_types": ["full_attention", "full_attention"])") == "0");
  CHECK(read(R"(, "layer_types": ["full_attention", "sliding_attention"])") == "0 128 ");
  CHECK(read(R"(, "layer_types": ["full_attention"])").ends_with("/layer_types"));
  CHECK(read(R"(, "layer_types": ["full_attention", "linear_attention"])").ends_with(
      "/layer_types"));
  CHECK(read(R"(, "max_window_layers": 2)") == "0");
  CHECK(read(R"(, "max_window_layers": 1)") == "0 128 ");
  CHECK(read(R"(, "sliding_window_pattern": 1)") == "0");
  CHECK(read(R"(, "sliding_window_pattern": 2)") == "128 0 ");
}

TEST_CASE("layers without rotation are read as a list, or as every n-th layer") {
  const auto read = [](const std::string& more) {
    const auto spec = parse_spec(R"({"model_type": "smollm3", "hidden_size": 64,
      "intermediate_size": 128, "max_position_embeddings": 512, "num_attention_heads": 4,
      "num_hidden_layers": 5, "vocab_size": 100)" + more + "}", "config.json");
    if (!spec) return spec.problems()[0].where;
    if (spec->kinds.empty()) return std::string("one kind");
    std::string text;
    for (const int k : kind_of_layers(*spec))
      text += spec->kinds[static_cast<std::size_t>(k)].name.substr(0, 1);
    return text;
  };
  CHECK(read("") == "rrrnr");
  CHECK(read(R"(, "no_rope_layer_interval": 2)") == "rnrnr");
  CHECK(read(R"(, "no_rope_layers": [1, 0, 1, 1, 1])") == "rnrrr");
  CHECK(read(R"(, "no_rope_layers": [1, 1, 1, 1, 1])") == "one kind");
  CHECK(read(R"(, "no_rope_layers": [1, 0])").ends_with("/no_rope_layers"));
}

TEST_CASE("a window is read, and dropout that the graph leaves out is kept, to be said") {
  const auto read = [](const std::string& type, const std::string& more) {
    return parse_spec(R"({"model_type": ")" + type + R"(", "hidden_size": 64,
      "intermediate_size": 128, "max_position_embeddings": 512, "num_attention_heads": 4,
      "num_hidden_layers": 2, "vocab_size": 100, )" + more + "}", "config.json").value();
  };
  const auto window = [&](const std::string& type, const std::string& more) {
    return read(type, more).variants.window;
  };
  CHECK(window("mistral", R"("sliding_window": 128)") == 128);
  CHECK(window("mistral", R"("sliding_window": null)") == 0);
  CHECK(window("qwen2", R"("sliding_window": 128, "use_sliding_window": false)") == 0);
  CHECK(window("qwen2", R"("sliding_window": 128, "use_sliding_window": true)") == 128);
  CHECK(read("llama", R"("attention_dropout": 0.0)").dropout == 0);
  const ModelSpec dropped = read("llama", R"("attention_dropout": 0.1, "hidden_dropout": 0.2)");
  CHECK(dropped.dropout == 0.2);
  const ModelSpec windowed = read("mistral", R"("sliding_window": 128)");
  CHECK(parse_spec(spec_to_json(windowed), "again").value() == windowed);
  CHECK(parse_spec(spec_to_json(dropped), "again").value() == dropped);
}

TEST_CASE("Qwen2 has biases on q, k and v alone: 494,032,768 parameters at 0.5B") {
  // Per layer, h = 896: q and o 2 h^2, k and v 2 x 128 h, 3 h 4864, biases 896 + 256, norms 2 h.
  const auto spec = parse_spec(R"({"model_type": "qwen2", "hidden_act": "silu",
    "hidden_size": 896, "intermediate_size": 4864, "max_position_embeddings": 32768,
    "num_attention_heads": 14, "num_hidden_layers": 24, "num_key_value_heads": 2,
    "rms_norm_eps": 1e-06, "sliding_window": 32768, "tie_word_embeddings": true,
    "use_sliding_window": false, "vocab_size": 151936})", "config.json");
  REQUIRE(spec.ok());
  CHECK(parameter_count(*build_graph(*spec, {})) == 494'032'768);
}

TEST_CASE("Qwen3 norms each head and has a head width of its own: 596,049,920 parameters at 0.6B") {
  // Per layer, h = 1024: q and o 2 x 2048 h, k and v 2 x 1024 h, 3 h 3072, norms 2 h + 2 x 128 =
  // 15,730,944; 28 of them, a table of 151936 h, a norm of h.
  const auto spec = parse_spec(R"({"model_type": "qwen3", "hidden_act": "silu",
    "attention_bias": false, "head_dim": 128, "hidden_size": 1024, "intermediate_size": 3072,
    "max_position_embeddings": 40960, "num_attention_heads": 16, "num_hidden_layers": 28,
    "num_key_value_heads": 8, "rms_norm_eps": 1e-06, "tie_word_embeddings": true,
    "use_sliding_window": false, "vocab_size": 151936})", "config.json");
  REQUIRE(spec.ok());
  CHECK(parameter_count(*build_graph(*spec, {})) == 596'049'920);
  // Two ranks keep both gammas whole, and have a part of their gradients each.
  const Segment layer = build_graph(*spec, {.seq_len = 8, .tensor = 2})->templates[0];
  const Parameter& gamma = find_parameter(layer, "attn.k_norm.weight");
  CHECK(gamma.elements == 128);
  CHECK(gamma.tensor_partial);
  const Operator& norm = find_operator(layer, "attn.qk_norm");
  CHECK(norm.saved.size() == 2);  // the queries, keys and values as they were, and 12 rstd a token
  CHECK(norm.elements_forward == 8 * (2 * (8 + 2 * 4) * 128 + 12));
}

TEST_CASE("files from before norms of queries and keys had kinds are read as they were meant") {
  const auto read = [](const char* said) {
    const std::string model = R"({"schema": "model/1", "name": "a", "family": "llama", "layers": 2,
      "hidden": 64, "heads": 4, "vocab": 100, "positions": 32, "qk_norm": )";
    const auto spec = parse_spec(model + said + "}", "a.json");
    REQUIRE(spec.ok());
    return spec->variants.qk_norm;
  };
  CHECK(read("true") == QkNorm::heads);
  CHECK(read("false") == QkNorm::none);
  CHECK(read("\"width\"") == QkNorm::width);
}

TEST_CASE("a configuration that lacks a key, or computes something else, names the key") {
  CHECK(pointer_of(R"({"model_type": "mpt", "d_model": 64, "n_heads": 4, "n_layers": 2,
    "max_seq_len": 64, "vocab_size": 100, "attn_config": {"qk_ln": true}})") ==
        "/attn_config/qk_ln");
  const auto missing = parse_spec(R"({"model_type": "llama", "hidden_size": 64})", "config.json");
  REQUIRE_FALSE(missing.ok());
  CHECK(core::to_text(missing.problems()).find("num_hidden_layers") != std::string::npos);
}

TEST_CASE("keys of a configuration that nobody read are named, but those that do not matter") {
  const auto spec = parse_spec(R"({"model_type": "llama", "architectures": ["LlamaForCausalLM"],
      "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2,
      "num_attention_heads": 4, "num_key_value_heads": 2, "vocab_size": 100,
      "max_position_embeddings": 128, "rms_norm_eps": 1e-05, "rope_theta": 500000.0,
      "rope_scaling": {"factor": 8.0}, "tie_word_embeddings": false, "torch_dtype": "bfloat16",
      "transformers_version": "4.43.0", "use_cache": true, "mlp_bias": false, "hidden_act": "silu",
      "attention_bias": false, "attention_dropout": 0.0, "bos_token_id": 1, "eos_token_id": 2,
      "initializer_range": 0.02, "pretraining_tp": 1, "quantization_config": {"bits": 4},
      "value_residual": true, "expert_bonus": null})", "config.json");
  REQUIRE(spec.ok());
  CHECK(spec->not_read == std::vector<std::string>{"quantization_config", "value_residual"});
}

TEST_CASE("hostile configurations give problems and allocate nothing large") {
  const std::pair<const char*, const char*> keys[] = {{"\"n_layer\": 12", "/n_layer"},
                                                      {"\"n_embd\": 768", "/n_embd"},
                                                      {"\"n_head\": 12", "/n_head"},
                                                      {"\"n_positions\": 1024", "/n_positions"},
                                                      {"\"vocab_size\": 50257", "/vocab_size"}};
  const std::string config = replaced(kGpt2Config, "\"n_ctx\": 1024, ", "");
  for (const auto& [text, pointer] : keys) {
    const std::string key(text, std::string_view(text).find(' ') + 1);
    for (const char* value : {"0", "-1", "1e18", "1e400", "18446744073709551615", "2.5", "\"12\"",
                              "null", "[12]", "true"}) {
      INFO(key << value);
      CHECK_FALSE(parse_spec(replaced(config, text, key + value), "config.json").ok());
    }
    CHECK(pointer_of(replaced(config, text, key + "-1")) == pointer);
  }
  CHECK_FALSE(parse_spec(replaced(kGpt2Config, "\"n_head\": 12", "\"n_head\": 7"), "c").ok());
  // Each in range, 65,536 x 12 x 2^52 parameters together.
  const std::string deep = replaced(kGpt2Config, "\"n_layer\": 12", "\"n_layer\": 65536");
  CHECK_FALSE(parse_spec(replaced(deep, "768", "67108860"), "c").ok());
  for (const char* text : {"", "{", "[]", "null", "{}", "{\"schema\": \"model/2\"}",
                           "{\"model_type\": 3}", "\xff\xfe"})
    CHECK_FALSE(parse_spec(text, "config.json").ok());
}

TEST_CASE("our own file is strict and its problems come all at once, with their places") {
  const std::string text = R"({"schema": "model/1", "name": "m", "family": "chain",
 "widths": [4, 0, 2], "activation": "tanhh", "los": "squared_error"})";
  const auto spec = parse_spec(text, "m.json");
  REQUIRE_FALSE(spec.ok());
  const std::string problems = core::to_text(spec.problems());
  INFO(problems);
  CHECK(problems.find("m.json:2:16 /widths/1") != std::string::npos);
  CHECK(problems.find("tanh") != std::string::npos);
  CHECK(problems.find("/los") != std::string::npos);
  CHECK(spec.problems().size() == 4);  // the loss is missing, too
}

TEST_CASE("a chain file of too many widths is refused") {
  std::string widths = "1";
  for (std::int64_t i = 0; i < kMaxLayers + 1; ++i) widths += ",1";
  CHECK_FALSE(parse_spec(R"({"schema": "model/1", "name": "m", "family": "chain", "widths": [)" +
                             widths + R"(], "activation": "relu", "loss": "squared_error"})",
                         "m.json")
                  .ok());
}
