// Divisions of operators over ranks: exact elimination against trying everything, on bare costs and
// on random graphs, and what is found for AlexNet and for a pair of dense layers.
#include "planner/search/split_search.hpp"

#include "planner/search/split_report.hpp"

#include "models/spec_file.hpp"
#include "models/zoo.hpp"
#include "tests/catch.hpp"
#include "tests/graph_model.hpp"
#include "tests/random_graph.hpp"
#include "tests/unit/planner/asked.hpp"

using namespace planner;
using models::ModelSpec;
using tests::Draws;
using Kind = models::OperatorSpec::Kind;

namespace {

// Calls use(choices) with every assignment.
template <class Use>
void for_each_assignment(const std::vector<std::size_t>& sizes, Use&& use) {
  std::vector<int> choices(sizes.size(), 0);
  while (true) {
    use(choices);
    std::size_t v = 0;
    while (v < sizes.size() && ++choices[v] == static_cast<int>(sizes[v])) choices[v++] = 0;
    if (v == sizes.size()) return;
  }
}

PairwiseProblem random_problem(Draws& random) {
  PairwiseProblem problem;
  const auto cost = [&] { return 1e-3 * static_cast<double>(random.below(1000)); };
  const std::size_t variables = 1 + random.below(8);
  for (std::size_t v = 0; v < variables; ++v)
    for (std::size_t c = 0, n = 1 + random.below(4); c < n; ++c) {
      if (c == 0) problem.own.emplace_back();
      problem.own.back().push_back(cost());
    }
  for (std::size_t a = 0; a < variables; ++a)
    for (std::size_t b = 0; b < variables; ++b) {
      if (a == b || random.below(3) > 0) continue;
      PairwiseProblem::Pair pair{static_cast<int>(a), static_cast<int>(b), {}};
      for (std::size_t i = 0; i < problem.own[a].size() * problem.own[b].size(); ++i)
        pair.cost.push_back(cost());
      problem.pairs.push_back(std::move(pair));
    }
  return problem;
}

std::vector<std::size_t> sizes_of(const PairwiseProblem& problem) {
  std::vector<std::size_t> sizes;
  for (const auto& own : problem.own) sizes.push_back(own.size());
  return sizes;
}

Question question_of(const ModelSpec& spec, std::int64_t batch, std::int64_t gpus) {
  Job job;
  job.seq_len = 1;
  job.global_batch = batch;
  auto question = make_question(spec, job, *hw_profiles::find_profile("h100-sxm-80g"), gpus);
  REQUIRE(question.ok());
  return std::move(question).value();
}

bool divides(const std::vector<std::string>& splits, const std::string& beginning) {
  return std::ranges::any_of(splits,
                             [&](const std::string& s) { return s.starts_with(beginning); });
}

}  // namespace

TEST_CASE("elimination finds the least of all assignments on 1000 random problems") {
  constexpr std::uint64_t kProblems = 17;
  for (std::uint64_t i = 0; i < 1000; ++i) {
    Draws random{core::Random(kProblems, i)};
    const PairwiseProblem problem = random_problem(random);
    double least = 1e9;
    for_each_assignment(sizes_of(problem), [&](const std::vector<int>& choices) {
      least = std::min(least, cost_of(problem, choices));
    });
    const Assignment found = minimise(problem);
    INFO("seed " << kProblems << " case " << i);
    CHECK(found.exact());
    CHECK(found.cost == Approx(least).epsilon(1e-9).margin(1e-12));
    CHECK(found.cost == cost_of(problem, found.choices));
  }
}

TEST_CASE("where a table would be too large, a local search says how far it may be off") {
  constexpr std::uint64_t kProblems = 19;
  int inexact = 0;
  for (std::uint64_t i = 0; i < 50; ++i) {
    Draws random{core::Random(kProblems, i)};
    const PairwiseProblem problem = random_problem(random);
    const Assignment exact = minimise(problem), found = minimise(problem, {}, 2);
    CHECK(found.bound <= exact.cost * (1 + 1e-9));
    CHECK(found.cost >= exact.cost * (1 - 1e-9));
    CHECK(found.cost <= cost_of(problem, std::vector<int>(problem.own.size(), 0)));
    inexact += !found.exact();
  }
  CHECK(inexact > 10);
}

TEST_CASE("what is found for random graphs is the least of all ways to divide their operators") {
  constexpr std::uint64_t kGraphs = 23;
  for (std::uint64_t i = 0; i < 120; ++i) {
    Draws random{core::Random(kGraphs, i)};
    const ModelSpec spec = tests::random_graph(
        random, {.kinds = {Kind::convolution, Kind::relu, Kind::dropout, Kind::gelu,
                           Kind::max_pool, Kind::local_response_norm},
                 .least = 1, .more = 5});
    const models::GraphAnalysis a = models::analyse(spec.graph);
    const std::int64_t ways = random.below(2) == 0 ? 2 : 4;
    const SplitCosts costs(question_of(spec, 64, 4), {4, ways, 8, 2}, {});
    const SplitWeights weights{random.below(2) == 0 ? 1.0 : 0.3,
                               random.below(2) == 0 ? 1e-12 : 1e-9};
    std::vector<std::vector<models::ops::Factor>> may(spec.graph.operators.size());
    std::vector<std::size_t> sizes;
    for (std::size_t n = 0; n < may.size(); ++n) {
      for (const models::ops::Factor f : models::kSplitFactors)
        if ((models::factors_of(spec.graph, a, static_cast<int>(n), ways) & f) != 0)
          may[n].push_back(f);
      sizes.push_back(may[n].size());
    }
    const PairwiseProblem problem = costs.problem(weights);
    double least = 1e9;
    for_each_assignment(sizes, [&](const std::vector<int>& choices) {
      models::Splits splits;
      for (std::size_t n = 0; n < may.size(); ++n)
        splits.push_back(may[n][static_cast<std::size_t>(choices[n])]);
      least = std::min(least, cost_of(problem, costs.choices_of(splits)));
    });
    INFO("seed " << kGraphs << " case " << i);
    const Assignment found = minimise(problem);
    CHECK(found.exact());
    CHECK(found.cost == Approx(least).epsilon(1e-9));
    // The annotations stand for what was found.
    const auto splits =
        models::complete_splits(spec.graph, a, costs.annotations(found.choices), ways);
    REQUIRE(splits.ok());
    CHECK(costs.seconds(*splits, weights) == Approx(least).epsilon(1e-9));
  }
}

// [owt]: convolutions by samples, dense layers by their neurons.
TEST_CASE("AlexNet on 4 and 8 GPUs divides dense layers alone, and beats all that divides none") {
  for (const std::int64_t gpus : {4, 8}) {
    const Request request = planner_test::question("alexnet", gpus, "h100-sxm-80g");
    const Plan free = planner_test::pinned_plan(request);
    const Plan undivided = planner_test::pinned_plan(request, {"split=1"});
    REQUIRE(free.chosen);
    REQUIRE(undivided.chosen);
    const Strategy& s = free.chosen->strategy;
    INFO(to_text(s));
    CHECK(s.split > 1);
    CHECK(divides(s.splits, "fc6"));
    CHECK_FALSE(divides(s.splits, "conv"));
    CHECK(free.chosen->time.step < undivided.chosen->time.step * 0.95);
  }
}

TEST_CASE("the moves of a report add up to what the plan says is sent between these ranks") {
  for (const char* const pin : {"splits=fc6*=in,fc7*=out", "splits=fc*=out,fc8=in",
                                "splits=auto"}) {
    const Request request = planner_test::question("alexnet", 4, "h100-sxm-80g");
    const Plan plan = planner_test::pinned_plan(request, {"split=4", "pipeline=1", pin});
    REQUIRE(plan.chosen);
    const Question question = question_of(*models::find_model("alexnet"), 128, 4);
    const SplitReport report = split_report(question, plan.chosen->strategy);
    core::Bytes sent{}, stated{};
    for (const SplitMove& move : report.moves) sent += move.bytes;
    for (const CommunicationEntry& e : plan.chosen->communication)
      if (e.what == "split") stated += e.wire_per_rank;
    INFO(to_text(plan.chosen->strategy));
    CHECK(sent == stated);
    std::int64_t own = 0;
    for (const DividedOperator& op : report.operators) {
      own += op.parameters;
      if (op.kind == "linear") CHECK(op.otherwise.has_value());
      if (op.parameters == 0) CHECK_FALSE(op.otherwise.has_value());
    }
    CHECK(own < 61'000'000);
  }
}

TEST_CASE("dense layers that are too large to keep are divided by columns, then by rows") {
  const ModelSpec spec = tests::graph_model(
      R"({"name": "up", "kind": "linear", "inputs": ["x"], "features": 32768, "bias": false},
         {"name": "act", "kind": "gelu", "inputs": ["up"]},
         {"name": "down", "kind": "linear", "inputs": ["act"], "features": 8192, "bias": false})",
      "[64, 8192]", "squared_error");
  const auto found = split_choices(question_of(spec, 8, 8), 8, 8, {});
  const std::vector<std::string> pair{"up=out"};  // down reads columns: it is divided along `in`
  CHECK(std::ranges::any_of(found, [&](const SplitChoice& c) { return c.splits == pair; }));
}

// A layer as GPT-3 175B has it, of 12,288 columns and 96 heads.
static ModelSpec gpt_layer() {
  const auto spec = models::parse_spec(
      R"({"schema": "model/1", "name": "layer", "family": "graph", "loss": "cross_entropy",
          "inputs": [{"name": "text", "tokens": 2048}], "vocabulary": 512, "operators": [
       {"name": "rows", "kind": "embedding", "inputs": ["text"], "features": 12288},
       {"name": "norm1", "kind": "layer_norm", "inputs": ["rows"]},
       {"name": "q", "kind": "linear", "inputs": ["norm1"], "features": 12288},
       {"name": "k", "kind": "linear", "inputs": ["norm1"], "features": 12288},
       {"name": "v", "kind": "linear", "inputs": ["norm1"], "features": 12288},
       {"name": "core", "kind": "attention", "inputs": ["q", "k", "v"], "heads": 96,
        "causal": true},
       {"name": "proj", "kind": "linear", "inputs": ["core"], "features": 12288},
       {"name": "add1", "kind": "add", "inputs": ["rows", "proj"]},
       {"name": "norm2", "kind": "layer_norm", "inputs": ["add1"]},
       {"name": "up", "kind": "linear", "inputs": ["norm2"], "features": 49152},
       {"name": "act", "kind": "gelu", "inputs": ["up"]},
       {"name": "down", "kind": "linear", "inputs": ["act"], "features": 12288},
       {"name": "add2", "kind": "add", "inputs": ["add1", "down"]},
       {"name": "words", "kind": "linear", "inputs": ["add2"], "features": 512}]})", "model.json");
  if (!spec.ok()) FAIL(core::to_text(spec.problems()));
  return *spec;
}

// [megatron] section 3: the first matrix of each pair by columns, attention by heads, the second by
// rows, so that each pair has one sum over ranks (a gather before it, a scatter behind it).
TEST_CASE("a layer of GPT whose replica fits no GPU is divided as Megatron divides it") {
  // 12 h^2 = 1.8e9 parameters of 16 bytes: 29 GB of state, and a GPU of 24.
  Request request;
  request.model = gpt_layer();
  request.gpus = 8;
  request.profile = hw_profiles::find_profile("rtx4090").value();
  request.job.global_batch = 8;
  const Plan plan = planner_test::pinned_plan(request, {"sharding=none", "offload=none",
                                                        "pipeline=1"});
  REQUIRE(plan.chosen);
  const Strategy& s = plan.chosen->strategy;
  INFO(to_text(s));
  CHECK(s.split > 1);
  const models::GraphSpec& graph = request.model.graph;
  const models::GraphAnalysis a = models::analyse(graph);
  const auto splits = models::complete_splits(graph, a, s.splits, s.split);
  REQUIRE(splits.ok());
  const auto factor = [&](std::string_view name) {
    const auto at = std::ranges::find(graph.operators, name, &models::OperatorSpec::name);
    return (*splits)[static_cast<std::size_t>(at - graph.operators.begin())];
  };
  for (const char* name : {"q", "k", "v", "core", "up", "act"}) {
    INFO(name);
    CHECK(factor(name) == models::ops::kOut);
  }
  for (const char* name : {"proj", "down"}) CHECK(factor(name) == models::ops::kIn);
  for (const char* name : {"norm1", "norm2", "add1"})
    CHECK(factor(name) == models::ops::kSample);
  // Of each of the two pairs a gather and a scatter, and backward their counterparts.
  std::int64_t moves = 0;
  for (const CommunicationEntry& e : plan.chosen->communication)
    if (e.what == "split") moves += e.count;
  CHECK(moves == 2 * 2 * 2 * s.grad_accum);
}

TEST_CASE("pinned annotations complete themselves, or with *=auto the search completes them") {
  Request request;
  request.model = *models::find_model("alexnet");
  request.gpus = 4;
  request.profile = hw_profiles::find_profile("h100-sxm-80g").value();
  const auto plan_of = [&](const std::string& splits) {
    return planner_test::pinned_plan(request, {"split=4", "splits=" + splits});
  };
  const Plan own = plan_of("fc6*=sample,fc8=out");
  REQUIRE(own.chosen);
  CHECK(own.chosen->strategy.splits == std::vector<std::string>{"fc6*=sample", "fc8=out"});
  const Plan searched = plan_of("fc8=out,*=auto");
  REQUIRE(searched.chosen);
  const Strategy& s = searched.chosen->strategy;
  INFO(to_text(s));
  REQUIRE(s.splits.size() > 2);
  CHECK((s.splits[0] == "fc8=out" && s.splits[1] == "*=auto"));
  CHECK(divides(s.splits, "fc6"));
  CHECK(searched.chosen->time.step < own.chosen->time.step);
}

TEST_CASE("annotations that are given stay, and the search completes them") {
  const ModelSpec spec = *models::find_model("alexnet");
  const std::vector<std::string> given{"fc6*=in", "fc8=sample"};
  const auto found = split_choices(question_of(spec, 128, 4), 4, 4, given);
  REQUIRE_FALSE(found.empty());
  for (const SplitChoice& c : found) {
    REQUIRE(c.splits.size() >= 2);
    CHECK(std::equal(given.begin(), given.end(), c.splits.begin()));
    CHECK_FALSE(divides(c.splits, "fc8=out"));
  }
}
