#include "planner/lower.hpp"

#include "core/check.hpp"
#include "planner/lowering/stage_lowering.hpp"

namespace planner {
namespace {

program::Axis axis_of(const std::string& name) {
  if (name == "tensor") return program::Axis::tensor;
  return name == "data" ? program::Axis::data : program::Axis::pipeline;
}

program::Mesh mesh_of(const Strategy& s) {
  program::Mesh mesh;
  mesh.tensor = static_cast<int>(s.tensor);
  mesh.data = static_cast<int>(s.data);
  mesh.pipeline = static_cast<int>(s.pipeline);
  mesh.shard_group = static_cast<int>(s.shard_group);
  mesh.separate_servers = static_cast<int>(s.separate_servers());
  std::size_t at = 0;
  for (const std::string& name : s.mesh_order)
    if (name != "context") mesh.order[at++] = axis_of(name);
  PLANNER_CHECK(at == mesh.order.size(), "mesh_order names each degree once");
  return mesh;
}

program::Accumulation accumulation_of(const Job& job, const Strategy& s, const Recipe& recipe,
                                      bool tied) {
  program::Accumulation a;
  a.ranks_first = s.sharding == Sharding::zero2 || s.sharding == Sharding::zero3;
  a.algorithm = s.grad_sync == GradSync::tree               ? program::Algorithm::tree
                : s.grad_sync == GradSync::naive_all_reduce ? program::Algorithm::naive_all_reduce
                : s.grad_sync == GradSync::parameter_server ? program::Algorithm::parameter_server
                                                            : program::Algorithm::ring;
  a.group = static_cast<int>(s.sharding == Sharding::none ? s.data : s.shard_group);
  a.replicas = static_cast<int>(s.data) / a.group;
  a.tied_apart = tied && s.pipeline > 1;
  a.wire_type = job.reduce_dtype.value_or(recipe.gradient);
  return a;
}

// Stages in order, each as worker classes (servers first), then the servers that stand apart.
void add_classes(program::Program& p, lowering::Stage stage, const Strategy& s) {
  const auto schedule = stage.training() ? schedule_of(s, stage.index, s.grad_accum)
                                         : program::Schedule{.micro_batches = s.grad_accum};
  const auto add = [&] { p.classes.push_back(lowering::StageLowering(stage, schedule).run()); };
  if (p.servers == 0 || !p.servers_colocated) {
    add();
  } else {
    stage.serves = true;
    add();
    stage.serves = false;
    if (p.servers < p.mesh.data) add();
  }
}

}  // namespace

program::Schedule schedule_of(const Strategy& s, int stage, std::int64_t micro_batches) {
  program::Schedule schedule;
  schedule.micro_batches = micro_batches;
  if (s.schedule == Schedule::gpipe) schedule.warm_up = micro_batches;
  if (s.schedule == Schedule::one_f_one_b)
    schedule.warm_up = std::min<std::int64_t>(micro_batches, s.pipeline - stage - 1);
  return schedule;
}

models::GraphOptions graph_options(const Job& job, const Strategy& strategy) {
  models::GraphOptions options;
  options.seq_len = job.seq_len;
  options.tensor = strategy.tensor;
  options.sequence_parallel = strategy.sequence_parallel;
  options.lora_rank = job.lora_rank;
  options.lora_targets = job.lora_targets;
  options.inference = job.mode == Mode::inference;
  return options;
}

program::Program lower(const models::ModelGraph& graph, const Job& job, const Strategy& s) {
  const std::optional<Recipe> recipe = resolve_recipe(job.recipe, job.precision);
  PLANNER_CHECK(recipe.has_value(), "unknown recipe");
  program::Program p;
  p.mesh = mesh_of(s);
  p.servers = static_cast<int>(s.servers);
  p.servers_colocated = s.servers_colocated;
  p.samples = s.micro_batch;
  p.seq_len = job.seq_len;
  p.global_batch = job.global_batch;
  p.statistic_type = recipe->statistic;

  lowering::Stage stage;
  stage.graph = &graph;
  stage.job = &job;
  stage.strategy = &s;
  stage.recipe = *recipe;
  stage.optimizer = optimizer(job.optimizer);
  stage.quantization = quantization_from_name(job.quantization).value_or(Quantization::none);
  stage.mesh = p.mesh;
  stage.samples = s.micro_batch;
  p.accumulation = accumulation_of(job, s, *recipe, graph.spec.tied_embeddings &&
                                                        !graph.prologue.parameters.empty());
  p.optimizer = {static_cast<int>(job.optimizer),
                 stage.optimizer.first_moments + stage.optimizer.second_moments,
                 recipe->has_master};
  for (int r = 0; r < p.mesh.pipeline; ++r) {
    stage.index = r;
    stage.layers = static_cast<int>(s.stages[static_cast<std::size_t>(r)]);
    stage.first = r == 0;
    stage.last = r == p.mesh.pipeline - 1;
    add_classes(p, stage, s);
    stage.first_layer += stage.layers;
  }
  if (p.mesh.separate_servers > 0) {
    stage.index = 0;
    stage.first_layer = 0;
    stage.first = stage.last = true;
    stage.serves = stage.apart = true;
    p.classes.push_back(lowering::StageLowering(stage, {}).run());
  }
  return p;
}

}  // namespace planner
