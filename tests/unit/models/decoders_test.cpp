// Decoders since Llama: their configurations, and what their graphs hold, by hand. Counts of their
// parameters: zoo_test.cpp.
#include "models/graph.hpp"
#include "models/layer_kinds.hpp"
#include "models/spec_file.hpp"
#include "models/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;

TEST_CASE("published configurations of decoders give the zoo's layers and parameters") {
  const std::pair<const char*, const char*> configs[] = {
      {"olmo-2-13b", R"({"model_type": "olmo2", "rope_theta": 500000,
        "attention_bias": false, "hidden_act": "silu",
        "hidden_size": 5120, "intermediate_size": 13824, "max_position_embeddings": 4096,
        "num_attention_heads": 40, "num_hidden_layers": 40, "num_key_value_heads": 40,
        "rms_norm_eps": 1e-06, "tie_word_embeddings": false, "vocab_size": 100352})"},
      {"command-r-35b", R"({"model_type": "cohere", "rope_theta": 8000000.0,
        "attention_bias": false,
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
      {"starcoder2-15b", R"({"model_type": "starcoder2", "rope_theta": 100000,
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_size": 6144, "intermediate_size": 24576, "max_position_embeddings": 16384,
        "norm_epsilon": 1e-05, "num_attention_heads": 48, "num_hidden_layers": 40,
        "num_key_value_heads": 4, "sliding_window": 4096, "tie_word_embeddings": false,
        "use_bias": true, "vocab_size": 49152})"},
      {"stablelm-2-1.6b", R"({"model_type": "stablelm", "hidden_act": "silu",
        "hidden_size": 2048, "intermediate_size": 5632, "layer_norm_eps": 1e-05,
        "max_position_embeddings": 4096, "num_attention_heads": 32, "num_hidden_layers": 24,
        "num_key_value_heads": 32, "partial_rotary_factor": 0.25, "tie_word_embeddings": false,
        "use_qkv_bias": true, "vocab_size": 100352})"},
      {"qwen2-57b-a14b", R"({"model_type": "qwen2_moe", "rope_theta": 1000000.0,
        "decoder_sparse_step": 1,
        "hidden_act": "silu", "hidden_size": 3584, "intermediate_size": 18944,
        "max_position_embeddings": 131072, "moe_intermediate_size": 2560,
        "norm_topk_prob": false, "num_attention_heads": 28, "num_experts": 64,
        "num_experts_per_tok": 8, "num_hidden_layers": 28, "num_key_value_heads": 4,
        "rms_norm_eps": 1e-06, "shared_expert_intermediate_size": 20480,
        "sliding_window": 65536, "tie_word_embeddings": false, "use_sliding_window": false,
        "vocab_size": 151936})"},
      {"gemma-2-27b", R"({"model_type": "gemma2", "attention_bias": false,
        "attn_logit_softcapping": 50.0, "final_logit_softcapping": 30.0, "head_dim": 128,
        "hidden_act": "gelu_pytorch_tanh", "hidden_activation": "gelu_pytorch_tanh",
        "hidden_size": 4608, "intermediate_size": 36864, "max_position_embeddings": 8192,
        "num_attention_heads": 32, "num_hidden_layers": 46, "num_key_value_heads": 16,
        "query_pre_attn_scalar": 144, "rms_norm_eps": 1e-06, "sliding_window": 4096,
        "vocab_size": 256000})"},
      {"gemma-3-1b", R"({"model_type": "gemma3_text", "attention_bias": false,
        "attn_logit_softcapping": null, "final_logit_softcapping": null, "head_dim": 256,
        "hidden_activation": "gelu_pytorch_tanh", "hidden_size": 1152,
        "intermediate_size": 6912, "max_position_embeddings": 32768, "num_attention_heads": 4,
        "num_hidden_layers": 26, "num_key_value_heads": 1, "query_pre_attn_scalar": 256,
        "rms_norm_eps": 1e-06, "sliding_window": 512, "sliding_window_pattern": 6,
        "vocab_size": 262144})"},
      {"glm-4.5-air", R"({"model_type": "glm4_moe", "rope_theta": 1000000, "attention_bias": true,
        "first_k_dense_replace": 1, "head_dim": 128, "hidden_act": "silu", "hidden_size": 4096,
        "intermediate_size": 10944, "max_position_embeddings": 131072,
        "moe_intermediate_size": 1408, "n_group": 1, "n_routed_experts": 128,
        "n_shared_experts": 1, "norm_topk_prob": true, "num_attention_heads": 96,
        "num_experts_per_tok": 8, "num_hidden_layers": 46, "num_key_value_heads": 8,
        "num_nextn_predict_layers": 1,
        "partial_rotary_factor": 0.5, "rms_norm_eps": 1e-05, "routed_scaling_factor": 1.0,
        "tie_word_embeddings": false, "use_qk_norm": false, "vocab_size": 151552})"},
      {"deepseek-v2-lite", R"({"model_type": "deepseek_v2", "attention_bias": false,
        "first_k_dense_replace": 1, "hidden_act": "silu", "hidden_size": 2048,
        "intermediate_size": 10944, "kv_lora_rank": 512, "max_position_embeddings": 163840,
        "moe_intermediate_size": 1408, "moe_layer_freq": 1, "n_routed_experts": 64,
        "n_shared_experts": 2, "norm_topk_prob": false, "num_attention_heads": 16,
        "num_experts_per_tok": 6, "num_hidden_layers": 27, "num_key_value_heads": 16,
        "q_lora_rank": null, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64,
        "rms_norm_eps": 1e-06, "routed_scaling_factor": 1.0, "scoring_func": "softmax",
        "tie_word_embeddings": false, "v_head_dim": 128, "vocab_size": 102400})"},
      {"deepseek-v3", R"({"model_type": "deepseek_v3", "attention_bias": false,
        "first_k_dense_replace": 3, "hidden_act": "silu", "hidden_size": 7168,
        "intermediate_size": 18432, "kv_lora_rank": 512, "max_position_embeddings": 163840,
        "moe_intermediate_size": 2048, "moe_layer_freq": 1, "n_group": 8,
        "n_routed_experts": 256, "n_shared_experts": 1, "norm_topk_prob": true,
        "num_attention_heads": 128, "num_experts_per_tok": 8, "num_hidden_layers": 61,
        "num_key_value_heads": 128, "num_nextn_predict_layers": 1, "q_lora_rank": 1536,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "rms_norm_eps": 1e-06,
        "routed_scaling_factor": 2.5, "scoring_func": "sigmoid", "tie_word_embeddings": false,
        "topk_group": 4, "v_head_dim": 128, "vocab_size": 129280})"}};
  for (const auto& [name, text] : configs) {
    INFO(name);
    const auto spec = parse_spec(text, "config.json", name);
    if (!spec) FAIL(core::to_text(spec.problems()));
    const ModelSpec known = *find_model(name);
    CHECK(kind_of_layers(*spec) == kind_of_layers(known));
    std::vector<Variants> own, expected;
    for_each_kind(*spec, [&](const LayerView& kind) { own.push_back(kind.variants); });
    for_each_kind(known, [&](const LayerView& kind) { expected.push_back(kind.variants); });
    CHECK(own == expected);
    CHECK(spec->activation == known.activation);
    CHECK(spec->mtp_layers == known.mtp_layers);
    CHECK(parameter_count(*build_graph(*spec, {})) == parameter_count(*build_graph(known, {})));
  }
}

TEST_CASE("gpt-oss: windows by layer_types, sinks, and biases of attention, router and experts") {
  const auto spec = parse_spec(R"({"model_type": "gpt_oss", "head_dim": 8, "hidden_act": "silu",
    "hidden_size": 64, "intermediate_size": 32, "max_position_embeddings": 512,
    "num_attention_heads": 8, "num_experts_per_tok": 2, "num_hidden_layers": 3,
    "num_key_value_heads": 2, "num_local_experts": 4, "sliding_window": 128,
    "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
    "tie_word_embeddings": false, "vocab_size": 100})", "config.json");
  if (!spec) FAIL(core::to_text(spec.problems()));
  CHECK(kind_of_layers(*spec) == std::vector<int>{0, 1, 0});
  std::vector<std::int64_t> windows;
  for_each_kind(*spec, [&](const LayerView& kind) {
    const Variants& v = kind.variants;
    windows.push_back(v.window);
    CHECK((v.sinks && v.qkv_bias && v.output_bias && v.router_bias && v.expert_bias));
    CHECK(v.ffn == Ffn::clamped_swiglu);
    CHECK(v.experts == 4);
  });
  CHECK(windows == std::vector<std::int64_t>{128, 0});
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

TEST_CASE("a module for multi-token prediction is a layer, a projection and three norms, by hand") {
  ModelSpec spec = *find_model("deepseek-v3");
  const auto graph = build_graph(spec, {.seq_len = 8});
  // h = 7168. Attention: 1536 h + 128 x 192 x 1536 + (512 + 64) h + 128 x 256 x 512 + 128 x 128 h
  // and norms of 1536 and 512: 187,107,328. Router 256 h, experts 257 x 3 x 2048 h, two norms.
  const std::int64_t h = 7168;
  const std::int64_t layer = 187'107'328 + 256 * h + 257 * 3 * 2048 * h + 2 * h;
  CHECK(layer == 11'507'286'016);
  CHECK(mtp_parameter_count(*graph) == layer + 2 * h * h + 3 * h);  // published: 11.5 billion
  // Products: those of one mixture more, of the head, and of the projection.
  ModelSpec deeper = spec;
  deeper.layers = 62;
  deeper.runs.back().times = 59;
  const double one_more = (step_gemm_flops(*build_graph(deeper, {.seq_len = 8})) -
                           step_gemm_flops(*graph)).value();
  const double head = 6.0 * 8 * 7168 * 129280, projection = 6.0 * 8 * 2 * 7168 * 7168;
  CHECK(std::abs(mtp_step_gemm_flops(*graph).value() / (one_more + head + projection) - 1) < 1e-12);
  // The same of a graph that has it; published counts leave it out.
  const auto trained = build_graph(spec, {.seq_len = 8, .mtp = 1});
  std::int64_t elements = 0;
  for (const Parameter& p : trained->epilogue.parameters)
    if (p.mtp && p.tied_to.empty()) elements += p.unsharded_elements;
  CHECK(elements == mtp_parameter_count(*graph));
  CHECK(parameter_count(*trained) == parameter_count(*graph));
  CHECK(step_gemm_flops(*trained) - step_gemm_flops(*graph) == mtp_step_gemm_flops(*graph));
  spec.mtp_layers = 0;
  CHECK(mtp_parameter_count(*build_graph(spec, {})) == 0);
  CHECK(parse_spec(spec_to_json(*find_model("glm-4.5")), "again")->mtp_layers == 1);
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
