#include "planner/search/assumptions.hpp"

#include <algorithm>

#include <boost/range/iterator_range.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "core/check.hpp"
#include "core/parse_units.hpp"
#include "models/graph.hpp"
#include "models/layer_kinds.hpp"
#include "planner/evaluate/accuracy.hpp"
#include "planner/evaluate/regime.hpp"
#include "planner/lowering/lower.hpp"
#include "planner/stage/f8_weights.hpp"
#include "planner/stage/graph_options.hpp"
#include "sim/cost/kernel.hpp"
#include "sim/cost/launches.hpp"

namespace planner {
namespace {

// Whether the source of a field says that nobody has verified it; without the field, `absent`.
bool is_guessed(const hw_profiles::Profile& profile, std::string_view field, bool absent) {
  const hw_profiles::Sourced* from = profile.lookup(field);
  return from == nullptr ? absent
                         : from->source.find(hw_profiles::kUnverified) != std::string::npos;
}

// Whether published runs tell what the GPU sustains; else it is derived from another's.
bool knows_runs(const hw_profiles::Profile& profile) {
  return !is_guessed(profile, "gpu.gemm_sustained", false);
}

// Whose runs the interval does not rest on; empty: all are scored.
std::string unscored_text(const hw_profiles::Profile& profile, const std::string& framework) {
  const Accuracy& known = accuracy();
  std::string text;
  if (!known.has_scored_framework(framework))
    text = fmt::format("it rests on published runs, none of which is in {}, so it is wider by how "
                       "much frameworks differ", framework);
  if (!known.has_scored_family(profile.gpu.architecture))
    text += fmt::format("{}no run on GPUs like {} has been compared, so it is wider by how much "
                        "sites differ", text.empty() ? "" : "; ", profile.gpu.id);
  else if (!knows_runs(profile))
    text += fmt::format("{}the range is that of other GPUs, since no run on {} is known",
                        text.empty() ? "" : "; ", profile.gpu.id);
  return text;
}

}  // namespace

void state_known_runs(Plan& plan) {
  constexpr std::int64_t kFewDatasets = 2, kFewRuns = 30;
  const bool is_gpu = plan.profile.gpu.compute_capability.has_value();
  if (!plan.chosen || !is_gpu) return;
  if (!accuracy().has_scored_memory(plan.job.framework))
    plan.assumptions.push_back(
        fmt::format("no published run tells the memory of {}: the risk of running out of memory is "
                    "higher for that", plan.job.framework));
  // The runs of Megatron-Bridge that `planner validate` reads; nothing is fitted on them.
  if (plan.job.precision == core::DType::f4)
    plan.assumptions.push_back(
        "products of all layers are in 4 bits: a recipe that keeps some layers in 16 bits takes "
        "longer. Nine published runs on GB200 and GB300 took 9 % less to 24 % more than predicted. "
        "On GB300 they were 1.4 to 1.6 times as fast as runs in mxfp8, where 1.8 to 1.9 times is "
        "predicted");
  if (plan.chosen->uncertainty.calibration_runs > 0) return;
  const Candidate& c = *plan.chosen;
  const Regime regime =
      regime_of(mesh_of(c.strategy), plan.profile.node.gpus_per_node, c.time);
  const RegimeAccuracy& known = accuracy().of(regime);
  if (known.datasets >= kFewDatasets && known.runs >= kFewRuns) return;
  plan.assumptions.push_back(
      fmt::format("few runs like this one are known: {} from {} source{} have been compared with "
                  "their predictions, of {}; the range of its step is wider for that",
                  known.runs, known.datasets, known.datasets == 1 ? "" : "s", words(regime)));
}

std::string uncertainty_assumption(const hw_profiles::Profile& profile,
                                   const std::string& framework) {
  const hw_profiles::Site& site = profile.site;
  const int runs = site.runs.value_or(0);
  const Accuracy& known = accuracy();
  const bool is_gpu = profile.gpu.compute_capability.has_value();
  const double more = runs == 0 && is_gpu
                          ? known.unscored_variance(framework, profile.gpu.architecture) : 0;
  const double factor = known.step_factor(runs, more);
  const std::string interval =
      fmt::format("{:.0f} % of steps are expected at {:.2f} to {:.2f} times the prediction",
                  100 * known.coverage, 1 / factor, factor);
  if (runs == 0 && site.measured)
    return fmt::format("of your site its links are known ({}): {}; planner calibrate --from learns "
                       "from runs, which narrows this range",
                       profile.lookup("site.measured")->source, interval);
  if (runs == 0) {
    const std::string unscored = is_gpu ? unscored_text(profile, framework) : "";
    return fmt::format("nothing measured at your site is known: {}{}; planner calibrate makes a "
                       "--site FILE that narrows this range",
                       interval, unscored.empty() ? "" : " (" + unscored + ")");
  }
  if (site.pace)
    return fmt::format("calibrated by {} run{} of this site: {}", runs, runs == 1 ? "" : "s",
                       interval);
  const std::string where = profile.lookup("site.runs")->source;
  if (!site.device)
    return fmt::format("calibrated by {}, which say nothing about {} and its links: only the "
                       "factors of the host ({:.2f}) and of the network ({:.2f}) are used",
                       where, profile.gpu.id, site.host.value_or(1), site.network.value_or(1));
  return fmt::format("calibrated by {}: times are multiplied by {:.2f} on the device, {:.2f} on "
                     "the host, {:.2f} on links and {:.2f} on the network; {:.0f} % of steps are "
                     "expected within the stated range",
                     where, *site.device, site.host.value_or(1), site.links.value_or(1),
                     site.network.value_or(1), 100 * known.coverage);
}

std::string what_mtp_adds(const models::ModelSpec& spec, const Job& job) {
  const auto graph = models::build_graph(spec, {.seq_len = job.seq_len});
  PLANNER_CHECK(graph.ok(), "a model that was refused is not planned");
  const double more = models::mtp_step_gemm_flops(*graph) / models::step_gemm_flops(*graph);
  const std::string size = fmt::format(
      "{} of {:.2f} billion parameters, {:.1f} % of the step's products",
      spec.mtp_layers == 1 ? "1 module" : fmt::format("{} modules", spec.mtp_layers),
      static_cast<double>(models::mtp_parameter_count(*graph)) / 1e9, more * 100);
  return job.mtp_layers == 0
             ? fmt::format("multi-token prediction is left out: {}", size)
             : fmt::format("multi-token prediction is trained: {}, on the last pipeline stage; "
                           "--mtp 0 leaves it out", size);
}

void state_masked_share(const Question& question, Plan& plan) {
  constexpr double kWorthTelling = 0.15;
  const double share = question.masked_flops / question.model_flops;
  if (share < kWorthTelling || !question.job.attention.starts_with("flash")) return;
  plan.assumptions.push_back(fmt::format(
      "{}, as is usual: {:.0f} % of the FLOPs counted are masked, and no kernel computes them",
      kMaskedShare, 100 * share));
}

// `names`, then the names of the operators for which `holds` is true: the first few, and how many
// more. Empty where there is none.
template <class Holds>
static std::string operators_that(const models::ModelGraph& graph, Holds&& holds,
                                  std::vector<std::string> names) {
  constexpr std::size_t kNamed = 3;
  models::for_each_segment(graph, [&](const models::Segment& segment) {
    for (const auto v : boost::make_iterator_range(boost::vertices(segment.graph))) {
      const models::Operator& op = segment.graph[v];
      if (holds(op) && std::ranges::find(names, op.name) == names.end()) names.push_back(op.name);
    }
  });
  const std::size_t more = names.size() - std::min(names.size(), kNamed);
  names.resize(names.size() - more);
  return fmt::format("{}{}", fmt::join(names, ", "),
                     more > 0 ? fmt::format(" and {} more", more) : "");
}

// Each micro-batch casts the weights that its products read in 8 bits.
static void state_repeated_casts(Plan& plan) {
  const std::int64_t times = plan.chosen->strategy.grad_accum;
  const std::optional<Recipe> recipe = resolve_recipe(plan.job.recipe, plan.job.precision);
  const bool repeats = stage::casts_by_action(plan.job, plan.profile.framework) && times > 1 &&
                       plan.job.mode != Mode::inference && plan.job.lora_rank == 0;
  if (!repeats || !recipe || !recipe->has_master || plan.job.in_few_bits("params")) return;
  plan.assumptions.push_back(fmt::format(
      "each of {} micro-batches casts the weights to 8 bits again; --fp8-tensors params stores "
      "them so (planned and simulated, not executed)",
      times));
}

// Of products in 8 bits, those that the executor has no kernels for on a GPU.
static std::vector<std::string> missing_f8(const Plan& plan) {
  if (plan.job.fp8_scaling != "tensorwise")
    return {"products in 8 bits with --fp8-scaling " + plan.job.fp8_scaling};
  if (models::has_experts(plan.model)) return {"products of experts in 8 bits"};
  return {};
}

void state_missing_kernels(Plan& plan) {
  const bool own = plan.profile.gpu.compute_capability &&
                   plan.profile.framework.executor_kernels.value_or(false);
  if (!plan.chosen || !own) return;
  const auto graph = models::build_graph(
      plan.model, graph_options(plan.job, plan.chosen->strategy, plan.profile.framework));
  PLANNER_CHECK(graph.ok(), "a model that was refused is not planned");
  std::vector<std::string> whole;      // what no single operator is the reason for
  const bool f8 = stage::casts_by_action(plan.job, plan.profile.framework);
  if (f8) whole = missing_f8(plan);
  const std::string missing = operators_that(
      *graph, [](const models::Operator& op) { return !cost::has_kernels(op); }, whole);
  if (!missing.empty())
    plan.assumptions.push_back(
        fmt::format("{}{}{}its times are predicted as if it had; --framework plans for another",
                    kNoKernels, missing, kNoKernelsWhere));
  if (f8 && whole.empty())
    plan.assumptions.push_back("products in 8 bits of framework native have not run on a GPU yet: "
                               "their kernels are tested on a simulated one");
  if (plan.chosen->strategy.context > 1)
    plan.assumptions.push_back("context parallelism of framework native has not run on a GPU yet: "
                               "it is tested on a simulated one");
  state_repeated_casts(plan);
}

// Updates of what is offloaded run at a GPU's share of the host's memory bandwidth.
static void state_host_bandwidth(Plan& plan) {
  if (!plan.chosen->strategy.offloads("optimizer")) return;
  const cost::Machine machine = machine_for(plan.profile, plan.job, plan.model);
  const core::Bytes moved{1'000'000'000};
  const core::Seconds time =
      cost::offloaded_update_time(moved, static_cast<int>(plan.gpus), machine);
  const double share = static_cast<double>(moved.value()) / time.value();
  if (machine.updates_over_bus) {
    plan.assumptions.push_back(fmt::format(
        "each GPU updates its optimizer in the host's memory, at {:.1f} GB/s over its bus",
        share / 1e9));
    return;
  }
  const bool guessed = is_guessed(plan.profile, "node.host_bandwidth", true);
  plan.assumptions.push_back(fmt::format(
      "each GPU's optimizer update has {:.1f} GB/s of its host's memory bandwidth{}", share / 1e9,
      guessed ? ", which is assumed (--host-bandwidth states yours)" : ""));
}

void state_hosts(const Request& request, Plan& plan) {
  if (!plan.chosen || plan.chosen->strategy.offload.empty()) return;
  const auto is_offload = [](const Earned& e) { return e.part.starts_with("offload="); };
  const auto earned = std::ranges::find_if(plan.earned, is_offload);
  if (!request.constraints.is_pinned("offload") && earned != plan.earned.end())
    plan.assumptions.push_back(
        earned->without ? "memory of the hosts may be used: without it the best plan is slower"
                        : "memory of the hosts may be used: the GPUs alone do not hold the job "
                          "within the risk cap");
  const hw_profiles::Node& node = plan.profile.node;
  const core::Bytes held = plan.chosen->memory.worst.host *
                           std::min<std::int64_t>(plan.gpus_per_node, plan.gpus);
  if (held.value() == 0) return;
  if (!node.host_memory) {
    plan.assumptions.push_back(fmt::format(
        "each host has {} of free memory for what is offloaded: how much this node has is not "
        "known (--host-memory states it)",
        core::to_text(held)));
    return;
  }
  const bool guessed = is_guessed(plan.profile, "node.host_memory", false);
  plan.assumptions.push_back(fmt::format(
      "each host keeps {} of what is offloaded; it has {} of memory{}", core::to_text(held),
      core::to_text(*node.host_memory),
      guessed ? ", which is assumed (--host-memory states yours)" : ""));
  state_host_bandwidth(plan);
}

}  // namespace planner
