#include "reports/emit/emit.hpp"

#include <algorithm>
#include <array>
#include <iterator>

#include <fmt/ranges.h>

#include "core/check.hpp"
#include "models/features.hpp"
#include "planner/strategy/names.hpp"
#include "reports/emit/elsewhere.hpp"
#include "reports/emit/launcher.hpp"
#include "reports/emit/parts.hpp"

namespace reports::emit {
namespace {

constexpr std::array<std::string_view, 13> kFrameworks{
    "megatron",   "megatron_bridge", "torchtitan", "torchtitan_0.3", "torchtitan_python",
    "deepspeed",  "axolotl",    "llama_factory",  "llmc",
    "nanotron",   "accelerate", "slurm",          "kubernetes"};
constexpr std::array<std::string_view, 6> kLaunchers{"torchrun", "slurm",  "jobset",
                                                     "pytorchjob", "mpijob", "skypilot"};

Question question_of(const planner::Plan& plan, const planner::Candidate& candidate) {
  const auto recipe = planner::resolve_recipe(
      plan.job.recipe,
      plan.job.precision == core::DType::f16 ? core::DType::f16 : core::DType::bf16);
  PLANNER_CHECK(recipe.has_value(), "a plan's recipe is known");
  return {plan, candidate.strategy, *recipe, {}};
}

core::Result<Written> written_for(Question& question, std::string_view framework) {
  if (framework == "megatron") return megatron(question);
  if (framework == "megatron_bridge") return megatron_bridge(question);
  if (framework == "torchtitan") return torchtitan(question);
  if (framework == "torchtitan_0.3") return torchtitan_0_3(question);
  if (framework == "torchtitan_python") return torchtitan_python(question);
  if (framework == "axolotl") return axolotl(question);
  if (framework == "llmc") return llmc(question);
  if (framework == "accelerate") return accelerate(question);
  if (framework == "nanotron") return nanotron(question);
  if (framework == "llama_factory") return llama_factory(question);
  PLANNER_CHECK(framework == "deepspeed", "a framework that trains");
  return deepspeed(question);
}

}  // namespace

std::span<const std::string_view> frameworks() { return kFrameworks; }
std::span<const std::string_view> launchers() { return kLaunchers; }

bool has_launchers(std::string_view framework) {
  return framework != "llmc" && framework != "accelerate" && framework != "slurm" &&
         framework != "kubernetes";
}
bool takes_image(std::string_view launcher) {
  return launcher == "jobset" || launcher == "pytorchjob" || launcher == "mpijob";
}
bool takes_workdir(std::string_view launcher) {
  return takes_image(launcher) || launcher == "skypilot";
}

std::string_view name_of(const planner::Plan& plan) {
  const std::string_view modelled = plan.job.framework;
  if (modelled == "megatron_core" || modelled == "megatron") return "megatron";
  if (modelled == "fsdp2")
    return models::has_llama_layers(plan.model, plan.job.seq_len) ? "torchtitan" : "accelerate";
  if (modelled.starts_with("trainer")) return "axolotl";
  const bool same = modelled == "deepspeed" || modelled == "llmc" || modelled == "nanotron";
  return same ? modelled : std::string_view();
}

std::string_view modelled_as(std::string_view framework) {
  if (framework.starts_with("megatron")) return "megatron_core";
  if (framework.starts_with("torchtitan") || framework == "accelerate") return "fsdp2";
  if (framework == "axolotl" || framework == "llama_factory") return "trainer";
  if (framework == "slurm" || framework == "kubernetes") return "native";  // they start our own
  return framework;
}

static std::int64_t degree_of(const planner::Strategy& s, planner::Degree d) {
  switch (d) {
    case planner::Degree::tensor: return s.tensor;
    case planner::Degree::context: return s.context;
    case planner::Degree::data: return s.data;
    case planner::Degree::pipeline: return s.pipeline;
  }
  return 1;
}

bool Question::has_order(std::initializer_list<planner::Degree> order) const {
  const auto counts = [&](planner::Degree d) { return degree_of(s, d) > 1; };
  std::vector<planner::Degree> own, wanted;
  std::ranges::copy_if(s.mesh_order, std::back_inserter(own), counts);
  std::ranges::copy_if(order, std::back_inserter(wanted), counts);
  return own == wanted;
}

core::Code Question::title() const {
  return core::Code::comment(
      fmt::format("{} on {} GPUs: {}", model().name, plan.gpus, planner::to_text(s)));
}

core::Code torchrun_command(const Question& q, const core::Code& program) {
  const std::int64_t per_node = std::min(q.plan.gpus, q.plan.gpus_per_node);
  if (q.plan.nodes <= 1) return code("torchrun --nproc_per_node {} {}", per_node, program);
  return code("torchrun --nnodes {} --nproc_per_node {} --node_rank $NODE_RANK --master_addr "
              "$MASTER_ADDR --master_port 29500 {}",
              q.plan.nodes, per_node, program);
}

std::string Question::order_text() const {
  std::vector<std::string_view> names;
  for (const planner::Degree d : s.mesh_order)
    names.push_back(planner::kDegreeNames[static_cast<std::size_t>(d)]);
  return fmt::format("mesh_order={}", fmt::join(names, ","));
}

std::int64_t Question::layers() const { return models::layers_of(model()); }

std::vector<std::int64_t> Question::chunks() const {
  return s.stages.empty() ? std::vector{layers()} : s.stages;
}

bool Question::uneven() const {
  const std::vector<std::int64_t> all = chunks();
  return std::ranges::adjacent_find(all, std::ranges::not_equal_to{}) != all.end();
}

void Question::require_common(std::string_view framework, std::string_view offload_allowed,
                              bool adapters) {
  const bool transformer = models::is_transformer(model().family);
  require(transformer && model().variants.token_features == 0,
          fmt::format("family {}", models::name(model().family)),
          fmt::format("a transformer over a vocabulary, for {}", framework), "");
  require(job().mode != planner::Mode::inference, "mode=inference", "training", "");
  require(adapters || (job().lora_rank == 0 && job().quantization == "none"),
          job().quantization == "none" ? fmt::format("lora_rank={}", job().lora_rank)
                                       : "quantization=" + job().quantization,
          fmt::format("training of all parameters, for {}", framework),
          "emit for axolotl or llama_factory, or plan without --lora-rank and --quantization");
  require(s.grad_sync != planner::GradSync::parameter_server, "grad_sync=parameter_server",
          "collectives between the workers", "plan with --forbid grad_sync=parameter_server");
  require(s.shares.empty(), "shares", "equally many micro-batches on all data ranks",
          "plan with --pin shares=auto");
  require(planner::flushes(s.schedule), fmt::format("schedule={}", name(s.schedule)),
          "a schedule that flushes each step", "plan without --allow-stale");
  for (const std::string& what : s.offload)
    require(what == offload_allowed, "offload=" + what,
            offload_allowed.empty() ? fmt::format("nothing offloaded, for {}", framework)
                                    : fmt::format("offload={} alone, for {}", offload_allowed,
                                                  framework),
            fmt::format("plan with --forbid offload={}", what));
  require(s.partition == planner::Partition::layers, "partition=operators", "whole layers", "");
  const bool even = plan.nodes <= 1 || plan.gpus == plan.nodes * plan.gpus_per_node;
  require(even, fmt::format("{} GPUs in nodes of {}", plan.gpus, plan.gpus_per_node),
          "as many GPUs in each node, for torchrun",
          "plan for whole nodes, or with another --gpus-per-node");
}

void Question::require_known_layers(std::string_view framework, const models::ModelSpec& spec) {
  const std::string_view feature = models::newest_feature(spec, job().seq_len);
  require(feature.empty(), fmt::format("a model with {}", feature),
          fmt::format("layers as GPT's or Llama's: the options of {} for this are not known here",
                      framework), "");
}

void Question::require_liger() {
  require(s.loss_chunks == 1 || models::has_liger_loss(model()),
          fmt::format("loss_chunks={} of family {}", s.loss_chunks, models::name(model().family)),
          "a model whose loss Liger's kernels take in pieces: llama, qwen2, qwen3 or mixtral",
          "plan with --pin loss_chunks=1");
}

void note_liger(const Question& q, std::vector<std::string>& notes) {
  if (q.s.loss_chunks > 1)
    notes.push_back(fmt::format("loss_chunks={}: by Liger's fused linear cross entropy (pip "
                                "install liger-kernel), which takes smaller pieces",
                                q.s.loss_chunks));
}

static core::Result<Launch> launch_for(Question& question, std::string_view framework) {
  if (framework == "slurm") return slurm(question);
  if (framework == "kubernetes") return kubernetes(question);
  core::Result<Written> written = written_for(question, framework);
  if (!written.ok()) return written.problems();
  return Launch{std::move(written->text), std::move(written->notes)};
}

// Before all other notes.
static core::Result<Launch> with_prediction(core::Result<Launch> launch, const planner::Plan& plan,
                                            const planner::Candidate& candidate,
                                            std::string_view framework) {
  if (!launch.ok()) return launch;
  if (auto there = predicted_elsewhere(plan, candidate, framework))
    launch->notes.insert(launch->notes.begin(), *std::move(there));
  return launch;
}

core::Result<Launch> launch_of(const planner::Plan& plan, const planner::Candidate& candidate,
                               std::string_view framework) {
  Question question = question_of(plan, candidate);
  return with_prediction(launch_for(question, framework), plan, candidate, framework);
}

core::Result<Launch> launcher_of(const planner::Plan& plan, const planner::Candidate& candidate,
                                 std::string_view framework, std::string_view launcher,
                                 const Place& place) {
  Question question = question_of(plan, candidate);
  core::Result<Written> written = written_for(question, framework);
  if (!written.ok()) return written.problems();
  return with_prediction(launched({question, *written, place, candidate.communication}, launcher),
                         plan, candidate, framework);
}

}  // namespace reports::emit
