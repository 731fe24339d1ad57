// Annotations of operators: their form, what they come to, and what is refused.
#include "models/splits.hpp"

#include <map>

#include "core/random.hpp"
#include "models/graph.hpp"
#include "models/zoo.hpp"
#include "tests/graph_model.hpp"

using namespace models;
using ops::Factor;
using ops::kIn;
using ops::kOut;
using ops::kSample;

namespace {

ModelSpec small() {
  const auto spec = parse_spec(
      R"({"schema": "model/1", "name": "small", "family": "graph", "loss": "squared_error",
          "input": {"name": "x", "shape": [4, 8, 8]}, "operators": [
       {"name": "conv", "kind": "convolution", "inputs": ["x"], "channels": 6, "kernel": 3},
       {"name": "grouped", "kind": "convolution", "inputs": ["conv"], "channels": 6, "kernel": 3,
        "groups": 2, "bias": false},
       {"name": "relu", "kind": "relu", "inputs": ["grouped"]},
       {"name": "norm", "kind": "local_response_norm", "inputs": ["relu"]},
       {"name": "flat", "kind": "flatten", "inputs": ["norm"]},
       {"name": "fc1", "kind": "linear", "inputs": ["flat"], "features": 8},
       {"name": "act", "kind": "gelu", "inputs": ["fc1"]},
       {"name": "fc2", "kind": "linear", "inputs": ["act"], "features": 3}]})",
      "model.json");
  if (!spec.ok()) FAIL(core::to_text(spec.problems()));
  return *spec;
}

struct Small {
  ModelSpec spec = small();
  GraphAnalysis analysis = analyse(spec.graph);

  int at(const std::string& name) const {
    for (int i = 0; i < std::ssize(spec.graph.operators); ++i)
      if (spec.graph.operators[static_cast<std::size_t>(i)].name == name) return i;
    return -1;
  }
  std::uint8_t may(const std::string& name, std::int64_t ways) const {
    return factors_of(spec.graph, analysis, at(name), ways);
  }
  std::string of(std::vector<std::string> annotations, std::int64_t ways = 2) const {
    const auto splits = complete_splits(spec.graph, analysis, annotations, ways);
    if (!splits.ok()) return splits.problems().front().expected;
    std::string text;
    for (const int i : analysis.order) {
      if (!text.empty()) text += ' ';
      text += name((*splits)[static_cast<std::size_t>(i)]);
    }
    return text;
  }
};

}  // namespace

TEST_CASE("operators divide along the factors of their schemas, where sizes divide") {
  const Small m;
  CHECK(m.may("conv", 2) == (kSample | kOut));        // its bias is of channels
  CHECK(m.may("conv", 4) == kSample);
  CHECK(m.may("grouped", 2) == kSample);              // groups see only each other
  CHECK(m.may("relu", 3) == (kSample | kOut));
  CHECK(m.may("norm", 2) == kSample);                 // sums over channels
  CHECK(m.may("fc1", 2) == (kSample | kOut | kIn));
  CHECK(m.may("fc1", 8) == (kSample | kOut | kIn));   // of 6 x 4 x 4 features
  CHECK(m.may("fc2", 2) == (kSample | kIn));          // 3 columns
}

TEST_CASE("what nobody names follows the columns that it reads, or takes samples") {
  const Small m;
  CHECK(m.of({}) == "sample sample sample sample sample sample sample");
  CHECK(m.of({"fc1=out"}) == "sample sample sample sample out out in");
  CHECK(m.of({"fc1=out", "fc2=sample"}) == "sample sample sample sample out out sample");
  CHECK(m.of({"act=out"}) == "sample sample sample sample out out in");
  CHECK(m.of({"fc1=out", "act=sample"}) == "sample sample sample sample out sample sample");
  CHECK(m.of({"fc1=out", "*=auto"}) == m.of({"fc1=out"}));
  CHECK(m.of({"fc*=in"}) == "sample sample sample sample in sample in");
  CHECK(m.of({"f*1=out", "fc2=in"}) == "sample sample sample sample out out in");
  CHECK(m.of({"fc*=in", "fc1=out"}) == "sample sample sample sample out out in");
  CHECK(m.of({"fc1=out", "fc*=in"}) == "sample sample sample sample out out in");
}

// base_model_tp_plan of configuration_qwen3.py and, for the matrices, of configuration_llama.py
// (transformers 008e574): colwise is `out`, rowwise is `in`; what it does not name is whole.
TEST_CASE("one annotation of each branch comes to Hugging Face's tensor parallel plan") {
  const ModelSpec spec = tests::qwen3_layers();
  const GraphAnalysis analysis = analyse(spec.graph);
  const std::map<std::string, Factor> plan{
      {"self_attn.q_proj", kOut}, {"self_attn.k_proj", kOut}, {"self_attn.v_proj", kOut},
      {"self_attn.o_proj", kIn},  {"mlp.gate_proj", kOut},    {"mlp.up_proj", kOut},
      {"mlp.down_proj", kIn},     {"self_attn.core", kOut},   {"mlp.act", kOut}};
  const auto wanted = [&](const std::string& name) {
    constexpr std::size_t kPrefix = std::string_view("layers.0.").size();
    const auto at = name.starts_with("layers.") ? plan.find(name.substr(kPrefix)) : plan.end();
    return at == plan.end() ? kSample : at->second;
  };
  const std::vector<std::vector<std::string>> seeds{{"*.q_proj=out", "*.gate_proj=out"},
                                                    {"*.v_proj=out", "*.up_proj=out"},
                                                    {"*.core=out", "*.act=out"}};
  for (const std::vector<std::string>& annotations : seeds) {
    const auto splits = complete_splits(spec.graph, analysis, annotations, 2);
    REQUIRE(splits.ok());
    for (std::size_t i = 0; i < splits->size(); ++i) {
      INFO(spec.graph.operators[i].name);
      CHECK((*splits)[i] == wanted(spec.graph.operators[i].name));
    }
    // Written by as few annotations as it takes: one of each branch and layer.
    CHECK(split_texts(spec.graph, analysis, *splits, 2).size() == 4);
  }
  // Of grouped queries, heads of keys divide: 2 of them.
  CHECK_FALSE(complete_splits(spec.graph, analysis, seeds.back(), 4).ok());
}

TEST_CASE("annotations that do not hold are refused by what they should be") {
  const Small m;
  CHECK(m.of({"fc1"}) == "NAME=FACTOR, the factor one of sample, out, in, or *=auto");
  CHECK(m.of({"fc1=column"}) == "NAME=FACTOR, the factor one of sample, out, in, or *=auto");
  CHECK(m.of({"fc3=out"}) ==
        "operators of the model: conv, grouped, relu, norm, fc1, act, fc2");
  CHECK(m.of({"flat=out"}) ==
        "operators of the model: conv, grouped, relu, norm, fc1, act, fc2");
  CHECK(m.of({"fc2=out"}) == "for fc2 one of sample, in, with 2 ranks");
  CHECK(m.of({"fc*=out"}) == "for fc2 one of sample, in, with 2 ranks");
  CHECK(m.of({"f*1=out", "fc*=in"}) == "one factor for fc1");
}

TEST_CASE("the texts of any splits come to these splits again") {
  const Small m;
  constexpr std::uint64_t kSplits = 29;
  const core::Random random(kSplits, 0);
  std::uint64_t drawn = 0;
  for (int n = 0; n < 200; ++n) {
    Splits splits(m.spec.graph.operators.size(), kSample);
    for (const int i : m.analysis.order) {
      const auto f = kSplitFactors[random.below(drawn++, kSplitFactors.size())];
      if ((factors_of(m.spec.graph, m.analysis, i, 2) & f) != 0)
        splits[static_cast<std::size_t>(i)] = f;
    }
    const std::vector<std::string> texts = split_texts(m.spec.graph, m.analysis, splits, 2);
    const auto again = complete_splits(m.spec.graph, m.analysis, texts, 2);
    REQUIRE(again.ok());
    CHECK(*again == splits);
  }
}

TEST_CASE("a rank has 1 / ways of what is divided, and no graph else divides") {
  const ModelSpec spec = small();
  const auto graph = build_graph(spec, {.split = 2, .splits = {"fc1=out", "fc2=in", "conv=out"}});
  REQUIRE(graph.ok());
  const auto whole = build_graph(spec, {});
  CHECK(parameter_count(*graph) == parameter_count(*whole));
  std::int64_t own = 0;
  for (const Segment& layer : graph->templates)
    for (const Parameter& p : layer.parameters) own += p.elements;
  // conv 6 x 4 x 9 + 6, fc1 8 x 96 + 8, fc2 3 x 8 are halved; grouped's 6 x 3 x 9, fc2's 3 are not.
  CHECK(own == (6 * 4 * 9 + 6 + 8 * 96 + 8 + 3 * 8) / 2 + 6 * 3 * 9 + 3);
  CHECK(build_graph(spec, {.split = 2, .splits = {"fc9=out"}}).problems().front().where ==
        "splits");
  const auto gpt = build_graph(*find_model("gpt2-124m"), {.seq_len = 8, .split = 2});
  CHECK(gpt.problems().front().where == "split");
}
