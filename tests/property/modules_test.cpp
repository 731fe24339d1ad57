// checkpoint=modules, executed: what is made again changes no bit, and memory and traffic are the
// prediction, to the byte, for every module of every variant of decoders.
#include "models/layer_kinds.hpp"
#include "planner/lowering/lower.hpp"
#include "sim/program/checker.hpp"
#include "tests/catch.hpp"
#include "tests/property/check_prediction.hpp"
#include "tests/property/decoder_specs.hpp"
#include "tests/property/run_program.hpp"
#include "tests/property/strategies.hpp"

using namespace planner;
using namespace tests;

namespace {

constexpr int kRunSteps = 2;
constexpr std::uint64_t kRunSeed = 3;

std::vector<models::ModelSpec> specs() {
  std::vector<models::ModelSpec> all = decoders();
  for (models::ModelSpec& spec : all) spec.default_seq_len = 8;
  return all;
}

// Each module that the model has alone, and all at once.
std::vector<models::ModuleSet> sets_of(const models::ModelSpec& spec) {
  const models::ModuleSet all = models::modules_of(spec);
  std::vector<models::ModuleSet> sets{all};
  for (std::size_t i = 0; i < models::kModuleNames.size(); ++i) {
    const models::ModuleSet one = models::set_of(static_cast<models::Module>(i));
    if ((all & one) != 0 && all != one) sets.push_back(one);
  }
  return sets;
}

std::vector<Strategy> layouts(const models::ModelSpec& spec) {
  Strategy rows = mesh(2, 2, 1, Sharding::zero1);
  rows.sequence_parallel = true;
  std::vector<Strategy> all{strategy(2, 12, 2), mesh(1, 2, 1), rows, mesh(1, 1, 2)};
  if (spec.variants.experts == 0) return all;
  for (const std::int64_t expert_tensor : {0, 1}) {
    rows.expert = 2;
    rows.expert_tensor = expert_tensor;
    all.push_back(rows);
  }
  return all;
}

Strategy again(Strategy s, models::ModuleSet modules) {
  s.checkpoint = Checkpoint::modules;
  s.recompute_modules = modules;
  return s;
}

}  // namespace

TEST_CASE("modules made again change no bit") {
  for (const models::ModelSpec& spec : specs()) {
    Job job = tiny_job(spec, 12, "fp32");
    for (const Strategy& layout : layouts(spec)) {
      const ProgramRun kept = run_program(spec, job, layout, kRunSteps, kRunSeed);
      for (const models::ModuleSet modules : sets_of(spec)) {
        const Strategy s = again(layout, modules);
        INFO(spec.name << ", " << to_text(s));
        const ProgramRun made = run_program(spec, job, s, kRunSteps, kRunSeed);
        CHECK(made.losses == kept.losses);
        CHECK(made.weights == kept.weights);
      }
    }
  }
}

TEST_CASE("memory and traffic of modules made again equal the prediction") {
  for (const models::ModelSpec& spec : specs())
    for (const Strategy& layout : layouts(spec))
      for (const models::ModuleSet modules : sets_of(spec))
        check_cell(spec, {spec.name, again(layout, modules)}, "mixed");
}

TEST_CASE("split backward passes and every sharding make modules again") {
  for (const models::ModelSpec& spec : specs()) {
    const models::ModuleSet all = models::modules_of(spec);
    for (const Schedule schedule : {Schedule::zb_h1, Schedule::zb_h2}) {
      Strategy s = strategy(1, 12, 2, stages(2, schedule));
      check_cell(spec, {spec.name, again(s, all)}, "mixed");
    }
    for (const Sharding z : {Sharding::zero2, Sharding::zero3})
      check_cell(spec, {spec.name, again(mesh(2, 2, 1, z), all)}, "mixed");
  }
}
