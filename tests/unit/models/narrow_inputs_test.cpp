// What 8-bit products keep of their inputs: bytes of codes in place of 16-bit tensors.
#include "tests/catch.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;
using namespace models_test;

namespace {

// h = 24, 8 tokens; bytes kept of each element of a product's input, 0: the element itself.
ModelGraph eight_bit(double product_input, GraphOptions options = {}) {
  options.seq_len = 8;
  options.kept.product_input = product_input;
  auto graph = build_graph(tiny_gpt2(), options);
  if (!graph) FAIL(core::to_text(graph.problems()));
  return std::move(graph).value();
}

constexpr std::int64_t kTokens = 8, kHidden = 24;

std::int64_t kept(const ModelGraph& graph, TensorRole role) {
  return saved_elements(graph.templates[0], role);
}

}  // namespace

TEST_CASE("an 8-bit product keeps codes of its input, but for what is kept anyway") {
  // x, qkv 3, attention's output, x_mid, fc's result 4 are kept by norms, attention and gelu: 10 h.
  // Products alone keep both norms' results and gelu's, 1 + 1 + 4 h.
  CHECK(kept(eight_bit(0), TensorRole::activation) == kTokens * 16 * kHidden);
  CHECK(kept(eight_bit(1), TensorRole::activation) == kTokens * 10 * kHidden);
  CHECK(kept(eight_bit(1), TensorRole::bytes) == kTokens * 6 * kHidden);
  CHECK(kept(eight_bit(0), TensorRole::bytes) == 0);
  // The head stays in 16 bits.
  CHECK(saved_elements(eight_bit(1).epilogue, TensorRole::bytes) == 0);
}

TEST_CASE("codes are of a rank's own rows where tensor ranks gather them") {
  const GraphOptions rows{.tensor = 2, .sequence_parallel = true};
  // Both norms' results of half the rows; gelu's of all rows and half its columns.
  CHECK(kept(eight_bit(1, rows), TensorRole::bytes) ==
        kTokens / 2 * 2 * kHidden + kTokens * 4 * kHidden / 2);
}

TEST_CASE("nothing is kept in codes of frozen matrices and under inference") {
  CHECK(kept(eight_bit(1, {.lora_rank = 4, .lora_targets = {"q"}}), TensorRole::bytes) == 0);
  CHECK(kept(eight_bit(1, {.inference = true}), TensorRole::bytes) == 0);
}
