#include "tests/catch.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;
using namespace models_test;

static ModelGraph adapted(std::int64_t rank, std::vector<std::string> targets) {
  auto graph = build_graph(tiny_gpt2(),
                           {.seq_len = 8, .lora_rank = rank, .lora_targets = std::move(targets)});
  if (!graph) FAIL(core::to_text(graph.problems()));
  return std::move(graph).value();
}

static std::int64_t trained(const Segment& segment) {
  std::int64_t total = 0;
  for (const Parameter& p : segment.parameters)
    if (p.trainable) total += p.elements;
  return total;
}

TEST_CASE("adapters have r (d_in + d_out) elements a target and train alone") {
  // h = 24: 48 r a target; two layers.
  for (const std::int64_t rank : {1, 4, 24}) {
    const ModelGraph graph = adapted(rank, {"q", "k", "v", "o"});
    CHECK(trained(graph.templates[0]) == 4 * rank * (24 + 24));
    CHECK(trained(graph.prologue) + trained(graph.epilogue) == 0);
    CHECK(parameter_count(graph, true) - parameter_count(graph) == 2 * 4 * rank * 48);
  }
  CHECK(trained(adapted(4, {"v"}).templates[0]) == 4 * 48);
}

TEST_CASE("one adapter serves the chosen of q, k, v, at their columns, in any order given") {
  const Segment layer = adapted(4, {"v", "q"}).templates[0];
  CHECK(find_operator(layer, "attn.qkv.lora_up").column_offsets ==
        std::vector<std::int64_t>{0, 48});
  CHECK(find_parameter(layer, "attn.qkv.lora_a").shape == std::vector<std::int64_t>{8, 24});
  CHECK(find_parameter(layer, "attn.qkv.lora_b").shape == std::vector<std::int64_t>{2, 24, 4});
  CHECK(find_parameter(layer, "attn.qkv.lora_b").init == Init::zero);
  CHECK_FALSE(has_operator(layer, "attn.proj.lora_up"));
}

TEST_CASE("frozen matrices keep their input only for the adapter that reads it") {
  // Always: x, qkv 3, attention out, x_mid, fc out 4 = 10 h. With q: ln_1 out for lora_a and u of
  // r columns. With o: u alone, since attention keeps its output itself.
  const std::int64_t s = 8, h = 24, r = 4;
  CHECK(saved_elements(adapted(r, {"o"}).templates[0], TensorRole::activation) == s * (10 * h + r));
  CHECK(saved_elements(adapted(r, {"q"}).templates[0], TensorRole::activation) == s * (11 * h + r));
  const ModelGraph queries = adapted(r, {"q"});
  const Operator& qkv = find_operator(queries.templates[0], "attn.qkv");
  CHECK(qkv.saved.empty());
  CHECK(qkv.flops_weight_gradient.value() == 0.0);
  CHECK(qkv.flops_input_gradient == qkv.flops_forward);
}

TEST_CASE("a step counts no product for the gradient of a frozen matrix") {
  // h = 24: matrices of 12 h^2 a layer and the head of 2 layers' model; attention has none.
  const std::int64_t s = 8, h = 24;
  const ModelGraph graph = adapted(4, {"q", "v"});
  const double frozen =
      static_cast<double>(2 * s * (2 * 12 * h * h + h * graph.spec.vocab));
  CHECK(step_gemm_flops(graph).value() ==
        Approx(3 * forward_gemm_flops(graph).value() - frozen));
}

TEST_CASE("bad adapters are refused with a reason") {
  const auto first = [](GraphOptions options) {
    options.seq_len = 8;
    return build_graph(tiny_gpt2(), options).problems().at(0).where;
  };
  CHECK(first({.lora_rank = 4, .lora_targets = {"w"}}) == "lora_targets");
  CHECK(first({.lora_rank = 4, .lora_targets = {"q", "q"}}) == "lora_targets");
  CHECK(first({.lora_rank = 4}) == "lora_targets");
  CHECK(first({.lora_rank = 25, .lora_targets = {"q"}}) == "lora_rank");
}
