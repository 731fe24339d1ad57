// axolotl (0.18) and LLaMA-Factory (August 2026): trainings of a model of Hugging Face by the
// Trainer of transformers, of all parameters or of adapters. ZeRO is DeepSpeed's, whose section is
// part of the file: both take it as a mapping where a path may stand.
#include <algorithm>
#include <array>

#include <fmt/ranges.h>

#include "core/json.hpp"
#include "models/layer_kinds.hpp"
#include "reports/emit/parts.hpp"

namespace reports::emit {
namespace {

using core::Code;
using core::code;

using planner::Checkpoint;
using planner::OptimizerKind;
using planner::Sharding;

// What stands for texts that only the user knows.
constexpr std::string_view kModel = "REPLACE_WITH_MODEL";
constexpr std::string_view kDataset = "REPLACE_WITH_DATASET";
constexpr std::string_view kFormat = "REPLACE_WITH_FORMAT";

// As TrainingArguments call it; empty: none of theirs does what is planned.
std::string_view trainer_optimizer(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::adamw: return "adamw_torch";
    case OptimizerKind::adam8bit: return "adamw_bnb_8bit";
    case OptimizerKind::sgd: return "sgd";
    case OptimizerKind::adagrad: return "adagrad";
    case OptimizerKind::rmsprop: return "rmsprop";
    default: return "";
  }
}

// Matrices of Llama's layers, as peft finds them.
std::string module_of(std::string_view target) { return fmt::format("{}_proj", target); }

bool has_llama_names(models::Family family) {
  using enum models::Family;
  return family == llama || family == qwen2 || family == qwen3;
}

bool shards(const Question& q) { return q.s.sharding != Sharding::none; }
bool has_adapters(const Question& q) { return q.job().lora_rank > 0; }
bool is_16_bit(const Question& q) { return q.recipe.compute != core::DType::f32; }
// One GPU has nothing to shard, but DeepSpeed's optimizer keeps the copy in f32 that is planned.
bool keeps_copy_alone(const Question& q) {
  return !shards(q) && q.s.data_ranks() == 1 && q.recipe.has_master && !has_adapters(q);
}

// What neither of them can be told.
void check_fine_tuning(Question& q, std::string_view framework) {
  const planner::Strategy& s = q.s;
  const planner::Job& job = q.job();
  q.require_common(framework, s.offloads("params") ? "params" : "optimizer", true);
  for (const auto& [key, degree] : {std::pair{"tensor", s.tensor}, {"pipeline", s.pipeline},
                                    {"context", s.context}, {"expert", s.expert}})
    q.require(degree == 1, fmt::format("{}={}", key, degree),
              "data ranks that each run the whole model",
              fmt::format("plan with --pin {}=1", key));
  const bool whole = s.checkpoint == Checkpoint::every_k && s.checkpoint_every == 1;
  q.require(s.checkpoint == Checkpoint::none || whole,
            fmt::format("checkpoint={}", name(s.checkpoint)),
            "checkpoint=none, or every_k(1): the Trainer recomputes all layers, or none",
            "plan with --pin checkpoint='none|every_k(1)'");
  q.require_liger();
  q.require(!shards(q) || s.shard_group == s.data_ranks() || s.sharding == Sharding::zero3,
            fmt::format("shard_group={}", s.shard_group), "all data ranks in one group", "");
  q.require(s.offload.empty() || shards(q), "offload without sharding",
            "offload with sharding=zero2 or zero3: DeepSpeed offloads what it divides",
            "plan with --pin sharding=zero2");
  q.require_wide_products();
  q.require(job.mtp_layers == 0, fmt::format("mtp={}", job.mtp_layers), "mtp=0",
            "plan with --mtp 0");
  q.require(!trainer_optimizer(job.optimizer).empty(),
            fmt::format("optimizer={}", planner::optimizer(job.optimizer).name),
            "adamw, adam8bit, sgd, adagrad or rmsprop", "plan with --optimizer adamw");
  q.require(job.attention == "flash2" || job.attention == "unfused", "attention=" + job.attention,
            "attention=flash2 or unfused (eager)", "plan with --attention flash2");
  q.require(!job.reduce_dtype || shards(q), "reduce_dtype without sharding",
            "gradients as they are: the Trainer has no word for another type",
            "plan without --reduce-dtype");
  if (!shards(q)) q.require_dynamic_loss_scale();
  q.require(has_adapters(q) || job.quantization == "none", "quantization=" + job.quantization,
            "quantization with adapters: codes are not trained", "plan with --lora-rank");
  q.require(job.quantization == "none" || job.quantization == "int8" || job.quantization == "nf4",
            "quantization=" + job.quantization, "none, int8 or nf4",
            "plan with --quantization nf4");
  q.require(job.quantization == "none" || s.sharding != Sharding::zero3,
            "zero3 of quantised weights",
            "another sharding: codes of bitsandbytes are not gathered",
            "plan with --forbid sharding=zero3");
  q.require(!has_adapters(q) || has_llama_names(q.model().family),
            fmt::format("adapters of family {}", models::name(q.model().family)),
            "families whose matrices are called as Llama's", "");
  // Without DeepSpeed the weights that are trained have no copy in f32 beside them.
  q.require(has_adapters(q) || shards(q) || keeps_copy_alone(q) || !is_16_bit(q) ||
                q.recipe.name == "pure_bf16",
            fmt::format("recipe={} without sharding", q.recipe.name),
            "pure_bf16 or fp32, or DeepSpeed's ZeRO, which keeps a copy in f32",
            "plan with --pin sharding=zero1, or --recipe pure_bf16");
  q.require(!shards(q) || q.recipe.name != "pure_bf16", "recipe=pure_bf16 with sharding",
            "DeepSpeed's optimizer in f32", "plan with --recipe mixed");
}

// format: what the framework calls how the data are turned into text.
std::vector<std::string> notes_of(const Question& q, std::string_view format) {
  std::vector<std::string> all{
      fmt::format("fill in {}: the model's name or folder, whose sizes are those of {}", kModel,
                  q.model().name),
      fmt::format("fill in {}: your data, and {}: {}", kDataset, kFormat, format),
      "the learning rate is 1e-4, and 20 steps are run: give your own",
      "samples are packed to the sequence length, as the plan counts their tokens"};
  if (has_adapters(q))
    all.push_back(fmt::format("adapters: weights in f32, lora_alpha {} (twice the rank), dropout "
                              "0.05, whose passes the prediction counts", 2 * q.job().lora_rank));
  if (q.s.data > 1 && !shards(q) && !q.s.overlap)
    all.push_back("overlap=false: DDP sums gradients behind the backward pass all the same");
  note_liger(q, all);
  note_deepspeed_groups(q, all);
  if (models::has_experts(q.model()))
    all.push_back("experts: the model's own code routes tokens, and runs experts one by one");
  return all;
}

// A YAML mapping; values are written as JSON, which YAML includes.
class Yaml {
 public:
  explicit Yaml(const Question& q) { text_ = code("# {}\n", q.title()); }
  void set(const Code& key, const core::Json& value) {
    // What continues a value is to the right of its key.
    const Code lines = Code::json(value, value.size() > 0 ? 2 : 0).indented(2);
    text_ += code("{}:{}\n", key, Code::own(lines.text().substr(1)));
  }
  // A number as it stands: readers of YAML 1.1 take 1e-04 for a text.
  void set_text(const Code& key, const Code& value) { text_ += code("{}: {}\n", key, value); }
  void set_if(bool is, const Code& key, const core::Json& value) {
    if (is) set(key, value);
  }
  Code text() && { return std::move(text_); }

 private:
  Code text_;
};

// Keys that are TrainingArguments' in both.
void add_training(Yaml& yaml, const Question& q) {
  const planner::Job& job = q.job();
  yaml.set("gradient_accumulation_steps", q.s.grad_accum);
  yaml.set_text("learning_rate", "0.0001");
  yaml.set("max_steps", 20);
  yaml.set("logging_steps", 1);
  yaml.set_text("max_grad_norm", code("{:f}", job.clip));
  yaml.set("bf16", q.recipe.compute == core::DType::bf16);
  yaml.set("fp16", q.recipe.compute == core::DType::f16);
  yaml.set_if(job.compile, "torch_compile", true);
  yaml.set_if(q.s.data > 1 && !shards(q), "ddp_bucket_cap_mb",
              std::max<std::int64_t>(q.s.bucket_bytes >> 20, 1));
  yaml.set("output_dir", "outputs");
  planner::Strategy divided = q.s;
  if (keeps_copy_alone(q)) divided.sharding = Sharding::zero1;
  if (divided.sharding != Sharding::none || q.s.offloads("optimizer"))
    yaml.set("deepspeed", deepspeed_section({q.plan, divided, q.recipe, {}}));
}

}  // namespace

core::Result<Written> axolotl(Question& q) {
  check_fine_tuning(q, "axolotl");
  if (!q.problems.empty()) return q.problems;
  const planner::Job& job = q.job();
  Yaml yaml(q);
  yaml.set("base_model", kModel);
  yaml.set("datasets", core::Json::array({core::Json::object({{"path", kDataset},
                                                             {"type", kFormat}})}));
  yaml.set("sequence_len", job.seq_len);
  yaml.set("sample_packing", true);
  yaml.set("pad_to_sequence_len", true);
  yaml.set("micro_batch_size", q.s.micro_batch);
  yaml.set("optimizer", trainer_optimizer(job.optimizer));
  yaml.set("attn_implementation", job.attention == "flash2" ? "flash_attention_2" : "eager");
  yaml.set("gradient_checkpointing", q.s.checkpoint != Checkpoint::none);
  yaml.set_if(q.s.loss_chunks > 1, "plugins",
              core::Json::array({"axolotl.integrations.liger.LigerPlugin"}));
  yaml.set_if(q.s.loss_chunks > 1, "liger_fused_linear_cross_entropy", true);
  if (has_adapters(q)) {
    yaml.set("adapter", job.quantization == "nf4" ? "qlora" : "lora");
    yaml.set("load_in_4bit", job.quantization == "nf4");
    yaml.set("load_in_8bit", job.quantization == "int8");
    yaml.set("lora_r", job.lora_rank);
    yaml.set("lora_alpha", 2 * job.lora_rank);
    yaml.set("lora_dropout", 0.05);
    core::Json modules = core::Json::array();
    for (const std::string& target : job.lora_targets) modules.push_back(module_of(target));
    yaml.set("lora_target_modules", modules);
  }
  add_training(yaml, q);
  return Written{.text = std::move(yaml).text(),
                 .notes = notes_of(q, "its dataset type (alpaca, chat_template, ...)"),
                 .setup = {},
                 .program = R"(-m axolotl.cli.train "$config" "$@")",
                 .file_name = "axolotl.yaml",
                 .place = "the folder of your data",
                 .framework = "axolotl"};
}

core::Result<Written> llama_factory(Question& q) {
  check_fine_tuning(q, "llama_factory");
  q.require(q.recipe.name != "pure_bf16" || !has_adapters(q), "recipe=pure_bf16 with adapters",
            "adapters in f32", "plan with --recipe mixed");
  if (!q.problems.empty()) return q.problems;
  const planner::Job& job = q.job();
  std::vector<std::string> notes = notes_of(q, "the template of your model (llama3, ...)");
  if (q.s.loss_chunks > 1)
    notes.emplace_back("enable_liger_kernel: norms, rotary embeddings and SwiGLU become Liger's, "
                       "too, which take less time and memory than planned");
  Yaml yaml(q);
  yaml.set("model_name_or_path", kModel);
  yaml.set("stage", "sft");
  yaml.set("do_train", true);
  yaml.set("dataset", kDataset);
  yaml.set("template", kFormat);
  yaml.set("cutoff_len", job.seq_len);
  yaml.set("packing", true);
  yaml.set("per_device_train_batch_size", q.s.micro_batch);
  yaml.set("optim", trainer_optimizer(job.optimizer));
  yaml.set("flash_attn", job.attention == "flash2" ? "fa2" : "disabled");
  yaml.set("disable_gradient_checkpointing", q.s.checkpoint == Checkpoint::none);
  yaml.set_if(q.s.loss_chunks > 1, "enable_liger_kernel", true);
  yaml.set("finetuning_type", has_adapters(q) ? "lora" : "full");
  yaml.set_if(q.recipe.name == "pure_bf16", "pure_bf16", true);
  if (has_adapters(q)) {
    std::vector<std::string> modules;
    for (const std::string& target : job.lora_targets) modules.push_back(module_of(target));
    yaml.set("lora_rank", job.lora_rank);
    yaml.set("lora_alpha", 2 * job.lora_rank);
    yaml.set("lora_dropout", 0.05);
    yaml.set("lora_target", fmt::format("{}", fmt::join(modules, ",")));
    yaml.set_if(job.quantization == "nf4", "quantization_bit", 4);
    yaml.set_if(job.quantization == "int8", "quantization_bit", 8);
  }
  add_training(yaml, q);
  return Written{.text = std::move(yaml).text(),
                 .notes = std::move(notes),
                 .setup = {},
                 .program = R"(-m llamafactory.launcher "$config" "$@")",
                 .file_name = "llama_factory.yaml",
                 .place = "the folder of LLaMA-Factory's data",
                 .framework = "LLaMA-Factory"};
}

}  // namespace reports::emit
