#include "tests/catch.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;
using namespace models_test;

static ModelGraph graph_of(const ModelSpec& spec, std::int64_t seq_len, std::int64_t tensor = 1) {
  auto graph = build_graph(spec, {.seq_len = seq_len, .tensor = tensor});
  if (!graph) FAIL(core::to_text(graph.problems()));
  return std::move(graph).value();
}

static std::int64_t stored(const Segment& segment) {
  std::int64_t total = 0;
  for (const Parameter& p : segment.parameters)
    if (p.tied_to.empty()) total += p.elements;
  return total;
}

TEST_CASE("a layer of GPT-2 has 12 h^2 + 13 h parameters") {
  // qkv 3h^2 + 3h, proj h^2 + h, fc 4h^2 + 4h, proj 4h^2 + h, two norms 2h each: at h = 768
  // 12 x 589,824 + 13 x 768 = 7,077,888 + 9,984 = 7,087,872.
  CHECK(stored(graph_of(gpt2_124m(), 1024).templates[0]) == 7'087'872);
}

TEST_CASE("GPT-2 124M has exactly the published number of parameters, tied table once") {
  const ModelGraph graph = graph_of(gpt2_124m(), 1024);
  CHECK(parameter_count(graph) == 124'439'808);
  ModelSpec untied = gpt2_124m();
  untied.tied_embeddings = false;
  CHECK(parameter_count(graph_of(untied, 1024)) == 124'439'808 + 50257 * 768);
  CHECK(parameter_count(graph_of(gpt2_124m(), 64)) == 124'439'808);
}

TEST_CASE("forward GEMM FLOPs of one GPT-2 124M sample, worked by hand") {
  // s = 1024, h = 768. A layer: matrices 2 s 12 h^2 = 14,495,514,624; attention 4 s^2 h =
  // 3,221,225,472. Twelve: 212,600,881,152. Head 2 s h V = 79,047,426,048.
  CHECK(forward_gemm_flops(graph_of(gpt2_124m(), 1024)).value() == 291'648'307'200.0);
}

TEST_CASE("a linear's two gradients cost one forward each, attention's backward 2.5") {
  const ModelGraph graph = graph_of(tiny_gpt2(), 8);
  const Operator& fc = find_operator(graph.templates[0], "mlp.fc");
  CHECK(fc.flops_forward.value() == 2.0 * 8 * 96 * 24);
  CHECK(fc.flops_input_gradient == fc.flops_forward);
  CHECK(fc.flops_weight_gradient == fc.flops_forward);
  const Operator& core = find_operator(graph.templates[0], "attn.core");
  CHECK(core.flops_forward.value() == 4.0 * 8 * 8 * 24);
  CHECK(core.flops_input_gradient.value() == 2.5 * core.flops_forward.value());
  CHECK(core.flops_weight_gradient.value() == 0.0);
}

TEST_CASE("a layer keeps 16 h + 2 (f = 4 h) elements a token with flash attention") {
  // Activations: x 1, ln_1 out 1, qkv 3, attention out 1, x_mid 1, ln_2 out 1, fc out 4, gelu out 4
  // = 16 h. llm.c's list (its A.2: ln1, atty, residual2, ln2, fch, fch_gelu, residual3, qkvr =
  // 2+2+2+2+8+8+2+6 = 32 C bytes in bf16) names the same eight tensors, with the layer's output
  // for our input. Statistics: two norms x (mean, rstd) = 4, lse = heads.
  const Segment layer = graph_of(gpt2_124m(), 1024).templates[0];
  CHECK(saved_elements(layer, TensorRole::activation) == 1024 * 16 * 768);
  CHECK(saved_elements(layer, TensorRole::statistic) == 1024 * (4 + 12));
  // In bf16 with f32 statistics: 32 x 768 + 4 x 16 = 24,640 bytes a token and layer.
  CHECK(2 * saved_elements(layer, TensorRole::activation) / 1024 +
            4 * saved_elements(layer, TensorRole::statistic) / 1024 == 24'640);
}

TEST_CASE("the head keeps its input, the norm's output and the logits") {
  const Segment head = graph_of(gpt2_124m(), 1024).epilogue;
  CHECK(saved_elements(head, TensorRole::activation) == 1024 * 2 * 768);
  CHECK(saved_elements(head, TensorRole::statistic) == 1024 * 2);
  CHECK(saved_elements(head, TensorRole::logits) == 1024 * 50257);
}

TEST_CASE("one rank alone has no collectives, several have Megatron's two pairs a layer") {
  for (const std::int64_t t : {1, 2, 3}) {
    const ModelGraph graph = graph_of(tiny_gpt2(), 8, t);
    int copies = 0, reductions = 0;
    for (std::size_t v = 0; v < boost::num_vertices(graph.templates[0].graph); ++v) {
      copies += graph.templates[0].graph[v].kind == OpKind::tensor_copy;
      reductions += graph.templates[0].graph[v].kind == OpKind::tensor_reduce;
    }
    CHECK(copies == (t > 1 ? 2 : 0));
    CHECK(reductions == (t > 1 ? 2 : 0));
    CHECK(has_operator(graph.prologue, "wte.reduce") == (t > 1));
    CHECK(has_operator(graph.epilogue, "head.copy") == (t > 1));
  }
}

TEST_CASE("tensor ranks divide matrices and what lies between them, and nothing else") {
  for (const std::int64_t t : {1, 2, 3, 6}) {
    INFO("tensor " << t);
    const ModelGraph graph = graph_of(tiny_gpt2(), 8, t);
    const Segment& layer = graph.templates[0];
    const auto shape = [&](const char* name) { return find_parameter(layer, name).shape; };
    using Shape = std::vector<std::int64_t>;
    CHECK(shape("attn.qkv.weight") == Shape{72 / t, 24});
    CHECK(shape("attn.qkv.bias") == Shape{72 / t});
    CHECK(find_parameter(layer, "attn.qkv.weight").split_groups == 3);
    CHECK(shape("attn.proj.weight") == Shape{24, 24 / t});
    CHECK(find_parameter(layer, "attn.proj.weight").split_axis == 1);
    CHECK(shape("attn.proj.bias") == Shape{24});
    CHECK(shape("mlp.fc.weight") == Shape{96 / t, 24});
    CHECK(shape("mlp.proj.weight") == Shape{24, 96 / t});
    CHECK(shape("ln_1.weight") == Shape{24});
    CHECK(find_operator(layer, "attn.core").heads == 6 / t);
    // Whole: x, ln_1 out, x_mid, ln_2 out; divided: qkv 3, attention out 1, fc 4, gelu 4.
    CHECK(saved_elements(layer, TensorRole::activation) == 8 * 24 * (4 + 12 / t));
    CHECK(parameter_count(graph) == parameter_count(graph_of(tiny_gpt2(), 8)));
  }
}

TEST_CASE("a vocabulary that ranks do not divide is padded to the next multiple of them alone") {
  // 521 rows: 521 on one rank, 261 on each of two (522), 174 on each of three (522).
  const std::int64_t rows[] = {0, 521, 261, 174};
  for (const std::int64_t t : {1, 2, 3}) {
    const ModelGraph graph = graph_of(tiny_gpt2(), 8, t);
    const Parameter& wte = find_parameter(graph.prologue, "wte.weight");
    CHECK(wte.shape == std::vector<std::int64_t>{rows[t], 24});
    CHECK(wte.unsharded_elements == 521 * 24);
    const Parameter& head = find_parameter(graph.epilogue, "lm_head.weight");
    CHECK(head.tied_to == "wte.weight");
    CHECK(head.shape == wte.shape);
    CHECK(find_operator(graph.epilogue, "head").n == rows[t]);
  }
}

TEST_CASE("parameters keep their order and names whatever the tensor degree") {
  const ModelGraph one = graph_of(tiny_gpt2(), 8), three = graph_of(tiny_gpt2(), 8, 3);
  REQUIRE(one.templates[0].parameters.size() == 12);
  REQUIRE(three.templates[0].parameters.size() == 12);
  for (std::size_t i = 0; i < 12; ++i) {
    CHECK(one.templates[0].parameters[i].name == three.templates[0].parameters[i].name);
    CHECK(one.templates[0].parameters[i].full_shape == three.templates[0].parameters[i].full_shape);
  }
  // The row-parallel bias is added once: by the linear on one rank, after the sum on several.
  CHECK(find_operator(one.templates[0], "attn.proj").parameters.size() == 2);
  CHECK(find_operator(three.templates[0], "attn.proj").parameters.size() == 1);
  CHECK(find_operator(three.templates[0], "attn.proj.bias_add").parameters.size() == 1);
}

TEST_CASE("softmax statistics are reduced as loss traffic, the maximum as a maximum") {
  const Segment head = graph_of(tiny_gpt2(), 8, 2).epilogue;
  const Operator& max = find_operator(head, "head.max_reduce");
  const Operator& sums = find_operator(head, "head.sums_reduce");
  CHECK((max.reduce_max && max.loss_traffic));
  CHECK((!sums.reduce_max && sums.loss_traffic));
  CHECK(head.tensors[static_cast<std::size_t>(sums.outputs[0])].per_sample == 2 * 8);
  CHECK_FALSE(find_operator(graph_of(tiny_gpt2(), 8, 2).prologue, "wte.reduce").loss_traffic);
}

TEST_CASE("the residual sum takes the branch's place and leaves the input that a norm keeps") {
  const Segment layer = graph_of(tiny_gpt2(), 8).templates[0];
  const Operator& sum = find_operator(layer, "attn.add");
  CHECK(sum.inputs == std::vector<TensorIndex>{layer.input, find_tensor(layer, "attn.proj.out")});
  CHECK(layer.tensors[static_cast<std::size_t>(sum.outputs[0])].in_place_of == sum.inputs[1]);
  CHECK(layer.output == find_operator(layer, "mlp.add").outputs[0]);
}

TEST_CASE("inference trains nothing, keeps nothing and ends in the logits") {
  auto graph = build_graph(tiny_gpt2(), {.seq_len = 8, .tensor = 2, .inference = true});
  REQUIRE(graph.ok());
  CHECK(saved_elements(graph->templates[0], TensorRole::activation) == 0);
  CHECK_FALSE(find_parameter(graph->prologue, "wte.weight").trainable);
  CHECK_FALSE(has_operator(graph->templates[0], "attn.copy"));
  CHECK(graph->epilogue.output == find_tensor(graph->epilogue, "head.out"));
  CHECK_FALSE(has_operator(graph->epilogue, "head.loss"));
  CHECK(find_operator(graph->templates[0], "mlp.fc").flops_weight_gradient.value() == 0.0);
}

TEST_CASE("rows of logits are padded to 128 bytes where that adds under 1 %") {
  KeptBeside kept;
  CHECK(logit_row(50257, kept) == 50257);
  kept.aligned_logits = true;
  CHECK(logit_row(50257, kept) == 50304);
  CHECK(logit_row(32000, kept) == 32000);
  CHECK(logit_row(501, kept) == 501);     // 512 would be 2.2 % more
  CHECK(logit_row(6336, kept) == 6336);
  CHECK(logit_row(6337, kept) == 6400);   // 63 of 6337
}
