// Operator graphs of model files: AlexNet by hand, and what a file may say wrong.
#include "core/check.hpp"
#include "models/spec_file.hpp"
#include "models/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;
using namespace models_test;

namespace {

ModelGraph built(const ModelSpec& spec, const GraphOptions& options = {}) {
  auto graph = build_graph(spec, options);
  if (!graph) FAIL(core::to_text(graph.problems()));
  return std::move(graph).value();
}

// A model of images of 4 x 8 x 8 with these operators, one a line from line 3 on.
std::string file(const std::string& operators, const std::string& loss = "squared_error") {
  return R"({"schema": "model/1", "name": "m", "family": "graph", "loss": ")" + loss + "\",\n" +
         R"("input": {"name": "x", "shape": [4, 8, 8]}, "operators": [)" + "\n" + operators +
         "]}";
}

core::Problem refused(const std::string& operators, const std::string& loss = "squared_error") {
  const auto spec = parse_spec(file(operators, loss), "model.json");
  if (spec.ok()) FAIL("accepted: " << operators);
  return spec.problems().front();
}

ModelSpec accepted(const std::string& operators) {
  const auto spec = parse_spec(file(operators), "model.json");
  if (!spec.ok()) FAIL(core::to_text(spec.problems()));
  return *spec;
}

}  // namespace

TEST_CASE("AlexNet's two towers have 60,965,224 parameters") {
  // conv1 2 (48 x 363 + 48), conv2 2 (128 x 1200 + 128), conv3 2 (192 x 2304 + 192), conv4 2 (192 x
  // 1728 + 192), conv5 2 (128 x 1728 + 128), fc6 9216 x 4096 + 4096, fc7 4096^2 + 4096, fc8 4096 x
  // 1000 + 1000 = 34,944 + 307,456 + 885,120 + 663,936 + 442,624 + 37,752,832 + 16,781,312 +
  // 4,097,000.
  const ModelGraph graph = built(*find_model("alexnet"));
  CHECK(parameter_count(graph) == 60'965'224);
  // Multiplications: 55^2 x 96 x 363 + 27^2 x 256 x 1200 + 13^2 (384 x 2304 + 384 x 1728 + 256 x
  // 1728) + 9216 x 4096 + 4096^2 + 4096 x 1000 = 724,406,816, twice.
  CHECK(forward_gemm_flops(graph).value() == 1'448'813'632.0);
}

TEST_CASE("AlexNet divides where the towers meet: after layers 2, 5, 6 and 7 of the paper") {
  const ModelGraph graph = built(*find_model("alexnet"));
  CHECK(graph.spec.layers == 5);
  CHECK(graph.boundary_elements(0) == 3 * 224 * 224);
  CHECK(graph.boundary_elements(1) == 256 * 13 * 13);
  CHECK(graph.boundary_elements(2) == 256 * 6 * 6);
  CHECK(graph.boundary_elements(3) == 4096);
  CHECK(graph.boundary_elements(5) == 1000);
  CHECK(has_operator(graph.templates[1], "conv5.b"));
  const Operator& conv = find_operator(graph.templates[0], "conv1.a");
  CHECK((conv.rows == 55 * 55 && conv.n == 48 && conv.k == 3 * 11 * 11));
}

TEST_CASE("ResNet-50 and VGG-16 have the published parameters and multiplications") {
  // torchvision's resnet50 and vgg16: 25,557,032 and 138,357,544 parameters, 4.09 and 15.5 thousand
  // million multiplications [resnet, vgg].
  const ModelGraph resnet = built(*find_model("resnet-50"));
  CHECK(parameter_count(resnet) == 25'557'032);
  CHECK(forward_gemm_flops(resnet).value() == 2 * 4'089'184'256.0);
  CHECK(resnet.boundary_elements(1) == 64 * 56 * 56);
  const ModelGraph vgg = built(*find_model("vgg-16"));
  CHECK(parameter_count(vgg) == 138'357'544);
  CHECK(forward_gemm_flops(vgg).value() == 2 * 15'470'264'320.0);
}

TEST_CASE("Inception-v3 has the published parameters and multiplications") {
  // torchvision's inception_v3 without its auxiliary classifier: 23,834,568 parameters, 5.71
  // thousand million multiplications [inception].
  const ModelGraph graph = built(*find_model("inception-v3"));
  CHECK(parameter_count(graph) == 23'834'568);
  CHECK(forward_gemm_flops(graph).value() == 2 * 5'713'216'096.0);
  CHECK(graph.boundary_elements(1) == 32 * 149 * 149);
}

TEST_CASE("windows are squares, or have a height and a width") {
  const ModelGraph graph = built(accepted(R"({"name": "c", "kind": "convolution",
      "inputs": ["x"], "channels": 5, "kernel": [1, 7], "padding": [0, 3], "stride": [2, 1]},
      {"name": "p", "kind": "max_pool", "inputs": ["c"], "kernel": [2, 4]})"));
  // 4 x 8 x 8: (8 - 1) / 2 + 1 = 4 rows of (8 + 6 - 7) + 1 = 8 places; pooled, 2 rows of 2.
  CHECK(parameter_count(graph) == 5 * 4 * 7 + 5);
  CHECK(graph.boundary_elements(1) == 5 * 2 * 2);
  const Operator& conv = find_operator(graph.templates[0], "c");
  CHECK((conv.rows == 4 * 8 && conv.n == 5 && conv.k == 4 * 7));
  // Written and read again, they are the same.
  const auto again = parse_spec(spec_to_json(graph.spec, 2), "model.json");
  REQUIRE(again.ok());
  CHECK(again->graph == graph.spec.graph);
}

TEST_CASE("a window's two sizes are checked each by itself") {
  const auto window = [](const std::string& keys) {
    return refused(R"({"name": "p", "kind": "convolution", "channels": 4, "inputs": ["x"], )" +
                   keys + "}");
  };
  CHECK(window(R"("kernel": [1, 9])").expected == "at most 8 for an input of 4 x 8 x 8");
  CHECK(window(R"("kernel": [1, 9])").found == "1 x 9");
  CHECK(window(R"("kernel": [1, 7], "padding": 3)").expected == "less than the kernel, 1 x 7");
  CHECK(window(R"("kernel": [1, 7, 3])").expected == "a number, or [height, width]");
  CHECK(window(R"("kernel": [1, 7, 3])").found == "an array of 3");
  CHECK(window(R"("kernel": [0, 7])").where == "model.json:3:81 /operators/0/kernel/0");
  CHECK(window(R"("kernel": "3")").found == "\"3\"");
}

TEST_CASE("a batch norm keeps its input alone, and a ReLU takes its place") {
  const Segment layer = built(accepted(R"({"name": "c", "kind": "convolution", "inputs": ["x"],
      "channels": 4, "kernel": 1, "bias": false}, {"name": "n", "kind": "batch_norm",
      "inputs": ["c"]}, {"name": "r", "kind": "relu", "inputs": ["n"]})")).templates[0];
  const Operator& norm = find_operator(layer, "n");
  CHECK(norm.saved == std::vector<TensorIndex>{find_tensor(layer, "c.out")});
  CHECK((norm.n == 4 && norm.parameters.size() == 2));
  const TensorIndex y = find_tensor(layer, "r.out");
  CHECK(layer.tensors[static_cast<std::size_t>(y)].in_place_of == find_tensor(layer, "n.out"));
  CHECK_FALSE(parse_spec(R"({"schema": "model/1", "name": "m", "family": "graph",
      "loss": "squared_error", "input": {"name": "x", "shape": [3, 4]}, "operators": [
      {"name": "a", "kind": "linear", "inputs": ["x"], "features": 4},
      {"name": "n", "kind": "batch_norm", "inputs": ["a"]}]})", "model.json").ok());
}

TEST_CASE("a ReLU takes the place of the products that it alone reads, and keeps its result") {
  const Segment layer = built(*find_model("alexnet")).templates[0];
  const TensorIndex sums = find_tensor(layer, "conv1.a.out"), y = find_tensor(layer, "relu1.a.out");
  CHECK(layer.tensors[static_cast<std::size_t>(y)].in_place_of == sums);
  CHECK(find_operator(layer, "relu1.a").saved == std::vector<TensorIndex>{y});
  // Read by two: the products stay.
  const Segment shared = built(accepted(R"({"name": "c", "kind": "convolution", "inputs": ["x"],
      "channels": 4, "kernel": 1}, {"name": "r", "kind": "relu", "inputs": ["c"]},
      {"name": "s", "kind": "add", "inputs": ["c", "r"]})")).templates[0];
  const TensorIndex kept = find_tensor(shared, "r.out");
  CHECK(shared.tensors[static_cast<std::size_t>(kept)].in_place_of == kNoTensor);
}

TEST_CASE("what an image's operators keep: inputs once, and a byte for each mask and maximum") {
  const Segment layer = built(*find_model("alexnet")).templates[0];
  // Of a tower: relu1 and pool1 (the inputs of norm1 and conv2), relu2; the image once.
  const std::int64_t tower = 48 * 55 * 55 + 48 * 27 * 27 + 128 * 27 * 27;
  CHECK(saved_elements(layer, TensorRole::activation) == 3 * 224 * 224 + 2 * tower);
  CHECK(saved_elements(layer, TensorRole::mask) == 2 * (48 * 27 * 27 + 128 * 13 * 13));
}

TEST_CASE("inference keeps nothing, draws no dropout and remembers no maxima") {
  const ModelGraph graph = built(*find_model("alexnet"), {.inference = true});
  for (const Segment& layer : graph.templates) {
    CHECK(saved_elements(layer, TensorRole::activation) == 0);
    for (const Tensor& t : layer.tensors) CHECK(t.role != TensorRole::mask);
  }
  CHECK_FALSE(has_operator(graph.templates[2], "drop6.a"));
}

TEST_CASE("operators may stand in any order, and sizes follow windows, strides and padding") {
  const ModelSpec spec = accepted(R"({"name": "f", "kind": "linear", "inputs": ["flat"],
      "features": 7, "bias": false}, {"name": "flat", "kind": "flatten", "inputs": ["p"]},
      {"name": "p", "kind": "average_pool", "inputs": ["c"], "kernel": 2},
      {"name": "c", "kind": "convolution", "inputs": ["x"], "channels": 6, "kernel": 3,
       "stride": 2, "padding": 1, "groups": 2})");
  const ModelGraph graph = built(spec);
  // 8 -> (8 + 2 - 3) / 2 + 1 = 4 -> 2; weights 6 x 2 x 9 + 6, and 7 x 6 x 2 x 2.
  CHECK(parameter_count(graph) == 6 * 2 * 9 + 6 + 7 * 24);
  CHECK(graph.boundary_elements(1) == 6 * 2 * 2);
  CHECK(graph.spec.layers == 2);
}

TEST_CASE("a graph file's mistakes are named with the operator's line") {
  const std::string c = R"({"name": "c", "kind": "convolution", "inputs": ["x"], "channels": 6,
      "kernel": 3})";
  const auto after = [&](const std::string& more) { return refused(c + ",\n" + more); };
  core::Problem p = after(R"({"name": "r", "kind": "relu", "inputs": ["cc"]})");
  CHECK(p.where == "model.json:5:41 /operators/1/inputs");
  CHECK(p.found == "\"cc\"");
  CHECK(p.fix == "did you mean c?");
  p = after(R"({"name": "f", "kind": "linear", "inputs": ["c"], "features": 3})");
  CHECK(p.found == "6 x 6 x 6");
  CHECK(p.fix == "a flatten makes features of an image");
  p = after(R"({"name": "s", "kind": "add", "inputs": ["c", "x"]})");
  CHECK(p.expected == "two inputs of one shape, 6 x 6 x 6");
  CHECK(p.found == "4 x 8 x 8");
  p = after(R"({"name": "k", "kind": "concat", "inputs": ["c", "x"]})");
  CHECK(p.expected == "inputs that differ in width alone, as 4 x 6 x 6");
  CHECK(after(R"({"name": "c", "kind": "relu", "inputs": ["c"]})").found == "\"c\" again");
  CHECK(after(R"({"name": "r", "kind": "relu", "inputs": ["x"]})").found == "c as well as r");
  CHECK(after(R"({"name": "k", "kind": "concat", "inputs": ["c", "c"]})").expected ==
        "each input once");
  CHECK(after(R"({"name": "r", "kind": "relu", "inputs": []})").expected == "one input of a relu");
  CHECK(after(R"({"name": "r", "kind": "relu", "inputs": ["c"], "kernel": 2})").where ==
        "model.json:5:58 /operators/1/kernel");
  CHECK(after(R"({"name": "p", "kind": "max_pool", "inputs": ["c"], "kernel": 7})").expected ==
        "at most 6 for an input of 6 x 6 x 6");
  CHECK(after(R"({"name": "p", "kind": "max_pool", "inputs": ["c"], "kernel": 2, "padding": 2})")
            .expected == "less than the kernel, 2");
  CHECK(after(R"({"name": "g", "kind": "convolution", "inputs": ["c"], "channels": 4, "kernel": 1,
                  "groups": 4})").expected == "a divisor of 6 and of 4 channels");
}

TEST_CASE("cycles, inputs that nothing keeps, and classes without a width are refused") {
  CHECK(refused(R"({"name": "a", "kind": "add", "inputs": ["x", "b"]},
                   {"name": "b", "kind": "relu", "inputs": ["a"]})").expected ==
        "operators without a cycle");
  CHECK(refused(R"({"name": "r", "kind": "relu", "inputs": ["x"]})").expected ==
        "a convolution, linear, gelu or norm that reads the model's input");
  CHECK(refused(R"({"name": "f", "kind": "flatten", "inputs": ["x"]})").found ==
        "flattens alone");
  CHECK(refused(R"({"name": "c", "kind": "convolution", "inputs": ["x"], "channels": 6,
                    "kernel": 3})", "cross_entropy").found == "6 x 6 x 6");
  CHECK(refused("").expected == "1 to 4096 operators");
}

TEST_CASE("a graph takes neither sequences, tensor ranks nor adapters") {
  const ModelSpec spec = *find_model("alexnet");
  const auto where = [&](const GraphOptions& options) {
    return build_graph(spec, options).problems().front().where;
  };
  CHECK(where({.seq_len = 2}) == "seq_len");
  CHECK(where({.tensor = 2}) == "tensor");
  CHECK(where({.lora_rank = 2}) == "lora_rank");
}
