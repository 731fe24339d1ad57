#include "exec/host/work.hpp"

#include "models/zoo.hpp"
#include "tests/unit/kernels/support.hpp"

using namespace kernel_tests;
using models::OpKind;
using models::ops::Kernel;

namespace {

models::Operator op(OpKind kind, std::int64_t rows, std::int64_t n, std::int64_t k) {
  models::Operator o;
  o.kind = kind;
  o.rows = rows;
  o.n = n;
  o.k = k;
  return o;
}

constexpr KernelTypes kMixed{DType::bf16, DType::f32, DType::bf16, DType::f32};

void check_work(const models::Operator& o, Kernel kernel, double flops, std::int64_t bytes) {
  const Work w = work(kernel, o, 2, kMixed);
  CAPTURE(static_cast<int>(kernel));
  CHECK(w.flops.value() == flops);
  CHECK(w.bytes.value() == bytes);
}

}  // namespace

TEST_CASE("a linear does 2 m n k in every pass, by hand") {
  models::Operator o = op(OpKind::linear, 4, 3, 5);  // 2 samples: 8 rows
  o.parameters = {0, 1};
  const double flops = 2.0 * 8 * 3 * 5;
  check_work(o, Kernel::forward, flops, 2 * (8 * 5 + 8 * 3) + 2 * (15 + 3));         // x, y; w, b
  check_work(o, Kernel::input_gradient, flops, 2 * (8 * 3 + 8 * 5) + 2 * 15);        // dy, dx; w
  check_work(o, Kernel::weight_gradient, flops, 2 * (8 * 3 + 8 * 5) + 4 * 2 * 18);   // dw, db twice
}

TEST_CASE("LoRA does 2 m n r per group and moves its base twice, by hand") {
  models::Operator o = op(OpKind::lora_up, 4, 6, 2);
  o.groups = 3;
  check_work(o, Kernel::forward, 2.0 * 8 * 6 * 2 * 3, 2 * (8 * 3 * (6 + 2) + 8 * 3 * 6) + 2 * 36);
  check_work(o, Kernel::weight_gradient, 2.0 * 8 * 6 * 2 * 3, 2 * 8 * 3 * 8 + 4 * 2 * 36);
}

TEST_CASE("attention does two products forward and five backward, by hand") {
  models::Operator o = op(OpKind::attention, 4, 6, 0);
  o.heads = 2;
  o.kv_heads = 1;
  o.head_dim = 3;
  o.keys = 4;
  // Per sample and head a product is 2 x 4 x 4 x 3 = 96: 2 samples x 2 heads x 2 products = 768.
  check_work(o, Kernel::forward, 768, 2 * 8 * (12 + 6) + 4 * 8 * 2);
  check_work(o, Kernel::input_gradient, 1920, 2 * 8 * 2 * (12 + 6) + 4 * 8 * 2);
  check_work(o, Kernel::weight_gradient, 0, 0);
  // Kept probabilities, 2 samples x 2 heads x 4 x 4 = 64 of 2 bytes, instead of one product of 5.
  o.outputs = {1, 2, 3};
  check_work(o, Kernel::forward, 768, 2 * 8 * (12 + 6) + 4 * 8 * 2 + 2 * 64);
  check_work(o, Kernel::input_gradient, 1536, 2 * 8 * 2 * (12 + 6) + 4 * 8 * 2 + 2 * 64);
}

TEST_CASE("elementwise kernels move each operand once, by hand") {
  check_work(op(OpKind::gelu, 4, 3, 3), Kernel::forward, 9 * 24, 2 * 2 * 24);
  check_work(op(OpKind::gelu, 4, 3, 3), Kernel::input_gradient, 18 * 24, 2 * 3 * 24);
  check_work(op(OpKind::add, 4, 3, 3), Kernel::forward, 24, 2 * 3 * 24);
  check_work(op(OpKind::bias_add, 4, 3, 3), Kernel::weight_gradient, 24, 2 * 24 + 4 * 2 * 3);
  check_work(op(OpKind::layer_norm, 4, 3, 3), Kernel::forward, 8 * 24, 2 * 2 * 24 + 4 * 16 + 2 * 6);
  check_work(op(OpKind::token_embedding, 4, 3, 9), Kernel::forward, 0, 2 * 24 + 2 * 24 + 4 * 8);
  check_work(op(OpKind::softmax_sum, 4, 3, 3), Kernel::forward, 3 * 24, 2 * 24 + 4 * 3 * 8 + 4 * 8);
  check_work(op(OpKind::tensor_reduce, 4, 3, 3), Kernel::forward, 0, 0);
}

TEST_CASE("a kernel does work exactly when the schema has it") {
  using models::ops::Gradient;
  using models::ops::Source;
  for (const models::ops::Schema* schema : models::ops::kSchemas) {
    models::Operator o = op(schema->kind, 4, 3, 3);
    o.heads = o.kv_heads = 1;
    o.head_dim = o.keys = 3;
    if (!schema->parameters.empty()) o.parameters = {0};
    CAPTURE(static_cast<int>(schema->kind));
    const auto works = [&](Kernel kernel) { return work(kernel, o, 1, {}).bytes.value() > 0; };
    bool parameters = false;
    for (const Kernel kernel : {Kernel::input_gradient, Kernel::weight_gradient})
      for (const auto& a : models::ops::signature(*schema, kernel).all())
        parameters |= a.source == Source::gradient_of_parameter;
    const bool transfers = schema->work.by == models::ops::WorkOf::nothing;
    CHECK(works(Kernel::forward) == !transfers);
    CHECK(works(Kernel::input_gradient) ==
          (!schema->input_gradient.empty() || schema->gradient == Gradient::sum));
    CHECK(works(Kernel::weight_gradient) == parameters);
  }
}

TEST_CASE("kernels do the FLOPs that the operator graph of a transformer states") {
  models::ModelSpec spec;
  spec.name = "tiny";
  spec.layers = 2;
  spec.hidden = 12;
  spec.heads = spec.kv_heads = 3;
  spec.ffn_hidden = 20;
  spec.vocab = 17;
  spec.positions = 8;
  models::GraphOptions options;
  options.seq_len = 6;
  options.lora_rank = GENERATE(0, 2);
  options.lora_targets = {"q", "v", "o"};
  const auto graph = models::build_graph(spec, options);
  REQUIRE(graph.ok());
  std::vector<const models::Segment*> segments{&graph->prologue, &graph->epilogue};
  for (const models::Segment& s : graph->templates) segments.push_back(&s);
  int compared = 0;
  for (const models::Segment* segment : segments) {
    for (const auto v : models::topological_order(*segment)) {
      const models::Operator& o = segment->graph[v];
      CAPTURE(o.name);
      CHECK(work(Kernel::forward, o, 1, {}).flops == o.flops_forward);
      // Frozen parameters and first operators have no backward; what they have must agree.
      if (o.flops_input_gradient.value() > 0) {
        CHECK(work(Kernel::input_gradient, o, 1, {}).flops == o.flops_input_gradient);
      }
      if (o.flops_weight_gradient.value() > 0) {
        CHECK(work(Kernel::weight_gradient, o, 1, {}).flops == o.flops_weight_gradient);
      }
      compared += o.flops_forward.value() > 0;
    }
  }
  CHECK(compared >= 12);
}

TEST_CASE("kernels do the FLOPs that AlexNet's graph states") {
  const auto graph = models::build_graph(*models::find_model("alexnet"), {});
  REQUIRE(graph.ok());
  int compared = 0;
  for (const models::Segment& layer : graph->templates)
    for (const auto v : models::topological_order(layer)) {
      const models::Operator& o = layer.graph[v];
      CAPTURE(o.name);
      CHECK(computes(o));
      const std::pair<Kernel, core::Flops> kernels[] = {
          {Kernel::forward, o.flops_forward},
          {Kernel::input_gradient, o.flops_input_gradient},
          {Kernel::weight_gradient, o.flops_weight_gradient}};
      for (const auto& [kernel, flops] : kernels) {
        if (kernel != Kernel::forward && o.kind == models::OpKind::concat) continue;
        CHECK(work(kernel, o, 3, {}).flops.value() == 3 * flops.value());
        ++compared;
      }
    }
  CHECK(compared > 100);
}
