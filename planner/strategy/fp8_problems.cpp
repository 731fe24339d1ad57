#include "planner/strategy/fp8_problems.hpp"

#include "models/layer_kinds.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner {
namespace {

// Units of a layer are numbered in groups of all layers, of which there are up to four, and their
// distances are stored in 16 bits.
constexpr std::int64_t kMostLayers = 8191;

}  // namespace

void add_fp8_problems(const models::ModelSpec& spec, const Job& job, const Strategy& s,
                      Failures& failures_) {
  if (!job.in_few_bits("params")) return;
  const auto recipe = resolve_recipe(job.recipe, job.precision);
  NEED((recipe && recipe->has_master) || s.sharding == Sharding::zero3, "sharding",
       "zero3 with fp8_tensors=params and a recipe without a master copy",
       Phrase(name(s.sharding)),
       "codes are updated from a master copy: pin sharding=zero3, or plan with --recipe mixed");
  NEED(s.grad_sync != GradSync::parameter_server, "grad_sync",
       "auto, ring, tree or naive_all_reduce with fp8_tensors=params", "parameter_server",
       "servers send weights in the recipe's types: leave params out of --fp8-tensors");
  NEED(schedule_def(s.schedule).flushes, "schedule",
       "a schedule that flushes with fp8_tensors=params", Phrase(name(s.schedule)),
       "it keeps several versions of the weights: pin schedule=1f1b");
  NEED(!s.offloads("optimizer") && !s.offloads("params"), "offload",
       "nothing or activations with fp8_tensors=params", "optimizer or params",
       "the host updates weights in the recipe's types: leave params out of --fp8-tensors");
  NEED(models::is_transformer(spec.family), "fp8_tensors",
       "no params for a chain or an operator graph", "params",
       "leave params out of --fp8-tensors");
  NEED(models::layers_of(spec) <= kMostLayers, "layers",
       "at most " + Phrase(kMostLayers) + " with fp8_tensors=params",
       Phrase(models::layers_of(spec)));
}

}  // namespace planner
