#include <limits>

#include "tests/catch.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;
using namespace models_test;

static std::string first_problem(const ModelSpec& spec, const GraphOptions& options = {}) {
  const auto graph = build_graph(spec, options);
  return graph.ok() ? "" : graph.problems()[0].where;
}

TEST_CASE("every count of a spec is refused at 0, below, and far above") {
  const std::pair<const char*, std::int64_t ModelSpec::*> fields[] = {
      {"layers", &ModelSpec::layers},         {"hidden", &ModelSpec::hidden},
      {"heads", &ModelSpec::heads},           {"ffn_hidden", &ModelSpec::ffn_hidden},
      {"vocab", &ModelSpec::vocab},           {"positions", &ModelSpec::positions},
      {"default_seq_len", &ModelSpec::default_seq_len},
      {"default_global_batch", &ModelSpec::default_global_batch}};
  for (const auto& [name, field] : fields) {
    for (const std::int64_t value : {std::int64_t{0}, std::int64_t{-1}, std::int64_t{1} << 60,
                                     std::numeric_limits<std::int64_t>::min()}) {
      INFO(name << " = " << value);
      ModelSpec spec = tiny_gpt2();
      spec.*field = value;
      CHECK(first_problem(spec) == std::string("model tiny: ") + name);
    }
  }
}

TEST_CASE("heads divide hidden, and layers x hidden^2 stays countable") {
  ModelSpec spec = tiny_gpt2();
  spec.heads = spec.kv_heads = 5;
  CHECK(first_problem(spec) == "model tiny: heads");
  spec = tiny_gpt2();
  spec.layers = kMaxLayers;
  spec.hidden = kMaxWidth;
  spec.heads = spec.kv_heads = 1;
  CHECK(first_problem(spec) == "model tiny");  // 65,536 x 4 x 2^52 = 1.2e21 parameters
}

TEST_CASE("options that the model cannot take are refused, with the degrees that it can") {
  CHECK(first_problem(tiny_gpt2(), {.seq_len = 17}) == "seq_len");
  CHECK(first_problem(tiny_gpt2(), {.seq_len = 0}) == "seq_len");
  CHECK(first_problem(tiny_gpt2(), {.tensor = 0}) == "tensor");
  const auto graph = build_graph(tiny_gpt2(), {.tensor = 4});
  REQUIRE_FALSE(graph.ok());
  CHECK(graph.problems()[0].fix == "use 1, 2, 3, 6");
}

TEST_CASE("a chain needs two widths, each in range, and its number of layers if it says one") {
  CHECK(first_problem(mlp({4}, Activation::relu, Loss::squared_error)) == "model mlp: widths");
  CHECK(first_problem(mlp({4, 0}, Activation::relu, Loss::squared_error)) ==
        "model mlp: widths/1");
  CHECK(first_problem(mlp({4, 1}, Activation::relu, Loss::cross_entropy)) == "model mlp: widths");
  ModelSpec spec = mlp({4, 4, 4}, Activation::relu, Loss::squared_error);
  spec.layers = 2;
  CHECK(first_problem(spec).empty());
  spec.layers = 3;
  CHECK(first_problem(spec) == "model mlp: layers");
}
