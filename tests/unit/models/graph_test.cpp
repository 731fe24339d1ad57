#include <random>

#include "tests/catch.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;
using namespace models_test;

static ModelGraph tiny(std::int64_t layers, std::int64_t tensor = 1) {
  ModelSpec spec = tiny_gpt2();
  spec.layers = layers;
  auto graph = build_graph(spec, {.seq_len = 8, .tensor = tensor});
  if (!graph) FAIL(core::to_text(graph.problems()));
  return std::move(graph).value();
}

TEST_CASE("the whole graph has every layer's operators and only forward edges") {
  // Prologue 2; a layer ln qkv attention proj add ln fc gelu proj add = 10; epilogue ln head max
  // sums loss = 5. Edges: prologue 1; a row of ten operators 9, and the first sum to the second 1;
  // into a layer 2 (norm and sum); into the epilogue 1, there norm to head 1, head to max, sums
  // and loss 3, max to sums and loss 2, sums to loss 1.
  const OperatorGraph whole = expand(tiny(3));
  CHECK(boost::num_vertices(whole) == 2 + 3 * 10 + 5);
  CHECK(boost::num_edges(whole) == 1 + 3 * (10 + 2) + 1 + 7);
  const auto [first, last] = boost::edges(whole);
  for (auto edge = first; edge != last; ++edge)
    CHECK(boost::source(*edge, whole) < boost::target(*edge, whole));
}

TEST_CASE("a topological order has every operator once, producers first, ties by number") {
  for (const std::int64_t t : {1, 2}) {
    const Segment layer = tiny(1, t).templates[0];
    const auto order = topological_order(layer);
    REQUIRE(order.size() == boost::num_vertices(layer.graph));
    for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == i);
  }
}

TEST_CASE("a topological order holds when vertex numbers do not") {
  Segment segment;
  segment.graph = OperatorGraph(4);  // 3 -> 1 -> 0, 3 -> 2
  boost::add_edge(3, 1, TensorEdge{}, segment.graph);
  boost::add_edge(1, 0, TensorEdge{}, segment.graph);
  boost::add_edge(3, 2, TensorEdge{}, segment.graph);
  CHECK(topological_order(segment) == std::vector<std::size_t>{3, 1, 0, 2});
}

TEST_CASE("chains expand to their layers and loss, joined one to the next") {
  auto graph = build_graph(mlp({4, 4, 4, 2}, Activation::tanh, Loss::squared_error),
                           {});
  REQUIRE(graph.ok());
  const OperatorGraph whole = expand(*graph);
  CHECK(boost::num_vertices(whole) == 4);
  CHECK(boost::num_edges(whole) == 3);
}

TEST_CASE("counts follow the closed form of GPT-2 on random shapes") {
  const std::uint32_t seed = 20240611;
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const auto draw = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random);
  };
  for (int i = 0; i < 50; ++i) {
    ModelSpec spec = tiny_gpt2();
    spec.layers = draw(1, 6);
    spec.heads = spec.kv_heads = draw(1, 8);
    const std::int64_t h = spec.hidden = spec.heads * draw(1, 16);
    const std::int64_t f = spec.ffn_hidden = draw(1, 300);
    const std::int64_t v = spec.vocab = draw(2, 1000), p = spec.positions = draw(8, 64);
    const std::int64_t s = draw(1, p);
    auto graph = build_graph(spec, {.seq_len = s});
    REQUIRE(graph.ok());
    CHECK(parameter_count(*graph) ==
          (v + p + 2) * h + spec.layers * (4 * h * h + 2 * h * f + 9 * h + f));
    const std::int64_t layer = 2 * s * (4 * h * h + 2 * h * f) + 4 * s * s * h;
    CHECK(forward_gemm_flops(*graph).value() ==
          static_cast<double>(spec.layers * layer + 2 * s * h * v));
    CHECK(step_gemm_flops(*graph) == 3.0 * forward_gemm_flops(*graph));
    auto inference = build_graph(spec, {.seq_len = s, .inference = true});
    CHECK(step_gemm_flops(*inference) == forward_gemm_flops(*graph));
    // Scores and their sum are 4 s s h of a layer; half of them lie above the diagonal.
    CHECK(masked_step_flops(*graph).value() ==
          static_cast<double>(3 * spec.layers * 2 * s * s * h));
    CHECK(3.0 * masked_step_flops(*inference) == masked_step_flops(*graph));
    CHECK(graph->boundary_elements(spec.layers) == s * h);
  }
}
