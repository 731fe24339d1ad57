#include "models/layer_kinds.hpp"

#include <string>

#include "models/graph.hpp"
#include "models/spec_file.hpp"
#include "tests/catch.hpp"
#include "tests/unit/models/specs.hpp"

using namespace models;
using namespace models_test;

static std::string problem_of(const ModelSpec& spec) {
  const auto problems = check_spec(spec);
  return problems.empty() ? "" : problems[0].where;
}

static std::vector<LayerKind> layers_as(const std::string& letters, const ModelSpec& spec) {
  std::vector<LayerKind> layers;
  for (const char letter : letters) {
    layers.push_back(spec.kinds[letter == 'm' ? 1 : 0]);
    layers.back().name = letter;
  }
  return layers;
}

TEST_CASE("a model of several kinds has one template for each, in the order of its runs") {
  const auto graph = build_graph(tiny_mixed(), {.seq_len = 8});
  REQUIRE(graph.ok());
  REQUIRE(graph->templates.size() == 2);
  CHECK(graph->layer_template == std::vector<int>{0, 0, 1, 0, 1});
  CHECK(has_operator(graph->templates[0], "mlp.proj"));
  CHECK_FALSE(has_operator(graph->templates[0], "moe.router"));
  CHECK(has_operator(graph->templates[1], "moe.router"));
}

// h 24, 6 heads of 4; dense 48 wide, 4 experts 16 wide. Attention 4 x 24^2 = 2304, two norms 48:
// 2352. Dense 3 x 24 x 48 = 3456; mixture 4 x 24 + 4 x 3 x 24 x 16 = 4704. Tables 2 x 521 x 24 and
// a norm of 24.
TEST_CASE("parameters and FLOPs of mixed layers are the sums over kinds") {
  const auto graph = build_graph(tiny_mixed(), {.seq_len = 8});
  REQUIRE(graph.ok());
  CHECK(parameter_count(*graph) == 3 * (2352 + 3456) + 2 * (2352 + 4704) + 2 * 521 * 24 + 24);
  const auto flops = [](ModelSpec spec, const std::vector<LayerKind>& layers) {
    set_layers(spec, layers);
    return forward_gemm_flops(*build_graph(spec, {.seq_len = 8})).value();
  };
  const ModelSpec spec = tiny_mixed();
  const double dense = flops(spec, layers_as("d", spec)), two = flops(spec, layers_as("dd", spec));
  const double both = flops(spec, layers_as("dm", spec));
  CHECK(forward_gemm_flops(*graph).value() == dense + 2 * (two - dense) + 2 * (both - dense));
}

TEST_CASE("layers stated one by one become the shortest runs, and equal layers one kind") {
  const auto runs = [](const std::string& letters) {
    ModelSpec spec = tiny_mixed();
    set_layers(spec, layers_as(letters, spec));
    std::string text;
    for (const LayerRun& run : spec.runs) {
      for (const int kind : run.kinds) text += spec.kinds[static_cast<std::size_t>(kind)].name;
      text += std::to_string(run.times) + " ";
    }
    std::string back;
    for (const int kind : kind_of_layers(spec))
      back += spec.kinds[static_cast<std::size_t>(kind)].name;
    CHECK(back == letters);
    CHECK(check_spec(spec).empty());
    return text;
  };
  CHECK(runs("dddmmmmm") == "d3 m5 ");
  CHECK(runs("dmdmdm") == "dm3 ");
  CHECK(runs("dddmdddmdd") == "dddm2 d2 ");
  CHECK(runs("md") == "m1 d1 ");
  ModelSpec spec = tiny_mixed();
  set_layers(spec, layers_as("mm", spec));
  CHECK(spec.kinds.empty());
  CHECK(spec.runs.empty());
  CHECK(spec.layers == 2);
  CHECK(spec.ffn_hidden == 16);
  CHECK(spec.variants.experts == 4);
}

TEST_CASE("a model file states kinds by what differs, and is written and read back equal") {
  const ModelSpec spec = tiny_mixed();
  const std::string text = spec_to_json(spec, 0);
  INFO(text);
  CHECK(text.find(R"("kinds":[{"name":"dense"},{"name":"moe","ffn_hidden":16,"experts":4,)"
                  R"("experts_per_token":2}])") != std::string::npos);
  CHECK(text.find(R"("runs":[{"kinds":["dense"],"times":1},)"
                  R"({"kinds":["dense","moe"],"times":2}])") != std::string::npos);
  const auto back = parse_spec(text, "model.json");
  REQUIRE(back.ok());
  CHECK(*back == spec);
}

TEST_CASE("kinds that contradict the model or each other are refused by name") {
  const auto with = [](auto change) {
    ModelSpec spec = tiny_mixed();
    change(spec);
    return problem_of(spec);
  };
  CHECK(with([](ModelSpec&) {}).empty());
  CHECK(with([](ModelSpec& s) { s.layers = 6; }) == "model mixed: runs");
  CHECK(with([](ModelSpec& s) { s.runs.pop_back(); }) == "model mixed: runs");
  CHECK(with([](ModelSpec& s) { s.runs[1].times = 1 << 30; }) == "model mixed: runs/1/times");
  CHECK(with([](ModelSpec& s) { s.runs[0].kinds = {2}; }) == "model mixed: runs/0/kinds");
  CHECK(with([](ModelSpec& s) { s.runs[0].kinds.clear(); }) == "model mixed: runs/0/kinds");
  CHECK(with([](ModelSpec& s) { s.kinds[1].name = "dense"; }) == "model mixed: kinds");
  CHECK(with([](ModelSpec& s) { s.kinds.pop_back(); }) == "model mixed: kinds");
  CHECK(with([](ModelSpec& s) { s.kinds.clear(); }) == "model mixed: kinds");
  CHECK(with([](ModelSpec& s) { s.kinds[1] = s.kinds[0], s.kinds[1].name = "same"; }) ==
        "model mixed: kinds");
  CHECK(with([](ModelSpec& s) { s.runs = {{{0}, 5}}; }) == "model mixed: kinds");  // no mixture
  CHECK(with([](ModelSpec& s) { s.kinds[1].ffn_hidden = 0; }) ==
        "model mixed: kinds (moe): ffn_hidden");
  CHECK(with([](ModelSpec& s) { s.kinds[1].variants.experts_per_token = 5; }) ==
        "model mixed: kinds (moe): experts_per_token");
  CHECK(with([](ModelSpec& s) { s.kinds[0].variants.position_kind = Positions::learned; }) ==
        "model mixed: kinds (dense): position_kind");
  CHECK(with([](ModelSpec& s) { s.kinds[0].variants.norm = Norm::layer_norm; }) ==
        "model mixed: kinds (dense): norm");
  CHECK(with([](ModelSpec& s) { s.kinds[0].variants.position_kind = Positions::none; }).empty());
  ModelSpec chain = mlp({4, 4}, Activation::relu, Loss::squared_error);
  chain.kinds = tiny_mixed().kinds;
  CHECK(problem_of(chain) == "model mlp: kinds");
}

TEST_CASE("degrees hold for every kind of layer") {
  ModelSpec spec = tiny_mixed();
  CHECK(divides_layers(spec, 2));      // 6 heads, widths 48 and 16
  CHECK_FALSE(divides_layers(spec, 3));
  CHECK(expert_divisor(spec) == 4);
  CHECK(token_copies_divisor(spec, 8) == 16);
  const auto refused = [&](const GraphOptions& options) {
    const auto graph = build_graph(spec, options);
    return graph.ok() ? "" : graph.problems()[0].where;
  };
  CHECK(refused({.seq_len = 8, .tensor = 2}).empty());
  CHECK(refused({.seq_len = 8, .tensor = 6}) == "tensor");
  CHECK(refused({.seq_len = 8, .expert = 4}).empty());
  CHECK(refused({.seq_len = 8, .expert = 3}) == "expert");
  CHECK(lora_targets_of(spec) ==
        std::vector<std::string_view>{"q", "k", "v", "o", "gate", "up", "down"});
}

TEST_CASE("a kind in a file may not state what belongs to the whole model") {
  const std::string text = spec_to_json(tiny_mixed(), 0);
  const auto with = [&](const std::string& field) {
    std::string changed = text;
    const std::string at = R"({"name":"dense")";
    changed.insert(changed.find(at) + at.size(), "," + field);
    const auto spec = parse_spec(changed, "model.json");
    return spec.ok() ? "" : spec.problems()[0].where;
  };
  CHECK(with(R"("rotary_fraction":0.5)").empty());
  CHECK(with(R"("token_types":2)").find("/kinds/0/token_types") != std::string::npos);
  CHECK(with(R"("hidden":2)").find("/kinds/0/hidden") != std::string::npos);
}

TEST_CASE("fewer layers are evenly chosen, and keep one of each kind where there is room") {
  const auto kept = [](const std::string& letters, std::int64_t count) {
    ModelSpec spec = tiny_mixed();
    set_layers(spec, layers_as(letters, spec));
    keep_layers(spec, count);
    CHECK(spec.layers == count);
    CHECK(check_spec(spec).empty());
    if (spec.kinds.empty()) return spec.variants.experts > 0 ? std::string("m") : "d";
    std::string text;
    for (const int kind : kind_of_layers(spec))
      text += spec.kinds[static_cast<std::size_t>(kind)].name;
    return text;
  };
  CHECK(kept("dddmmmmmm", 3) == "dmm");
  CHECK(kept("dmdmdmdm", 4) == "dmdd");  // of the dense layers 0, 2, 4, 6 one makes room
  CHECK(kept("mmmmmmmd", 2) == "md");
  CHECK(kept("dmmm", 1) == "d");
  CHECK(kept("dm", 2) == "dm");
  CHECK(kinds_text(tiny_mixed()) == "3 dense, 2 moe");
  CHECK(kinds_text(tiny_gpt2()).empty());
}
