// Jobs in 8 bits under strategies drawn at random, with weights gathered as codes or not: Programs
// are sound, what changes is what it should be, and the closed form follows.
#include "planner/evaluate/evaluate.hpp"
#include "sim/program/checker.hpp"
#include "sim/program/traffic.hpp"
#include "tests/unit/planner/against_lowering.hpp"
#include "tests/unit/planner/zoo_programs.hpp"

using namespace planner;
using namespace planner_test;

namespace f8_weights_cells_test {
namespace {

struct Cell {
  models::ModelSpec model;
  Job job;
  Strategy strategy;                   // resolved
  models::ModelGraph graph;
};

// nullopt: a draw that breaks a rule.
std::optional<Cell> cell_of(const models::ModelSpec& model, unsigned seed) {
  ZooDraw draw(seed);
  Cell c{model, {}, draw.strategy(model), {}};
  c.job = draw.job(model, c.strategy);
  c.job.mode = Mode::train;
  c.job.lora_rank = 0;
  c.job.quantization = "none";
  c.job.recipe = draw.one_of<std::string>({"mixed", "megatron", "fsdp2", "lean", "pure_bf16"});
  c.job.precision = core::DType::f8;
  c.job.fp8_scaling = draw.one_of<std::string>({"tensorwise", "rowwise", "blockwise", "mxfp8"});
  c.job.fp8_tensors = {"params"};      // which refuses more strategies
  const std::int64_t gpus = c.strategy.workers() + c.strategy.separate_servers();
  if (!strategy_problems(model, c.job, c.strategy, gpus).empty()) return std::nullopt;
  c.strategy = resolve(model, c.job, c.strategy);
  if (!strategy_problems(model, c.job, c.strategy, gpus).empty()) return std::nullopt;
  auto graph = models::build_graph(model, graph_options(c.job, c.strategy));
  if (!graph.ok()) return std::nullopt;
  c.graph = std::move(*graph);
  c.job.fp8_tensors.clear();
  return c;
}

program::Program lowered(const Cell& c, const Job& job, const hw_profiles::Profile& profile) {
  return lower(c.graph, job, c.strategy, stage::policy_of(job, profile.framework));
}

// Of what is gathered, and of all else.
struct Payload {
  std::int64_t gathered = 0, others = 0;
};
Payload payload_of(const program::Program& p) {
  Payload all;
  for (const program::TrafficEntry& e : program::traffic(p))
    (e.what == program::Traffic::parameters ? all.gathered : all.others) += e.payload.value();
  return all;
}

// How the closed form counts the fullest rank's bytes; 0: it does not describe the strategy.
std::int64_t summed(const Cell& c, const Job& job, const hw_profiles::Profile& profile) {
  const std::vector<Question> questions{
      make_question(c.model, job, profile, c.strategy.workers()).value()};
  closed_form::Evaluator evaluator(questions);
  if (!evaluator.prepare(c.strategy, c.graph)) return 0;
  return evaluator.at(c.strategy.micro_batch, c.strategy.grad_accum)[0].device.value();
}

}  // namespace

TEST_CASE("codes of weights are sound under strategies drawn at random, and are summed alike") {
  const hw_profiles::Profile profile = hw_profiles::find_profile("h200-sxm-141g").value();
  int programs = 0, narrower = 0, compared = 0;
  for (const models::ZooEntry& entry : models::zoo()) {
    if (!models::is_transformer(entry.spec.family) || entry.spec.layers > 32) continue;
    const unsigned first = seed_of(entry.spec.name) + 1000;
    int of_model = 0;
    for (unsigned seed = first; seed < first + 200 && of_model < 8; ++seed) {
      const std::optional<Cell> c = cell_of(entry.spec, seed);
      if (!c) continue;
      ++of_model;
      INFO(entry.spec.name << " " << seed << ": " << to_text(c->strategy) << ", recipe "
                           << c->job.recipe);
      Job params = c->job;
      params.fp8_tensors = {"params"};
      const program::Program with = lowered(*c, params, profile);
      const program::Program without = lowered(*c, c->job, profile);
      CHECK(core::to_text(program::check(with)).empty());
      CHECK(core::to_text(program::check(without)).empty());
      const Payload narrow = payload_of(with), wide = payload_of(without);
      CHECK(narrow.gathered <= wide.gathered);
      CHECK(2 * narrow.gathered >= wide.gathered);
      // Gradients are reduced in spans of other sizes: the padding of each differs.
      CHECK(std::abs(narrow.others - wide.others) <= wide.others / 100);
      narrower += narrow.gathered < wide.gathered;
      ++programs;
      for (const bool gathers : {true, false}) {
        const std::int64_t closed = summed(*c, gathers ? params : c->job, profile);
        const std::int64_t device = lowered_device(gathers ? with : without, profile).value();
        if (closed == 0) continue;
        CHECK(closed >= device);
        CHECK(50 * closed <= 51 * device);
        ++compared;
      }
    }
  }
  CHECK(programs > 250);
  CHECK(narrower > 80);
  CHECK(compared > 200);
}

}  // namespace f8_weights_cells_test
