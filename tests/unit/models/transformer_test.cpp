// What Variants change of GPT-2's blocks: operators, parameters, work and what is kept.
#include "models/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;
using namespace models_test;

static ModelSpec tiny(Family family) {
  ModelSpec spec = tiny_gpt2();
  spec.family = family;
  spec.variants = variants_of(family);
  spec.activation = activation_of(family);
  return spec;
}

static ModelSpec tiny_llama() {  // 6 heads of 4, 2 key-value heads, 3 matrices of 40 x 24
  ModelSpec spec = tiny(Family::llama);
  spec.kv_heads = 2;
  spec.ffn_hidden = 40;
  spec.tied_embeddings = false;
  return spec;
}

static ModelGraph graph_of(const ModelSpec& spec, std::int64_t tensor = 1) {
  auto graph = build_graph(spec, {.seq_len = 8, .tensor = tensor});
  if (!graph) FAIL(core::to_text(graph.problems()));
  return std::move(graph).value();
}

static std::vector<std::string> names(const Segment& segment) {
  std::vector<std::string> all;
  for (const auto v : topological_order(segment)) all.push_back(segment.graph[v].name);
  return all;
}

TEST_CASE("a layer of Llama has its operators in order") {
  CHECK(names(graph_of(tiny_llama()).templates[0]) ==
        std::vector<std::string>{"ln_1", "attn.qkv", "attn.rope", "attn.core", "attn.proj",
                                 "attn.add", "ln_2", "mlp.gate_up", "mlp.swiglu", "mlp.proj",
                                 "mlp.add"});
}

TEST_CASE("a layer of Llama, parameters by hand") {
  // q 24x24, k and v 8x24 each, o 24x24, gate, up and down 3 x 40x24, two norms of 24:
  // 576 + 384 + 576 + 2880 + 48 = 4464; two layers, two tables of 521x24, a norm.
  CHECK(parameter_count(graph_of(tiny_llama())) == 2 * 4464 + 2 * 521 * 24 + 24);
  ModelSpec qwen = tiny_llama();
  qwen.family = Family::qwen2;
  qwen.variants = variants_of(Family::qwen2);
  CHECK(parameter_count(graph_of(qwen)) == 2 * (4464 + 40) + 2 * 521 * 24 + 24);
}

TEST_CASE("grouped queries: work and what is kept, by hand") {
  const Segment layer = graph_of(tiny_llama()).templates[0];
  const Operator& qkv = find_operator(layer, "attn.qkv");
  CHECK(qkv.n == 24 + 2 * 8);
  CHECK(qkv.flops_forward.value() == 2.0 * 8 * 40 * 24);
  const Operator& core = find_operator(layer, "attn.core");
  CHECK(core.flops_forward.value() == 4.0 * 8 * 8 * 24);  // all query heads
  CHECK(core.elements_forward == 8 * (40 + 24 + 6));
  CHECK(core.elements_backward == 8 * (2 * 40 + 2 * 24 + 6));
  const Operator& rope = find_operator(layer, "attn.rope");
  CHECK(rope.n == (6 + 2) * 4);  // q and k, not v
  CHECK(rope.flops_forward.value() == 3.0 * 8 * 32);
  // x 24, ln_1 24, qkv 40, attention out 24, middle 24, ln_2 24, gate and up 80, their product 40.
  CHECK(saved_elements(layer, TensorRole::activation) == 8 * 280);
  CHECK(saved_elements(layer, TensorRole::statistic) == 8 * (2 + 6));  // two rstd, lse
}

TEST_CASE("rms_norm and swiglu do the work of their formulas, by hand") {
  const Segment layer = graph_of(tiny_llama()).templates[0];
  const Operator& norm = find_operator(layer, "ln_1");
  CHECK(norm.kind == OpKind::rms_norm);
  CHECK(norm.flops_forward.value() == 4.0 * 8 * 24);
  CHECK(norm.flops_input_gradient.value() == 6.0 * 8 * 24);
  CHECK(norm.flops_weight_gradient.value() == 2.0 * 8 * 24);
  CHECK(norm.elements_forward == 2 * 8 * 24 + 8);
  CHECK(norm.parameter_elements == 24);
  const Operator& gate = find_operator(layer, "mlp.swiglu");
  CHECK(gate.n == 40);
  CHECK(gate.flops_forward.value() == 5.0 * 8 * 40);
  CHECK(gate.flops_input_gradient.value() == 10.0 * 8 * 40);
  CHECK(gate.elements_forward == 3 * 8 * 40);
  CHECK(gate.elements_backward == 5 * 8 * 40);
}

TEST_CASE("tensor ranks divide key-value heads, and refuse to divide what is fewer") {
  const ModelGraph two = graph_of(tiny_llama(), 2);
  const Parameter& qkv = find_parameter(two.templates[0], "attn.qkv.weight");
  CHECK(qkv.shape == std::vector<std::int64_t>{20, 24});
  CHECK(qkv.split_blocks == std::vector<std::int64_t>{24, 8, 8});
  CHECK(find_operator(two.templates[0], "attn.core").kv_heads == 1);
  CHECK(parameter_count(two) == parameter_count(graph_of(tiny_llama())));
  const auto three = build_graph(tiny_llama(), {.seq_len = 8, .tensor = 4});
  REQUIRE_FALSE(three.ok());
  CHECK(three.problems()[0].where == "tensor");
}

TEST_CASE("GPT-NeoX sums both branches before one reduction") {
  const ModelSpec spec = tiny(Family::gpt_neox);
  const Segment layer = graph_of(spec, 2).templates[0];
  int reductions = 0;
  for (const auto v : topological_order(layer))
    reductions += layer.graph[v].kind == OpKind::tensor_reduce;
  CHECK(reductions == 1);
  CHECK(has_operator(layer, "attn.proj.bias_add"));
  CHECK(has_operator(layer, "mlp.proj.bias_add"));
  CHECK(find_operator(layer, "attn.rope").n == 6 * 1);  // a quarter of each of 3 + 3 heads' 4
  CHECK(find_operator(layer, "layer.add").inputs[0] == layer.input);
}

TEST_CASE("MPT has no biases, no position table and ALiBi in its attention") {
  const ModelGraph graph = graph_of(tiny(Family::mpt));
  for (const Parameter& p : graph.templates[0].parameters)
    CHECK(p.name.find("bias") == std::string::npos);
  CHECK(graph.prologue.parameters.size() == 1);
  CHECK(find_operator(graph.templates[0], "attn.core").alibi);
  CHECK(find_operator(graph.templates[0], "ln_1").parameters.size() == 1);
}

TEST_CASE("BERT sees both ways, norms after its sums and pools its first token") {
  const ModelGraph graph = graph_of(tiny(Family::bert));
  const Segment& layer = graph.templates[0];
  CHECK_FALSE(find_operator(layer, "attn.core").causal);
  CHECK(names(layer).back() == "ln_2");
  CHECK(find_operator(layer, "mlp.gelu").activation == Activation::gelu_erf);
  CHECK(names(graph.prologue) == std::vector<std::string>{"wte", "wpe", "wtt", "ln_e"});
  CHECK(find_operator(graph.epilogue, "pooler").rows == 1);
  CHECK_FALSE(has_operator(graph.epilogue, "ln_f"));
}

TEST_CASE("a head's width need not be hidden / heads") {
  ModelSpec spec = tiny_llama();
  spec.head_dim = 10;
  const Segment layer = graph_of(spec).templates[0];
  CHECK(find_parameter(layer, "attn.qkv.weight").full_shape ==
        std::vector<std::int64_t>{(6 + 2 * 2) * 10, 24});
  CHECK(find_parameter(layer, "attn.proj.weight").full_shape ==
        std::vector<std::int64_t>{24, 60});
}

TEST_CASE("adapters of the feed-forward: gate and up beside each other, down alone") {
  const ModelSpec llama = tiny_llama();
  const std::int64_t f = llama.ffn_hidden, h = llama.hidden;
  const auto graph =
      build_graph(llama, {.seq_len = 8, .lora_rank = 4, .lora_targets = {"gate", "up", "down"}});
  REQUIRE(graph.ok());
  // r (h + f) for each of the three, in two layers.
  CHECK(parameter_count(*graph, true) - parameter_count(*graph) == 2 * 3 * 4 * (h + f));
  CHECK(find_operator(graph->templates[0], "mlp.gate_up.lora_up").column_offsets ==
        std::vector<std::int64_t>{0, f});
  // GPT-2 has no gate.
  CHECK_FALSE(build_graph(tiny_gpt2(), {.seq_len = 8, .lora_rank = 4, .lora_targets = {"gate"}}));
}

TEST_CASE("LoRA on grouped queries adapts q by itself, k and v together") {
  const auto graph = build_graph(
      tiny_llama(), {.seq_len = 8, .lora_rank = 3, .lora_targets = {"q", "k", "v", "o"}});
  REQUIRE(graph.ok());
  const Segment& layer = graph->templates[0];
  using Shape = std::vector<std::int64_t>;
  CHECK(find_parameter(layer, "attn.qkv.lora_b").shape == Shape{1, 24, 3});
  CHECK(find_parameter(layer, "attn.qkv.kv.lora_b").shape == Shape{2, 8, 3});
  CHECK(find_operator(layer, "attn.qkv.kv.lora_up").column_offsets == Shape{24, 32});
  // r (d_in + d_out) each: q 3 (24+24), k and v 3 (24+8), o 3 (24+24); two layers.
  CHECK(parameter_count(*graph, true) - parameter_count(*graph) == 2 * 3 * (48 + 32 + 32 + 48));
}

TEST_CASE("experts: every parameter counts, the work of those chosen, by hand") {
  ModelSpec spec = tiny_llama();
  spec.family = Family::mixtral;
  spec.variants = variants_of(Family::mixtral);
  spec.variants.experts = 5;
  spec.variants.experts_per_token = 2;
  const ModelGraph graph = graph_of(spec);
  // As the layer of Llama above, with five times its 2880 and a router of 5 x 24.
  CHECK(parameter_count(graph) == 2 * (4464 + 4 * 2880 + 120) + 2 * 521 * 24 + 24);
  const Segment& layer = graph.templates[0];
  // 8 tokens to 2 experts each: 16 rows of 80 x 24 and of 24 x 40.
  CHECK(find_operator(layer, "moe.gate_up").flops_forward.value() == 2.0 * 16 * 80 * 24);
  CHECK(find_operator(layer, "moe.proj").flops_forward.value() == 2.0 * 16 * 24 * 40);
  CHECK(find_operator(layer, "moe.proj").parameter_elements == 5 * 24 * 40);
  CHECK(find_operator(layer, "moe.top_k").flops_forward.value() == (4.0 + 2) * 8 * 5);
  CHECK(find_operator(layer, "moe.combine").flops_forward.value() == 2.0 * 2 * 8 * 24);
  CHECK(find_operator(layer, "moe.combine").flops_input_gradient.value() == 3.0 * 2 * 8 * 24);
  CHECK(find_operator(layer, "moe.dispatch").elements_forward == 2 * 2 * 8 * 24);
  CHECK(find_parameter(graph_of(spec, 2).templates[0], "moe.proj.weight").shape ==
        std::vector<std::int64_t>{5, 24, 20});
}

TEST_CASE("expert ranks hold some experts each, and rows go to them and back") {
  ModelSpec spec = tiny_llama();
  spec.family = Family::mixtral;
  spec.variants = variants_of(Family::mixtral);
  spec.variants.experts = 6;
  spec.variants.experts_per_token = 2;
  GraphOptions options{.seq_len = 9};
  options.expert = 3;
  const ModelGraph graph = *build_graph(spec, options);
  const Segment& layer = graph.templates[0];
  const Parameter& first = find_parameter(layer, "moe.gate_up.weight");
  CHECK(first.shape[0] == 2);
  CHECK(first.full_shape[0] == 6);
  CHECK(first.expert_ways == 3);
  CHECK(find_parameter(layer, "moe.router.weight").expert_ways == 1);
  CHECK(parameter_count(graph) == parameter_count(*build_graph(spec, {.seq_len = 9})));
  // As many rows as before, of three ranks for two experts.
  const Operator& product = find_operator(layer, "moe.gate_up");
  CHECK(product.rows == 18);
  CHECK(product.groups == 2);
  CHECK(product.origins == 3);
  CHECK(find_operator(layer, "moe.to_experts").kind == OpKind::expert_exchange);
  CHECK(find_operator(layer, "moe.from_experts").rows == 18);
  options.expert = 4;                  // divides neither 6 experts
  CHECK_FALSE(build_graph(spec, options).ok());
  options.expert = 3;
  options.seq_len = 7;                 // nor 3 the 14 copies
  CHECK_FALSE(build_graph(spec, options).ok());
}

TEST_CASE("degrees that no builder divides by are refused by name") {
  GraphOptions options{.seq_len = 8};
  options.context = 3;  // 8 tokens
  options.expert = 4;
  const auto graph = build_graph(tiny_llama(), options);
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.problems().size() == 2);
}

TEST_CASE("a context rank has its part of the rows, and attends to all keys") {
  GraphOptions options{.seq_len = 8};
  const ModelGraph whole = *build_graph(tiny_llama(), options);
  options.context = 2;
  const ModelGraph half = *build_graph(tiny_llama(), options);
  const auto core = [](const ModelGraph& g) { return find_operator(g.templates[0], "attn.core"); };
  CHECK(core(half).rows == 4);
  CHECK(core(half).keys == 8);
  CHECK(core(half).flops_forward.value() == core(whole).flops_forward.value() / 2);
  CHECK(half.boundary_elements(1) * 2 == whole.boundary_elements(1));
}
