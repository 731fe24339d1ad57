// DeepSpeed's JSON (deepspeed.ai/docs/config-json), accelerate's YAML (huggingface/accelerate
// 24d8b63, src/accelerate/utils/dataclasses.py) and TrainingArguments of transformers, which may
// all describe one run: what one leaves open ("auto", or nothing) another says.
#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "reports/imports/facts.hpp"

namespace reports::imports {
namespace {

constexpr std::string_view kAuto = "auto";

std::string lower_case(std::string text) {
  for (char& c : text)
    c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

// What transformers fills in from TrainingArguments is said there.
bool is_open(const Settings& s, std::string_view key) {
  return std::ranges::any_of(s.all(), [&](const Setting& one) {
    return one.key == key && one.value() == kAuto;
  });
}

// The number that several files may state, who must agree.
std::optional<std::int64_t> agreed(Facts& f, std::initializer_list<std::string_view> keys,
                                   std::string_view as) {
  std::optional<std::int64_t> number;
  for (const std::string_view key : keys) {
    if (is_open(f.settings, key)) {
      f.settings.take(key, "what the other files say");
      continue;
    }
    const auto here = f.settings.count(key, as);
    if (number && here && *number != *here)
      f.problems.push_back({std::string(key), fmt::format("{}, as another file says", *number),
                            std::to_string(*here), "make them agree, or import one of them"});
    if (!number) number = here;
  }
  return number;
}

bool any_flag(Facts& f, std::initializer_list<std::string_view> keys, std::string_view as) {
  bool any = false;
  for (const std::string_view key : keys) {
    if (is_open(f.settings, key)) f.settings.take(key, "what the other files say");
    else any = f.settings.flag(key, as) || any;
  }
  return any;
}

void read_batches(Facts& f) {
  const auto micro = agreed(f, {"deepspeed:train_micro_batch_size_per_gpu",
                                "trainer:per_device_train_batch_size"}, "micro_batch");
  const auto accum = agreed(f, {"deepspeed:gradient_accumulation_steps",
                                "accelerate:gradient_accumulation_steps",
                                "accelerate:deepspeed_config.gradient_accumulation_steps",
                                "trainer:gradient_accumulation_steps"}, "grad_accum");
  const auto batch = agreed(f, {"deepspeed:train_batch_size"}, "--global-batch");
  const auto ranks = agreed(f, {"accelerate:num_processes"}, "--gpus");
  f.seq_len = agreed(f, {"trainer:max_seq_length", "trainer:max_length"}, "--seq");
  f.global_batch = batch;
  f.grad_accum = accum;
  if (!accum && !batch) f.grad_accum = 1;
  if (micro) f.strategy.micro_batch = *micro;
  if (micro) f.say("micro_batch");
  f.gpus = ranks;
  if (!ranks && micro && batch) {
    const std::int64_t at_once = *micro * accum.value_or(1);
    if (*batch % at_once == 0) f.gpus = *batch / at_once;
  }
  if (!micro)
    f.notes.emplace_back("the files do not say the micro-batch: the planner chooses it, unless you "
                         "--pin micro_batch=N");
}

// Stage of ZeRO where DeepSpeed runs it, from its own file, accelerate's, or Trainer's.
bool read_zero(Facts& f) {
  Settings& s = f.settings;
  std::optional<std::int64_t> stage;
  for (const char* key : {"deepspeed:zero_optimization.stage",
                          "accelerate:deepspeed_config.zero_stage"})
    if (const auto here = s.count(key, "sharding", 0)) stage = here;
  if (!stage) return false;
  if (*stage > 3) {
    f.problems.push_back({"zero_optimization.stage", "0 to 3", std::to_string(*stage), ""});
    return true;
  }
  f.strategy.sharding = static_cast<planner::Sharding>(*stage);
  f.say("sharding");
  if (const auto group = s.count("deepspeed:zero_optimization.zero_hpz_partition_size", "data"))
    if (*stage == 3 && *group > 1) f.shard_ranks = group;
  f.strategy.overlap = s.flag("deepspeed:zero_optimization.overlap_comm", "overlap") || *stage == 3;
  if (s.has("deepspeed:zero_optimization.overlap_comm")) f.say("overlap");
  if (is_open(s, "deepspeed:zero_optimization.reduce_bucket_size"))
    s.leave("deepspeed:zero_optimization.reduce_bucket_size",
            "transformers derives it from the model");
  else if (const auto bucket =
               s.count("deepspeed:zero_optimization.reduce_bucket_size", "bucket_bytes")) {
    f.strategy.bucket_bytes = 2 * *bucket;
    f.say("bucket_bytes");
  }
  f.strategy.offload.clear();
  const auto on_host = [&](std::initializer_list<std::string_view> keys) {
    bool is = false;
    for (const std::string_view key : keys) {
      const auto device = s.text(key, "offload");
      if (device == "nvme") s.leave(key, "planned in the host's memory, not on its disks");
      is = is || (device && *device != "none");
    }
    return is;
  };
  const bool optimizer = on_host({"deepspeed:zero_optimization.offload_optimizer.device",
                                  "accelerate:deepspeed_config.offload_optimizer_device"});
  const bool params = on_host({"deepspeed:zero_optimization.offload_param.device",
                               "accelerate:deepspeed_config.offload_param_device"});
  if (params) f.strategy.offload = {"params"};
  else if (optimizer) f.strategy.offload = {"optimizer"};
  f.say("offload");
  return true;
}

// Sharding of FullyShardedDataParallel, by name or number (FULL_SHARD is 1).
bool read_fsdp(Facts& f) {
  Settings& s = f.settings;
  const auto kind = s.text("accelerate:distributed_type", "--framework");
  const auto trainer = s.text("trainer:fsdp", "sharding");
  const auto version = s.count("accelerate:fsdp_config.fsdp_version", "--framework");
  const auto named = s.text("accelerate:fsdp_config.fsdp_sharding_strategy", "sharding");
  const Setting* const reshard =
      s.take("accelerate:fsdp_config.fsdp_reshard_after_forward", "sharding");
  const bool offload = any_flag(f, {"accelerate:fsdp_config.fsdp_offload_params"}, "offload");
  const bool recomputes =
      any_flag(f, {"accelerate:fsdp_config.fsdp_activation_checkpointing"}, "checkpoint");
  const bool by_trainer = trainer && !trainer->empty();
  if (kind && *kind != "FSDP" && !by_trainer) {
    if (*kind != "MULTI_GPU" && *kind != "NO" && *kind != "DEEPSPEED")
      s.leave("accelerate:distributed_type", "FSDP, DEEPSPEED and MULTI_GPU are planned");
    return false;
  }
  if (!kind && !by_trainer) return false;
  std::string how = lower_case(named ? *named : reshard != nullptr ? reshard->value()
                                     : by_trainer                  ? *trainer
                                                                   : "full_shard");
  const auto has = [&](std::string_view word) { return how.find(word) != std::string::npos; };
  using planner::Sharding;
  const bool none = how == "3" || has("no_shard");
  const bool kept = how == "2" || how == "5" || has("shard_grad_op") || has("zero2") ||
                    how == "false";
  const bool hybrid = how == "4" || how == "5" || has("hybrid");
  f.strategy.sharding = none ? Sharding::none : kept ? Sharding::zero2 : Sharding::zero3;
  f.say("sharding");
  if (hybrid)
    f.notes.emplace_back("hybrid sharding divides within a node: say how many GPUs a node has with "
                         "--pin shard_group=N");
  f.strategy.offload.clear();
  if (offload || (by_trainer && trainer->find("offload") != std::string::npos))
    f.strategy.offload = {"params"};
  f.say("offload");
  if (recomputes) {
    f.strategy.checkpoint = planner::Checkpoint::every_k;
    f.strategy.checkpoint_every = 1;
    f.say("checkpoint");
  }
  f.framework = version == 2 ? "fsdp2" : "fsdp1";
  const auto group = s.count("accelerate:parallelism_config.parallelism_config_dp_shard_size",
                             "shard_group");
  if (group) f.shard_ranks = group;
  s.count("accelerate:parallelism_config.parallelism_config_dp_replicate_size", "data");
  return true;
}

void read_types(Facts& f, bool deepspeed) {
  Settings& s = f.settings;
  const auto mixed = s.text("accelerate:mixed_precision", "--precision");
  const bool b16 = any_flag(f, {"deepspeed:bf16.enabled", "deepspeed:bfloat16.enabled",
                                "trainer:bf16"}, "--precision") || mixed == "bf16";
  const bool f16 = any_flag(f, {"deepspeed:fp16.enabled", "trainer:fp16"}, "--precision") ||
                   mixed == "fp16";
  const bool f8 = mixed == "fp8";
  if (b16 && f16)
    f.problems.push_back({"precision", "bf16 or fp16", "both of them", "leave one of them on"});
  if (!b16 && !f16 && !f8) f.ask("--recipe", "fp32");
  else f.ask("--precision", f8 ? "fp8" : f16 ? "fp16" : "bf16");
  // DeepSpeed's 0 is a dynamic loss scale.
  const auto scale = s.number("deepspeed:fp16.loss_scale", "--loss-scale");
  if (f16 && scale && *scale > 0) f.ask("--loss-scale", fmt::format("{}", *scale));
  // FSDP2 under accelerate sums gradients in the type that it computes in (set_mixed_precision).
  if (f.framework == "fsdp2" && mixed && (b16 || f16))
    f.ask("--reduce-dtype", f16 ? "f16" : "bf16");
  const auto sent = s.text("deepspeed:communication_data_type", "--reduce-dtype");
  if (sent && deepspeed)
    f.ask("--reduce-dtype", *sent == "fp32" ? "f32" : *sent == "fp16" ? "f16" : "bf16");
}

void read_optimizer(Facts& f) {
  Settings& s = f.settings;
  const auto own = s.text("deepspeed:optimizer.type", "--optimizer");
  const auto trainer = s.text("trainer:optim", "--optimizer");
  const std::string name = lower_case(own ? *own : trainer.value_or("adamw"));
  if (name.find("8bit") != std::string::npos && name.find("adam") != std::string::npos)
    return f.ask("--optimizer", "adam8bit");
  for (const char* known : {"adamw", "adam", "sgd", "adagrad", "rmsprop"})
    if (name.starts_with(known) || name.starts_with(std::string("fused") + known))
      return f.ask("--optimizer", known);
  s.leave(own ? "deepspeed:optimizer.type" : "trainer:optim",
          "an optimizer that is not planned here: adamw stands");
  f.ask("--optimizer", "adamw");
}

}  // namespace

void read_hugging_face(Facts& f) {
  Settings& s = f.settings;
  const auto from = [&](std::string_view prefix) {
    return std::ranges::any_of(s.all(), [&](const Setting& one) {
      return one.key.starts_with(prefix);
    });
  };
  const bool trainer = from("trainer:");
  for (const char* key : {"tensor", "pipeline", "context"}) f.say(key);
  read_batches(f);
  const bool fsdp = read_fsdp(f);
  const bool zero = !fsdp && read_zero(f);
  if (!fsdp && !zero) {
    f.strategy.sharding = planner::Sharding::none;  // replicas
    f.say("sharding");
  }
  f.framework = trainer ? "trainer" : fsdp ? f.framework : zero ? "deepspeed" : "generic";
  read_types(f, !fsdp);
  read_optimizer(f);
  read_clip(f, {"deepspeed:gradient_clipping", "accelerate:deepspeed_config.gradient_clipping",
                "trainer:max_grad_norm"}, trainer ? 1 : 0);
  const bool recomputes = any_flag(f, {"trainer:gradient_checkpointing"}, "checkpoint");
  if (recomputes) {
    f.strategy.checkpoint = planner::Checkpoint::every_k;
    f.strategy.checkpoint_every = 1;
  }
  if (trainer) f.say("checkpoint");
  if (!trainer && !f.says("checkpoint"))
    f.notes.emplace_back("whether the model recomputes is not in the files: --pin checkpoint=none, "
                         "or checkpoint='every_k(1)' for gradient_checkpointing_enable()");
  if (any_flag(f, {"trainer:torch_compile"}, "not read"))
    s.leave("trainer:torch_compile", "the plan counts on no compiler");
  constexpr std::int64_t kLigerPieces = 8;  // at least: what the profile of the Trainer says
  if (any_flag(f, {"trainer:use_liger_kernel"}, "loss_chunks")) {
    f.strategy.loss_chunks = kLigerPieces;
    f.notes.emplace_back("use_liger_kernel: the loss is planned as Liger's, norms, rotary "
                         "embeddings and SwiGLU as torch's, which take more time and memory");
  }
  f.say("loss_chunks");
  if (f.model.empty() && f.problems.empty())
    f.problems.push_back({"the model", "its name or config.json", "none in these files",
                          "name it with --model, or give its config.json too"});
}

}  // namespace reports::imports
