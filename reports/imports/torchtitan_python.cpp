// torchtitan's configuration in Python, which its main branch reads since 2026 (pytorch/torchtitan
// b5bcd76: torchtitan/trainer.py and torchtitan/config/configs.py: names and defaults;
// torchtitan/distributed/activation_checkpoint.py, torchtitan/components/loss.py,
// torchtitan/components/quantization, torchtitan/components/optimizer/optimizer.py).
#include <algorithm>

#include <fmt/format.h>

#include "models/layer_kinds.hpp"
#include "models/zoo.hpp"
#include "reports/imports/torchtitan.hpp"

namespace reports::imports {
namespace {

// The model by torchtitan's module and size, unless the user names one.
void read_main_model(Facts& f, std::string_view module, const std::string& where) {
  Settings& s = f.settings;
  if (!f.model.empty()) {
    if (s.has("model_spec.flavor"))
      s.leave("model_spec.flavor", "--model says which model is meant");
    return;
  }
  const auto flavor = s.text("model_spec.flavor", "--model");
  if (module.empty())
    return f.problems.push_back({where,
                                 "torchtitan's module that the model is of, by an import or "
                                 "by the folder of the file",
                                 "none", "name the model with --model"});
  name_titan_model(f, module, flavor.value_or("without a size"), where);
}

void read_main_modules(Facts& f, std::string_view module) {
  const auto layers = f.settings.count("model_spec.num_mtp_layers", "--mtp", 0);
  if (module == "deepseek_v3") f.mtp_layers = layers.value_or(0);
}

void read_main_degrees(Facts& f) {
  Settings& s = f.settings;
  planner::Strategy& out = f.strategy;
  read_titan_degrees(f, "compile.enable_async_tensor_parallel");
  constexpr std::string_view kSequence = "parallelism.enable_sequence_parallel";
  if (s.has(kSequence) && !s.flag(kSequence, "sequence_parallel")) out.sequence_parallel = false;
  if (out.context > 1)
    f.notes.emplace_back(
        "what torchtitan's context ranks send is not known here: the plan takes "
        "the best method for it (context_method)");
  // Experts are divided over expert ranks alone, which tensor ranks are among.
  if (out.tensor > 1 && out.expert > 1) {
    out.expert_tensor = 1;
    f.say("expert_tensor");
  }
  const auto sender = s.text("model_spec.moe_comm_backend", "expert_dispatch");
  if (!sender) return;
  if (sender == "deepep" || sender == "hybridep") {
    out.expert_dispatch = planner::ExpertDispatch::deepep;
    if (out.expert > 1) f.say("expert_dispatch");
  } else if (sender != "standard") {
    s.leave("model_spec.moe_comm_backend", "a way between expert ranks that is not planned");
  }
}

// Whether the pipeline is filled and emptied several times in a step, and the plan does it once.
void check_refills(Facts& f, const Setting& step, std::int64_t pieces, const Given& given) {
  const planner::Strategy& s = f.strategy;
  const std::optional<std::int64_t> gpus = given.gpus ? given.gpus : f.gpus;
  const std::int64_t model_ranks = s.tensor * s.pipeline * s.context;
  if (!gpus || !f.global_batch || *gpus % model_ranks != 0) return;
  const std::int64_t at_once = s.micro_batch * pieces * (*gpus / model_ranks);
  if (*f.global_batch % at_once != 0)
    return f.settings.problem(
        step, fmt::format("tokens of a multiple of {} samples, num_pp_microbatches {} x "
                          "micro_batch {} x data {}",
                          at_once, pieces, s.micro_batch, *gpus / model_ranks));
  if (*f.global_batch > at_once)
    f.settings.leave(
        "parallelism.num_pp_microbatches",
        fmt::format("torchtitan runs the pipeline {} times in a step with {} micro-batches each; "
                    "the plan runs it once with all of them",
                    *f.global_batch / at_once, pieces));
}

// Release 0.3 has batches in samples, the main branch in tokens.
bool in_samples(const Settings& s) {
  return s.has("training.local_batch_size") || s.has("training.global_batch_size") ||
         s.has("training.seq_len") || s.has("parallelism.pipeline_parallel_microbatch_size");
}

void read_main_batch(Facts& f, const Given& given) {
  constexpr std::string_view kTokens = "training.num_tokens_per_microbatch_per_dp_rank";
  constexpr std::string_view kStep = "training.num_tokens_per_train_step";
  Settings& s = f.settings;
  const std::int64_t length = s.count("training.max_context_length", "--seq").value_or(2048);
  const std::int64_t tokens = s.count(kTokens, "micro_batch").value_or(16384);
  const std::int64_t pieces = s.count("parallelism.num_pp_microbatches", "grad_accum").value_or(1);
  f.seq_len = length;
  f.strategy.micro_batch = tokens / length;
  f.say("micro_batch");
  if (tokens % length != 0) {
    const Setting* const own = s.take(kTokens, "micro_batch");
    const Setting by_default{std::string(kTokens), {std::to_string(tokens)}, true, true, "default"};
    return s.problem(own != nullptr ? *own : by_default,
                     fmt::format("a multiple of {}, training.max_context_length", length),
                     "a plan is of whole samples: say another length with --var "
                     "training.max_context_length=N");
  }
  const Setting* const step = s.take(kStep, "--global-batch");
  if (step != nullptr && step->value() != "-1") {
    const auto all = s.count(kStep, "--global-batch");
    if (!all) return;
    if (*all % length != 0)
      return s.problem(*step, fmt::format("a multiple of {}, training.max_context_length", length));
    f.global_batch = *all / length;
  }
  const bool staged = f.strategy.pipeline > 1;
  if (!f.global_batch) f.grad_accum = staged ? pieces : 1;
  if (staged && f.global_batch && f.problems.empty()) check_refills(f, *step, pieces, given);
}

void read_main_recomputation(Facts& f) {
  using planner::Checkpoint;
  const auto policy = f.settings
                          .one_of("activation_checkpoint", "checkpoint",
                                  {"SelectiveAC.Config", "FullAC.Config", "MemoryBudgetAC.Config",
                                   "None", "selective", "full", "memory-budget", "none"})
                          .value_or("selective");
  if (policy.starts_with("Memory") || policy.starts_with("memory")) {
    f.settings.leave("activation_checkpoint",
                     "the compiler decides what is computed again: no "
                     "plan says that");
    return;
  }
  f.say("checkpoint");
  const bool full = policy.starts_with("Full") || policy == "full";
  f.strategy.checkpoint = policy == "None" || policy == "none" ? Checkpoint::none
                          : full                               ? Checkpoint::every_k
                                                               : Checkpoint::selective_op;
  f.strategy.checkpoint_every = full ? 1 : 0;
}

// What converters make of the matrices: the scaling of 8-bit products, "" where there are none.
std::string read_main_converters(Facts& f) {
  Settings& s = f.settings;
  const Setting* const converters = s.take("model_spec.converters", "--precision");
  if (converters == nullptr) return "";
  std::string scaling, other;
  bool linear = false, experts = false;
  for (const std::string& word : converters->words) {
    const bool mx = word.starts_with("MXFP8");
    const bool of_linear = word.ends_with("8LinearConverter.Config");
    if (!of_linear && word != "Float8GroupedExpertsConverter.Config" &&
        word != "MXFP8GroupedExpertsConverter.Config") {
      other += (other.empty() ? "" : ", ") + word;
      continue;
    }
    linear = linear || of_linear;
    experts = experts || !of_linear;
    scaling = mx ? "mxfp8" : "rowwise";
  }
  const auto recipe = s.one_of("model_spec.converters.Float8LinearConverter.recipe_name",
                               "--fp8-scaling", {"rowwise", "rowwise_with_gw_hp"});
  if (recipe == "rowwise_with_gw_hp")
    s.leave("model_spec.converters.Float8LinearConverter.recipe_name",
            "products of weights' gradients stay in 16 bits: the plan counts them in 8");
  const auto model = models::find_model(f.model);
  const bool mixture = model.ok() && models::has_experts(*model);
  if (!scaling.empty() && (!linear || (mixture && !experts)))
    s.leave_default("model_spec.converters", converters->value(),
                    fmt::format("products {} experts stay in 16 bits: the plan counts all in 8",
                                linear ? "of" : "outside of"));
  constexpr const char* kOther = "what these converters change in the model is not planned";
  if (!other.empty() && scaling.empty())
    s.leave("model_spec.converters", kOther);
  else if (!other.empty())
    s.leave_default("model_spec.converters", other, kOther);
  return scaling;
}

void read_main_loss(Facts& f) {
  Settings& s = f.settings;
  const auto loss = s.text("loss", "loss_chunks");
  const auto chunks = s.count("loss.num_chunks", "loss_chunks");
  constexpr std::int64_t kOwnDefault = 8;
  if (loss == "ChunkedLossWrapper.Config") {
    f.strategy.loss_chunks = chunks.value_or(kOwnDefault);
  } else if (loss && loss != "CrossEntropyLoss.Config" && loss != "MTPLoss.Config") {
    s.leave("loss", "a loss of another kind: the plan counts on cross entropy");
  }
  f.say("loss_chunks");
}

void read_main_optimizer(Facts& f) {
  Settings& s = f.settings;
  constexpr std::string_view kName = "optimizer.param_groups.ParamGroupConfig.optimizer_name";
  const auto made =
      s.one_of("optimizer", "--optimizer", {"default_adamw", "OptimizersContainer.Config"});
  std::vector<std::string> names;
  for (const Setting& setting : s.all())
    if (setting.key == kName) names.push_back(setting.value());
  const auto groups = s.text("optimizer.param_groups", "--optimizer");
  if (names.empty() || made == "default_adamw") return f.ask("--optimizer", "adamw");
  s.one_of(kName, "--optimizer", {"Adam", "AdamW"});
  const auto all = [&](std::string_view name) { return std::ranges::count(names, name); };
  if (all("Adam") + all("AdamW") != std::ssize(names))
    s.leave(kName, "an optimizer that is not planned; the plan counts on AdamW for all weights");
  f.ask("--optimizer", all("Adam") == std::ssize(names) ? "adam" : "adamw");
}

}  // namespace

void read_torchtitan_python(Facts& f, const Given& given, std::string_view module,
                            const std::string& where) {
  Settings& s = f.settings;
  f.framework = "fsdp2";
  read_main_model(f, module, where);
  read_main_modules(f, module);
  read_main_degrees(f);
  read_titan_sharding(f, given);
  read_main_loss(f);
  read_titan_stages(f);
  if (in_samples(s)) read_titan_batch(f);
  else read_main_batch(f, given);
  read_main_recomputation(f);
  read_titan_precision(f, read_main_converters(f));
  read_main_optimizer(f);
  leave_titan_compiler(f, {"compile.enable"});
  if (!s.has("loss")) f.notes.emplace_back("the file names no loss: cross entropy is planned");
  if (!s.has("optimizer")) f.notes.emplace_back("the file names no optimizer: AdamW is planned");
  constexpr std::string_view kGraphs = "training.disable_cuda_graphs";
  const bool disabled = s.flag(kGraphs, "nothing: the plan counts on no CUDA graphs either");
  if (!disabled && f.strategy.pipeline == 1) {
    constexpr const char* kWhy = "CUDA graphs start kernels in less time than planned";
    if (s.has(kGraphs))
      s.leave(kGraphs, kWhy);
    else
      s.leave_default(std::string(kGraphs), "False", kWhy);
  }
}

}  // namespace reports::imports
