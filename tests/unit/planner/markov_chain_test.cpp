// Walks over divisions of operators. A walk is compared with trying all divisions, and with the
// exact search.
#include "planner/search/markov_chain.hpp"

#include <algorithm>

#include "models/graph.hpp"
#include "models/splits.hpp"
#include "models/zoo.hpp"
#include "planner/stage/graph_options.hpp"
#include "planner/strategy/resolve.hpp"
#include "tests/catch.hpp"
#include "tests/random_graph.hpp"
#include "tests/unit/planner/asked.hpp"

using namespace planner;
using tests::Draws;
using Kind = models::OperatorSpec::Kind;

namespace {

Question question_of(const models::ModelSpec& spec, std::int64_t batch) {
  Job job;
  job.seq_len = 1;
  job.global_batch = batch;
  auto question = make_question(spec, job, *hw_profiles::find_profile("h100-sxm-80g"), 4);
  REQUIRE(question.ok());
  return std::move(question).value();
}

Strategy four_ranks(std::int64_t micro_batch) {
  Strategy s;
  s.data = s.split = 4;
  s.micro_batch = micro_batch;
  return s;
}

core::Seconds simulated(const Question& question, Strategy s) {
  resolve_in_place(question.model, s);
  const auto graph = models::build_graph(
      question.model, graph_options(question.job, s, question.profile.framework));
  REQUIRE(graph.ok());
  return evaluate(question, *graph, s).time.step;
}

// Each way to divide the operators that do not follow others.
core::Seconds least_of_all(const Question& question, Strategy s) {
  const models::GraphSpec& spec = question.model.graph;
  const models::GraphAnalysis a = models::analyse(spec);
  std::vector<std::vector<std::string>> texts{{}};
  for (const int i : a.order) {
    const models::OperatorSpec& op = spec.operators[static_cast<std::size_t>(i)];
    if (models::follows(op.kind)) continue;
    std::vector<std::vector<std::string>> more;
    for (const auto& text : texts)
      for (const models::ops::Factor f : models::kSplitFactors)
        if ((models::factors_of(spec, a, i, s.split) & f) != 0) {
          more.push_back(text);
          more.back().push_back(op.name + "=" + std::string(models::name(f)));
        }
    texts = std::move(more);
  }
  core::Seconds least(1e9);
  for (const auto& text : texts) {
    s.splits = text;
    least = std::min(least, simulated(question, s));
  }
  return least;
}

}  // namespace

TEST_CASE("a walk over few operators meets the fastest of all simulated divisions") {
  for (std::uint64_t i = 0; i < 12; ++i) {
    Draws random{core::Random(31, i)};
    const models::ModelSpec spec = tests::random_graph(
        random, {.kinds = {Kind::convolution, Kind::relu, Kind::gelu}, .least = 1, .more = 3});
    const Question question = question_of(spec, 32);
    const Strategy from = four_ranks(8);
    const Walk walk = walk_divisions(question, from, {}, i);
    INFO("case " << i);
    REQUIRE(walk.best);
    CHECK(walk.chain.start == simulated(question, from));
    CHECK(walk.chain.found == least_of_all(question, from));
    CHECK(walk.best->time.step == walk.chain.found);
    CHECK(walk.best->strategy.splits == walk.chain.splits);
  }
}

TEST_CASE("what is annotated stays through a walk, and a seed makes the same walk again") {
  const Question question = question_of(*models::find_model("alexnet"), 128);
  const std::vector<std::string> given{"fc6*=in"};
  const Walk first = walk_divisions(question, four_ranks(32), given, 5);
  REQUIRE(first.best);
  CHECK(std::ranges::find(first.chain.splits, "fc6*=in") != first.chain.splits.end());
  const Walk again = walk_divisions(question, four_ranks(32), given, 5);
  CHECK(again.chain.splits == first.chain.splits);
  CHECK(again.chain.accepted == first.chain.accepted);
  CHECK(walk_divisions(question, four_ranks(32), given, 6).chain.accepted !=
        first.chain.accepted);
}

TEST_CASE("a plan with a Markov chain says what it met beside the exact search") {
  Request request = planner_test::question("alexnet", 4, "h100-sxm-80g");
  const Plan exact = planner_test::pinned_plan(request);
  request.chain = 3;
  const auto made = make_plan(request);
  REQUIRE(made.ok());
  REQUIRE(made->search.chain);
  const Chain& chain = *made->search.chain;
  CHECK(chain.exact == exact.chosen->time.step);
  CHECK(chain.found < chain.start);
  CHECK(chain.found < exact.chosen->time.step * 1.02);
  CHECK(made->chosen->time.step == std::min(chain.found, chain.exact));
  CHECK(chain.accepted < chain.proposals);

  const auto again = parse_plan(to_json_text(*made), "plan.json");
  REQUIRE(again.ok());
  CHECK(again->search.chain->found == chain.found);
  CHECK(again->search.chain->splits == chain.splits);
  CHECK(to_json_text(*again) == to_json_text(*made));
}

TEST_CASE("a Markov chain is refused where there is nothing to walk over") {
  Request request = planner_test::question("gpt2-124m", 4, "h100-sxm-80g");
  request.chain = 1;
  const auto transformer = make_plan(request);
  REQUIRE_FALSE(transformer.ok());
  CHECK(core::to_text(transformer.problems()).find("a graph of operators") != std::string::npos);
  request = planner_test::question("alexnet", 4, "h100-sxm-80g");
  request.chain = 1;
  request.objective = Objective::memory;
  CHECK_FALSE(make_plan(request).ok());
  request.objective = Objective::time;
  request.gpus = 1;
  const auto alone = make_plan(request);
  REQUIRE(alone.ok());
  CHECK_FALSE(alone->search.chain);
  CHECK(std::ranges::any_of(alone->assumptions, [](const std::string& text) {
    return text.starts_with("no Markov chain was walked");
  }));
}
