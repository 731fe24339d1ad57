// Operator graphs of tokens: inputs, embeddings, attention, and what a file may say wrong of them.
#include "models/spec_file.hpp"
#include "models/splits.hpp"
#include "models/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;
using namespace models_test;

namespace {

// Two inputs of six tokens, operators one a line from line 3 on.
std::string token_file(const std::string& operators) {
  return R"({"schema": "model/1", "name": "m", "family": "graph", "loss": "cross_entropy", )"
         R"("vocabulary": 10,)" "\n" R"("inputs": [{"name": "a", "tokens": 6}, )"
         R"({"name": "b", "tokens": 6}], "operators": [)" "\n" + operators + "]}";
}

core::Problem refused_tokens(const std::string& operators) {
  const auto spec = parse_spec(token_file(operators), "model.json");
  if (spec.ok()) FAIL("accepted: " << operators);
  return spec.problems().front();
}

ModelSpec token_spec(const std::string& operators) {
  const auto spec = parse_spec(token_file(operators), "model.json");
  if (!spec.ok()) FAIL(core::to_text(spec.problems()));
  return *spec;
}

const std::string kTokenRows =
    R"({"name": "x", "kind": "embedding", "inputs": ["a"], "features": 8, "positions": true},
       {"name": "y", "kind": "embedding", "inputs": ["b"], "features": 8},)";
const std::string kTokenWords =
    R"(, {"name": "w", "kind": "linear", "inputs": ["o"], "features": 10})";

const Segment& layer_of(const ModelGraph& graph, const std::string& name) {
  for (const Segment& layer : graph.templates)
    if (has_operator(layer, name)) return layer;
  FAIL("no layer has " << name);
  return graph.templates.front();
}

ModelGraph token_graph(const ModelSpec& spec, const GraphOptions& options = {}) {
  auto graph = build_graph(spec, options);
  if (!graph) FAIL(core::to_text(graph.problems()));
  return std::move(graph).value();
}

}  // namespace

TEST_CASE("the two-layer encoder-decoder has 71,598,080 parameters") {
  // Tables 2 x 37000 x 512, positions 2 x 64 x 512, output 37000 x 512; encoder 2 (4 x 512^2 + 2 x
  // 512 x 2048 + 2048 + 512 + 2 norms of 1024), decoder 2 (8 x 512^2 + 2 x 512 x 2048 + 2048 + 512
  // + 3 x 1024) = 37,888,000 + 65,536 + 18,944,000 + 6,300,672 + 8,399,872.
  const ModelGraph graph = token_graph(*find_model("transformer-2-layers"));
  CHECK(parameter_count(graph) == 71'598'080);
  // Multiplications of a sample: 64 x 37000 x 512 + 128 (4 x 512^2 + 2 x 512 x 2048) + 128 (8 x
  // 512^2 + 2 x 512 x 2048), and of 6 attentions 2 x 64^2 x 512 each = 2,177,105,920.
  CHECK(forward_gemm_flops(graph).value() == 2 * 2'177'105'920.0);
  CHECK(graph.prologue.parameters.size() == 4);
}

TEST_CASE("several embeddings stand before the first layer, which takes the rows of each") {
  const ModelGraph graph = token_graph(token_spec(kTokenRows + R"({"name": "o", "kind": "attention",
      "inputs": ["y", "x", "x2"], "heads": 2}, {"name": "x2", "kind": "linear", "inputs": ["x"],
      "features": 8})" + kTokenWords));
  CHECK(graph.boundary_elements(0) == 12 * 8);
  CHECK(has_operator(graph.prologue, "embedded"));
  const Segment& layer = layer_of(graph, "o");
  CHECK(find_operator(layer, "x").column_offsets.front() == 0);
  CHECK(find_operator(layer, "y").column_offsets.front() == 6 * 8);
  const Operator& core = find_operator(layer, "o");
  CHECK((core.rows == 6 && core.keys == 6 && core.heads == 2 && core.head_dim == 4));
  CHECK_FALSE(core.causal);
  CHECK(has_operator(layer, "o.qkv"));
  // The loss is of the tokens behind the second input's: the sequence's, six to twelve.
  CHECK(graph.epilogue.tensors[1].ahead == 12 - 6 + 1);
  const auto again = parse_spec(spec_to_json(graph.spec, 2), "model.json");
  REQUIRE(again.ok());
  CHECK(again->graph == graph.spec.graph);
}

TEST_CASE("attention divides by whole heads, where queries, keys and values are apart") {
  const ModelSpec spec = token_spec(kTokenRows + R"(
      {"name": "q", "kind": "linear", "inputs": ["y"], "features": 24},
      {"name": "one", "kind": "attention", "inputs": ["q"], "heads": 4, "causal": true},
      {"name": "two", "kind": "attention", "inputs": ["one", "x", "y"], "heads": 4},
      {"name": "o", "kind": "rms_norm", "inputs": ["two"]})" + kTokenWords);
  const GraphAnalysis a = analyse(spec.graph);
  const auto may = [&](const std::string& name, std::int64_t ways) {
    const auto at = std::ranges::find(spec.graph.operators, name, &OperatorSpec::name);
    return factors_of(spec.graph, a, static_cast<int>(at - spec.graph.operators.begin()), ways);
  };
  CHECK(may("one", 2) == ops::kSample);
  CHECK(may("two", 2) == (ops::kSample | ops::kOut));
  CHECK(may("two", 8) == ops::kSample);  // four heads
  CHECK(may("o", 2) == ops::kSample);
  const ModelGraph graph = token_graph(spec, {.split = 2, .splits = {"two=out"}});
  const Operator& core = find_operator(layer_of(graph, "two"), "two");
  CHECK((core.heads == 2 && core.origins == 2 && core.rows == 12 && core.keys == 6));
}

TEST_CASE("mistakes of models of tokens are named") {
  const auto after = [](const std::string& more) { return refused_tokens(kTokenRows + more); };
  CHECK(after(R"({"name": "o", "kind": "linear", "inputs": ["a"], "features": 10})").expected ==
        "an embedding that looks the tokens up");
  CHECK(after(R"({"name": "o", "kind": "embedding", "inputs": ["x"], "features": 10})").expected ==
        "an input of tokens for an embedding");
  CHECK(refused_tokens(R"({"name": "x", "kind": "embedding", "inputs": ["a"], "features": 10},
                   {"name": "o", "kind": "gelu", "inputs": ["x"]})").expected ==
        "an embedding of every input");
  core::Problem p = after(
      R"({"name": "o", "kind": "attention", "inputs": ["x", "y"], "heads": 2})" + kTokenWords);
  CHECK(p.expected == "queries, keys and values of an attention, or one input that has all three");
  p = after(R"({"name": "k", "kind": "linear", "inputs": ["y"], "features": 4},
               {"name": "o", "kind": "attention", "inputs": ["x", "k", "y"], "heads": 2})" +
            kTokenWords);
  CHECK(p.expected == "keys and values of 6 x 8 (the kernels have as many keys as queries)");
  CHECK(p.found == "6 x 4");
  p = after(R"({"name": "o", "kind": "attention", "inputs": ["x"], "heads": 2})" + kTokenWords);
  CHECK(p.expected == "heads and twice kv_heads that together divide 8 columns (queries, keys, "
                      "values)");
  CHECK(p.found == "2 and 2");
  p = after(R"({"name": "o", "kind": "attention", "inputs": ["x"], "heads": 3, "kv_heads": 2})" +
            kTokenWords);
  CHECK(p.expected == "a divisor of 3 heads");
  p = after(R"({"name": "o", "kind": "attention", "inputs": ["x"], "heads": 4, "kv_heads": 2,
                "rotary_base": 0.5})" + kTokenWords);
  CHECK(p.expected == "a number above 1, at most 1000000000000");
  p = after(R"({"name": "o", "kind": "swiglu", "inputs": ["x"]})" + kTokenWords);
  CHECK(p.expected == "two inputs of a swiglu: the gate, and what it multiplies");
  p = after(R"({"name": "s", "kind": "add", "inputs": ["x", "y"]},
               {"name": "o", "kind": "linear", "inputs": ["s"], "features": 9})");
  CHECK(p.expected == "rows of 10 columns, one for each token of the vocabulary, under "
                      "cross_entropy");
  const auto long_text = parse_spec(R"({"schema": "model/1", "name": "m", "family": "graph",
      "loss": "cross_entropy", "vocabulary": 10, "inputs": [{"name": "a", "tokens": 9000}],
      "operators": [{"name": "o", "kind": "embedding", "inputs": ["a"], "features": 10}]})",
                                    "model.json");
  REQUIRE_FALSE(long_text.ok());
  CHECK(long_text.problems().front().expected == "1 to 8191 tokens of at most 8 inputs");
  CHECK(long_text.problems().front().found == "9000 tokens of 1");
}
