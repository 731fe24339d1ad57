#include "planner/lowering/lower.hpp"

#include <string>
#include <utility>

#include "core/check.hpp"
#include "planner/lowering/stage_lowering.hpp"
#include "planner/stage/prologue.hpp"
#include "planner/strategy/schedules.hpp"

namespace planner {
namespace {

program::Axis axis_of(Degree degree) {
  if (degree == Degree::tensor) return program::Axis::tensor;
  return degree == Degree::data ? program::Axis::data : program::Axis::pipeline;
}

program::Accumulation accumulation_of(const Job& job, const Strategy& s, const Recipe& recipe,
                                      bool tied) {
  program::Accumulation a;
  a.ranks_first = stage::shards_gradients(s);
  a.algorithm = algorithm_of(s.grad_sync);
  a.group = static_cast<int>(s.sharding == Sharding::none ? s.data_ranks() : s.shard_group);
  a.replicas = static_cast<int>(s.data_ranks()) / a.group;
  // In a V rank 0 holds both ends of the model.
  a.tied_apart = tied && s.pipeline > 1 && !in_v(s.schedule);
  a.wire_type = stage::reduce_type(job, recipe);
  return a;
}

// The chunks of a pipeline rank.
void place_chunks(stage::Stage& stage, const Strategy& s) {
  const int p = static_cast<int>(s.pipeline), r = stage.index;
  const int chunks = static_cast<int>(s.virtual_stages);
  stage.chunks.clear();
  stage.layers = 0;
  for (int c = 0; c < chunks; ++c) {
    stage::Chunk chunk;
    chunk.place = static_cast<int>(place_of_chunk(s.schedule, r, p, c));
    for (int i = 0; i < chunk.place; ++i)
      chunk.first_layer += static_cast<int>(s.stages[static_cast<std::size_t>(i)]);
    chunk.begin = stage.layers;
    stage.layers += static_cast<int>(s.stages[static_cast<std::size_t>(chunk.place)]);
    chunk.end = stage.layers;
    chunk.first = chunk.place == 0;
    chunk.last = chunk.place == p * chunks - 1;
    stage.chunks.push_back(chunk);
  }
  stage.first_layer = stage.chunks.front().first_layer;
  stage.first = stage.chunks.front().first;
  stage.last = stage.chunks.back().last;
}

void without_ends(stage::Stage& stage) {
  stage.first = stage.last = false;
  for (stage::Chunk& chunk : stage.chunks) chunk.first = chunk.last = false;
}

// A part of a cut graph: one layer of its operators, on the model's input; the loss where the
// result is made.
void place_part(stage::Stage& stage, const models::ModelGraph& part) {
  stage.graph = &part;
  stage.cut = stage.first = true;
  stage.last = part.templates[0].output >= 0;
  stage.layers = 1;
  stage::Chunk chunk;
  chunk.end = 1;
  chunk.first = true;
  chunk.last = stage.last;
  stage.chunks = {chunk};
}

// Data ranks that take equally many micro-batches.
struct Replicas {
  int first = 0, count = 0;            // 0: all
  std::int64_t micro_batches = 1, before = 0;
};
std::vector<Replicas> replicas_of(const Strategy& s) {
  if (s.shares.empty()) return {{.micro_batches = s.grad_accum}};
  std::vector<Replicas> all;
  std::int64_t before = 0;
  for (std::size_t d = 0; d < s.shares.size(); ++d) {
    const auto context = static_cast<int>(s.context);
    if (d == 0 || s.shares[d] != s.shares[d - 1])
      all.push_back({static_cast<int>(d) * context, 0, s.shares[d], before});
    all.back().count += context;
    before += s.shares[d];
  }
  return all;
}

// Stages in order, each as worker classes (servers first), then the servers that stand apart.
void add_classes(program::Program& p, stage::Stage stage, const Strategy& all) {
  for (const Replicas& replicas : replicas_of(all)) {
    Strategy s = all;
    s.grad_accum = replicas.micro_batches;
    stage.strategy = &s;
    const auto schedule = stage.training() ? schedule_of(s, stage.index, s.grad_accum)
                                           : program::RankSchedule{.micro_batches = s.grad_accum};
    const auto add = [&] {
      program::RankClass& k =
          p.classes.emplace_back(lowering::StageLowering(stage, schedule).run());
      k.first_replica = replicas.first;
      k.replicas = replicas.count;
      k.micro_batches_before = replicas.before;
      if (replicas.count > 0) k.name += ", " + std::to_string(s.grad_accum) + " micro-batches";
    };
    if (p.servers == 0 || !p.servers_colocated) {
      add();
    } else {
      stage.serves = true;
      add();
      stage.serves = false;
      if (p.servers < p.mesh.data) add();
    }
  }
}

}  // namespace

program::Mesh mesh_of(const Strategy& s) {
  program::Mesh mesh;
  mesh.tensor = static_cast<int>(s.tensor);
  mesh.data = static_cast<int>(s.data_ranks());
  mesh.context = static_cast<int>(s.context);
  mesh.expert = static_cast<int>(s.expert * s.split);  // a model has one of the two
  mesh.expert_over_tensor = s.expert_over_tensor();
  mesh.pipeline = static_cast<int>(s.pipeline);
  mesh.shard_group = static_cast<int>(s.shard_group);
  mesh.separate_servers = static_cast<int>(s.separate_servers());
  std::size_t at = 0;
  for (const Degree degree : s.mesh_order)
    if (degree != Degree::context) mesh.order[at++] = axis_of(degree);
  PLANNER_CHECK(at == mesh.order.size(), "mesh_order names each degree once");
  return mesh;
}

program::Program lower(const models::ModelGraph& graph, const Job& job, const Strategy& s,
                       const stage::Policy& policy, std::optional<LayerProbe> probe) {
  const std::optional<Recipe> recipe = resolve_recipe(job.recipe, job.precision);
  PLANNER_CHECK(recipe.has_value(), "unknown recipe");
  program::Program p;
  p.mesh = mesh_of(s);
  p.servers = static_cast<int>(s.servers);
  p.servers_colocated = s.servers_colocated;
  p.cut = s.partition == Partition::operators;
  p.samples = s.micro_batch;
  p.seq_len = job.seq_len;
  p.global_batch = job.global_batch;
  p.statistic_type = recipe->statistic;
  p.clip = job.clip;
  p.loss_scale = loss_scale_of(job);

  stage::Stage stage;
  stage.policy = policy;
  stage.graph = &graph;
  if (probe) stage.alike = probe->layer_template;
  stage.job = &job;
  stage.strategy = &s;
  stage.recipe = *recipe;
  stage.optimizer = optimizer(job.optimizer);
  stage.quantization = quantization_from_name(job.quantization).value_or(Quantization::none);
  stage.mesh = p.mesh;
  stage.samples = s.micro_batch;
  const bool tied = !stage::tied_table(graph).empty();
  p.accumulation = accumulation_of(job, s, *recipe, tied && !graph.prologue.parameters.empty());
  p.optimizer = {job.optimizer,
                 stage.optimizer.first_moments + stage.optimizer.second_moments,
                 recipe->has_master};
  for (int r = 0; r < p.mesh.pipeline; ++r) {
    stage.index = r;
    if (s.partition == Partition::operators) {
      const models::ModelGraph part =
          models::build_part(graph.spec, graph.options, s.parts, r + 1);
      place_part(stage, part);
      add_classes(p, stage, s);
      continue;
    }
    place_chunks(stage, s);
    if (probe && !probe->ends) without_ends(stage);
    add_classes(p, stage, s);
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

core::Result<LoweredStrategy> lower_strategy(const models::ModelSpec& model, const Job& job,
                                             const hw_profiles::Framework& framework,
                                             std::int64_t gpus, const Strategy& strategy) {
  Strategy resolved = resolve(model, job, strategy);
  if (core::Problems problems = strategy_problems(model, job, resolved, gpus); !problems.empty())
    return problems;
  const auto graph = models::build_graph(model, graph_options(job, resolved, framework));
  if (!graph.ok()) return graph.problems();
  program::Program program = lower(*graph, job, resolved, stage::policy_of(job, framework));
  return LoweredStrategy{std::move(resolved), std::move(program)};
}

}  // namespace planner
