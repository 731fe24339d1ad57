#include "cli/plan_options.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "cli/choose.hpp"
#include "cli/gpu_count.hpp"
#include "cli/job_options.hpp"
#include "cli/machine_options.hpp"
#include "cli/number_list.hpp"
#include "cli/output.hpp"
#include "cli/price_option.hpp"
#include "cli/variation_options.hpp"
#include "core/check.hpp"
#include "core/code.hpp"
#include "hw_profiles/detect.hpp"
#include "hw_profiles/load.hpp"
#include "hw_profiles/mixed.hpp"
#include "hw_profiles/names.hpp"
#include "hw_profiles/site.hpp"
#include "models/graph.hpp"
#include "models/layer_kinds.hpp"
#include "models/zoo.hpp"
#include "planner/strategy/job_check.hpp"

namespace cli {
namespace {

constexpr std::int64_t kMaxGpus = std::int64_t{1} << 20;

planner::Constraints read_constraints(const PlanOptions& options, core::Problems& problems) {
  planner::Constraints constraints;
  for (const std::string& text : options.pins)
    core::append(problems, constraints.pin(text));
  for (const std::string& text : options.forbids)
    core::append(problems, constraints.forbid(text));
  return constraints;
}

// "5%" or 0.05, from 0 to `most`.
std::optional<double> fraction(const std::optional<std::string>& text, std::string_view option,
                               double most, core::Problems& problems) {
  if (!text) return std::nullopt;
  const auto value = parse_share(*text);
  if (value && *value <= most) return value;
  problems.push_back({std::string(option), fmt::format("a share from 0 % to {:.0f} %", 100 * most),
                      '"' + *text + '"', "write 5% or 0.05"});
  return std::nullopt;
}

void read_search(const PlanOptions& options, planner::Request& request, core::Problems& problems) {
  choose(options.objective, "--objective", planner::objective_from_name,
         {"time", "memory", "cost", "energy"}, request.objective, problems);
  request.tokens = whole_number(options.tokens, "--tokens", 1, problems);
  request.top = static_cast<int>(
      std::min<std::int64_t>(whole_number(options.top, "--top", 0, problems).value_or(5), 1000));
  request.candidate = static_cast<int>(std::min<std::int64_t>(
      whole_number(options.candidate, "--candidate", 1, problems).value_or(1), 1 << 20));
  request.threads = thread_count(options.threads, problems);
  request.max_risk =
      fraction(options.max_risk, "--max-risk", 1, problems).value_or(request.max_risk);
  request.simpler_within = fraction(options.simpler_within, "--simpler-within", 0.5, problems)
                               .value_or(request.simpler_within);
  request.constraints = read_constraints(options, problems);
  request.robust = read_robust(options.robust, problems);
  if (options.search == "mcmc") request.chain = 1;
  if (options.search && options.search != "mcmc" && options.search != "exact")
    problems.push_back({"--search", "exact or mcmc", '"' + *options.search + '"', ""});
  request.stale = options.allow_stale;
}

planner::Request read_question(const PlanOptions& options, core::Problems& problems) {
  planner::Request request;
  if (options.model) {
    auto model = models::find_model(*options.model, "", options.model_like.value_or(""));
    if (model.ok())
      request.model = std::move(model).value();
    else
      core::append(problems, model);
  } else {
    problems.push_back({"--model", "a model", "none",
                        "name one of `planner models`, a config.json, its folder or a model file"});
  }
  request.gpus = whole_number(options.gpus, "--gpus", 1, problems).value_or(1);
  if (request.gpus > kMaxGpus)
    problems.push_back({"--gpus", fmt::format("at most {}", kMaxGpus), *options.gpus, ""});
  if (!options.gpus) request.assumptions.emplace_back("1 GPU: --gpus was not given");
  return request;
}

}  // namespace

static void add_node_options(OptionSet& options, PlanOptions& p) {
  options.text("--node", p.node, "NODE",
               "a machine that `planner gpus` lists (aws-p5, ...), or a file");
  options.text("--gpus-per-node", p.gpus_per_node, "N",
               "GPUs in one machine (as its profile says)");
  options.text("--site", p.site, "FILE", "calibration of your site, by `planner calibrate`");
  options.text("--internode-gbps", p.internode_gbps, "GBPS",
               "network bandwidth of a node, in Gbit/s");
  options.text("--host-memory", p.host_memory, "SIZE", "host memory of a node, as 512GiB");
  options.text("--host-bandwidth", p.host_bandwidth, "RATE",
               "bandwidth of that memory, as 200GB/s");
}

void add_machine_options(OptionSet& options, PlanOptions& p) {
  options.text("--gpu", p.gpu, "PROFILE", "whose links, by name or file");
  add_node_options(options, p);
}

core::Result<std::optional<hw_profiles::Profile>> machine_of(const PlanOptions& options) {
  core::Problems problems;
  const bool of_gpu = options.node || options.gpus_per_node || options.site ||
                      options.internode_gbps || options.host_memory || options.host_bandwidth;
  if (!options.gpu && !of_gpu) return std::optional<hw_profiles::Profile>{};
  if (!options.gpu)
    return core::Problem{"--gpu", "a GPU beside what is said of its node", "none",
                         "name one of `planner gpus`"};
  auto profile = hw_profiles::find_profile(*options.gpu);
  if (!profile.ok()) return profile.problems();
  set_node(options, *profile, problems);
  if (options.site) set_site(*options.site, *profile, problems);
  if (!problems.empty()) return problems;
  return std::optional(std::move(profile).value());
}

void add_plan_options(OptionSet& options, PlanOptions& p) {
  options.group("Question");
  options.text("--model", p.model, "MODEL",
               "a name of `planner models`, a config.json, its folder, or a model file");
  options.text("--model-like", p.model_like, "TYPE",
               "model_type as which a config.json of an unknown one is read: llama, mixtral");
  options.text("--gpus", p.gpus, "N",
               "number of GPUs (1); 8xH100 also names the GPU, 8xH100+8xA100 several kinds");
  options.text("--gpu", p.gpu, "PROFILE[,...]",
               "which GPU: H100, rtx4090 or a file; more of them are compared");
  add_node_options(options, p);
  options.group("Job");
  options.text("--seq", p.seq, "N", "tokens per sample: 4096 or 4k");
  options.text("--global-batch", p.global_batch, "N", "samples per step");
  options.text("--mode", p.mode, "MODE", "train, finetune, inference");
  options.text("--recipe", p.recipe, "NAME",
               "number types of weights, gradients, optimizer: mixed, fp32, lean, ...");
  options.text("--precision", p.precision, "TYPE",
               "bf16 or fp16, the recipe's short type; fp8 or nvfp4, for layers' products");
  options.text("--fp8-scaling", p.fp8_scaling, "NAME",
               "of fp8: tensorwise, delayed, rowwise, blockwise, mxfp8");
  options.text("--fp8-tensors", p.fp8_tensors, "LIST",
               "also in 8 or 12 bits: params, dispatch, activation_input, attention_output");
  options.text("--optimizer", p.optimizer, "NAME", "adamw, adam, sgd, ...");
  options.text("--lora-rank", p.lora_rank, "R",
               "rank of LoRA adapters; 0 (default) trains all weights");
  options.text("--lora-targets", p.lora_targets, "LIST",
               "matrices with adapters: q,k,v,o,gate,up,down, or all-linear");
  options.text("--quantization", p.quantization, "NAME",
               "of frozen weights: none, int8, nf4, gptq, two_factor");
  options.text("--attention", p.attention, "NAME", "flash2, flash1, fused_softmax, unfused");
  options.text("--framework", p.framework, "NAME",
               "framework whose behaviour is predicted (native)");
  options.text("--expert-imbalance", p.expert_imbalance, "X",
               "rows of the busiest expert rank, by those of an equal share (1)");
  options.text("--clip", p.clip, "NORM",
               "scale gradients down to this norm of all of them (0: no limit)");
  options.text("--loss-scale", p.loss_scale, "X",
               "of fp16: dynamic, none or a number that the loss's gradient is multiplied by "
               "(dynamic)");
  options.text("--mtp", p.mtp, "N",
               "modules for multi-token prediction to train (the model's, where --framework can)");
  options.text("--reduce-dtype", p.reduce_dtype, "TYPE", "number type in which gradients are sent");
  options.group("Search");
  options.text("--tokens", p.tokens, "N",
               "tokens to train on, as 500B: adds time, rent and energy");
  options.texts("--price", p.prices, "GPU=USD", "rent of a GPU for an hour; repeatable");
  options.text("--objective", p.objective, "NAME", "what to minimise: time, memory, cost, energy");
  options.texts("--pin", p.pins, "KEY=VALUE", "fix a key of the strategy; repeatable");
  options.texts("--forbid", p.forbids, "KEY=VALUE", "rule out a value of a key; repeatable");
  options.text("--search", p.search, "HOW",
               "of a graph of operators: exact (default); mcmc: a Markov chain over simulated "
               "divisions, too (--seed)");
  options.flag("--allow-stale", p.allow_stale,
               "also search strategies that train with stale weights");
  options.text("--max-risk", p.max_risk, "SHARE",
               "highest accepted risk of running out of memory (5%)");
  options.text("--simpler-within", p.simpler_within, "SHARE",
               "the simplest strategy within this share of the fastest wins (2%)");
  options.text("--robust", p.robust, "KIND=SHARExX,...",
               "rank by steps with slow ranks: stragglers=1%x1.2,links=0.1%x0.5,quantile=0.95");
  options.text("--top", p.top, "N", "alternatives to keep (5)");
  options.text("--threads", p.threads, "N", "threads for the search (all cores)");
  options.text("--candidate", p.candidate, "N", "choose the N-th best (1)");
}

core::Code command_of(const PlanOptions& typed) {
  PlanOptions options = typed;
  OptionSet set("", "", "");
  add_plan_options(set, options);
  core::Code text = "planner";
  const auto add = [&](std::string_view name, const std::string& value) {
    text += core::code(" {} {}", core::Code::own(name), core::Code::shell(value));
  };
  for (const NamedValue& option : set.named())
    if (*option.value) add(option.name, **option.value);
  for (const std::string& pin : options.pins) add("--pin", pin);
  for (const std::string& forbidden : options.forbids) add("--forbid", forbidden);
  for (const std::string& price : options.prices) add("--price", price);
  if (options.allow_stale) text += " --allow-stale";
  return text;
}

// Modules for multi-token prediction that are asked for; the model has as many then.
void read_mtp(const PlanOptions& options, planner::Request& request, core::Problems& problems) {
  if (!options.mtp) return;
  const auto modules = whole_number(options.mtp, "--mtp", 0, problems);
  if (modules.value_or(0) == 0) return;
  request.job.mtp_layers = *modules;
  const auto refuse = [&](std::string expected) {
    problems.push_back({"--mtp", std::move(expected), *options.mtp, "leave it out"});
  };
  if (request.job.mode == planner::Mode::inference || request.job.lora_rank > 0)
    refuse("0 where not all of the model is trained");
  request.model.mtp_layers = request.job.mtp_layers;
  if (!options.model || request.model.name.empty()) return;
  if (!models::is_transformer(request.model.family))
    return refuse("0 for a model that predicts no tokens");
  for (core::Problem& p : models::check_spec(request.model)) problems.push_back(std::move(p));
}

void check_mtp(const planner::Job& job, const hw_profiles::Framework& framework,
               core::Problems& problems) {
  if (job.mtp_layers > 0 && !framework.trains_mtp)
    problems.push_back({"--mtp",
                        fmt::format("0 for {}, which trains no modules for it", job.framework),
                        fmt::format("{}", job.mtp_layers),
                        "plan with --framework native or megatron_core"});
}

// Where nobody says how many: the model's, in a training of all weights by a framework that can.
std::int64_t usual_mtp(const planner::Request& request) {
  const planner::Job& job = request.job;
  const bool trains_all = job.mode == planner::Mode::train && job.lora_rank == 0;
  return trains_all && request.profile.framework.trains_mtp ? request.model.mtp_layers : 0;
}

// The kinds of GPUs of --gpus, which `typed` is, as one machine.
static core::Result<hw_profiles::Profile> one_cluster(
    const PlanOptions& options, const std::string& typed,
    const std::vector<hw_profiles::Profile>& profiles) {
  std::vector<hw_profiles::CountedProfile> kinds;
  for (std::size_t i = 0; i < profiles.size(); ++i)
    kinds.push_back({options.counts[i], profiles[i]});
  return hw_profiles::mixed(std::move(kinds), options.gpus_per_node.has_value(),
                            "--gpus " + typed);
}

core::Result<std::vector<planner::Request>> requests_of(const PlanOptions& typed) {
  core::Problems problems;
  PlanOptions options = typed;
  core::append(problems, split_counted_gpu(options));
  planner::Request request = read_question(options, problems);
  if (options.framework)
    options.framework = framework_named(*options.framework, request.assumptions);
  request.job = read_job(options, request.model, problems);
  read_mtp(options, request, problems);
  std::vector<hw_profiles::Profile> profiles =
      read_profiles(options, request.assumptions, problems);
  for (hw_profiles::Profile& profile : profiles) {
    set_node(options, profile, problems);
    if (const auto priced = set_price(options.prices, profile); !priced.ok())
      core::append(problems, priced);
    const auto done = hw_profiles::use_framework(profile, request.job.framework, "--framework");
    if (!done.ok()) core::append(problems, done);
    if (done.ok()) check_mtp(request.job, profile.framework, problems);
    if (done.ok() && options.site) set_site(*options.site, profile, problems);
  }
  read_search(options, request, problems);
  if (!problems.empty()) return problems;
  if (!options.counts.empty()) {
    core::Result<hw_profiles::Profile> one = one_cluster(options, *typed.gpus, profiles);
    if (!one.ok()) return one.problems();
    profiles = {std::move(one).value()};
  }
  request.gpu_given = options.gpu.has_value();
  std::vector<planner::Request> requests(profiles.size(), request);
  for (std::size_t i = 0; i < profiles.size(); ++i) {
    planner::Request& one = requests[i];
    one.profile = std::move(profiles[i]);
    if (!options.recipe) one.job.recipe = one.profile.framework.recipe;
    if (!options.mtp) one.job.mtp_layers = usual_mtp(one);
    for (std::string& text : planner::take_usual(one.job, one.profile, !options.precision,
                                                 !options.attention))
      one.assumptions.push_back(std::move(text));
  }
  return requests;
}

}  // namespace cli
