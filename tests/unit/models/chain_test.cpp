#include "tests/catch.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;
using namespace models_test;

static ModelGraph graph_of(const ModelSpec& spec) {
  auto graph = build_graph(spec, {});
  if (!graph) FAIL(core::to_text(graph.problems()));
  return std::move(graph).value();
}

TEST_CASE("the MNIST-size network counts its weights and biases") {
  // 784 x 512 + 512 + 512 x 512 + 512 + 512 x 10 + 10 = 401,920 + 262,656 + 5,130.
  const ModelGraph graph =
      graph_of(mlp({784, 512, 512, 10}, Activation::relu, Loss::cross_entropy));
  CHECK(parameter_count(graph) == 669'706);
  CHECK(graph.templates.size() == 3);
  // 2 x (784 x 512 + 512 x 512 + 512 x 10).
  CHECK(forward_gemm_flops(graph).value() == 1'337'344.0);
}

TEST_CASE("layers of one shape share a template; the last has no activation") {
  const ModelGraph graph =
      graph_of(mlp({32, 32, 32, 32, 32}, Activation::tanh, Loss::squared_error));
  CHECK(graph.templates.size() == 2);
  CHECK(graph.layer_template == std::vector<int>{0, 0, 0, 1});
  CHECK(find_operator(graph.templates[0], "dense").activation == Activation::tanh);
  CHECK(find_operator(graph.templates[1], "dense").activation == Activation::identity);
  CHECK(graph.spec.layers == 4);
}

TEST_CASE("nothing keeps the output that the loss overwrites") {
  for (const Loss loss : {Loss::cross_entropy, Loss::squared_error}) {
    const ModelGraph graph = graph_of(mlp({8, 8, 4}, Activation::tanh, loss));
    const Segment& last = graph.templates.back();
    CHECK(find_operator(last, "dense").saved == std::vector<TensorIndex>{last.input});
    const Segment& first = graph.templates.front();
    CHECK(find_operator(first, "dense").saved ==
          std::vector<TensorIndex>{first.input, first.output});
  }
}

TEST_CASE("a gelu in a chain keeps what it was applied to, since its result cannot be undone") {
  const Segment layer =
      graph_of(mlp({8, 16, 4}, Activation::gelu_tanh, Loss::squared_error)).templates[0];
  CHECK(find_operator(layer, "dense").activation == Activation::identity);
  CHECK(find_operator(layer, "dense.gelu").saved ==
        std::vector<TensorIndex>{find_tensor(layer, "dense.out")});
  CHECK(layer.output == find_tensor(layer, "dense.gelu.out"));
}

TEST_CASE("boundaries of a chain are its widths") {
  const ModelGraph graph = graph_of(mlp({7, 5, 3}, Activation::relu, Loss::squared_error));
  CHECK(graph.boundary_elements(0) == 7);
  CHECK(graph.boundary_elements(1) == 5);
  CHECK(graph.boundary_elements(2) == 3);
  CHECK(boost::num_vertices(graph.prologue.graph) == 0);
  CHECK(graph.prologue.input == graph.prologue.output);
}

TEST_CASE("a chain takes neither tensor ranks nor sequences nor adapters") {
  const ModelSpec spec = mlp({7, 5, 3}, Activation::relu, Loss::squared_error);
  CHECK(build_graph(spec, {.tensor = 2}).problems().at(0).where == "tensor");
  CHECK(build_graph(spec, {.seq_len = 2}).problems().at(0).where == "seq_len");
  CHECK(build_graph(spec, {.lora_rank = 2, .lora_targets = {"q"}}).problems().at(0).where ==
        "lora_rank");
}
