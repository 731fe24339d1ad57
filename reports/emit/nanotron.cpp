// nanotron's YAML (huggingface/nanotron 2411b022: src/nanotron/config/config.py,
// parallelism_config.py, models_config.py; ranks by src/nanotron/parallel/context.py).
#include <algorithm>
#include <string>

#include <fmt/format.h>

#include "models/layer_kinds.hpp"
#include "reports/emit/parts.hpp"

namespace reports::emit {
namespace {

using core::Code;
using core::code;

using planner::Checkpoint;
using planner::OptimizerKind;
using planner::Schedule;
using planner::Sharding;

// LlamaConfig has no word for anything else.
bool is_plain_llama(const models::ModelSpec& m) {
  const models::Variants& v = m.variants;
  return m.family == models::Family::llama && m.kinds.empty() && v.experts == 0 &&
         v.ffn == models::Ffn::swiglu && v.position_kind == models::Positions::rotary &&
         v.rotary_fraction == 1 && !v.qkv_bias && !v.output_bias && !v.ffn_bias &&
         (m.head_dim == 0 || m.head_dim * m.heads == m.hidden);
}

void check_for_nanotron(Question& q) {
  const planner::Strategy& s = q.s;
  const planner::Job& job = q.job();
  q.require_common("nanotron", "");
  q.require_known_layers("nanotron", q.model());
  q.require(is_plain_llama(q.model()), "model " + q.model().name,
            "a plain model of family llama: heads of hidden / heads, SwiGLU, no biases, no experts",
            "emit for megatron");
  q.require(s.sharding == Sharding::none || s.sharding == Sharding::zero1,
            fmt::format("sharding={}", name(s.sharding)), "sharding=none or zero1",
            "plan with --pin sharding='none|zero1'");
  q.require(s.sharding == Sharding::none || s.shard_group == s.data_ranks(),
            fmt::format("shard_group={}", s.shard_group), "all data ranks in one group",
            "plan with --framework nanotron");
  q.require(s.pipeline == 1 || s.schedule == Schedule::one_f_one_b || s.schedule == Schedule::gpipe,
            fmt::format("schedule={}", name(s.schedule)), "schedule=1f1b or gpipe",
            "plan with --pin schedule=1f1b");
  q.require(s.context == 1, fmt::format("context={}", s.context), "context=1",
            "plan with --pin context=1");
  q.require(s.expert == 1, fmt::format("expert={}", s.expert), "expert=1",
            "plan with --pin expert=1");
  const bool whole = s.checkpoint == Checkpoint::every_k && s.checkpoint_every == 1;
  q.require(s.checkpoint == Checkpoint::none || whole,
            fmt::format("checkpoint={}", name(s.checkpoint)),
            "checkpoint=none, or every_k(1): recompute_layer is of all layers",
            "plan with --pin checkpoint='none|every_k(1)'");
  q.require(s.loss_chunks == 1, fmt::format("loss_chunks={}", s.loss_chunks), "loss_chunks=1",
            "plan with --pin loss_chunks=1");
  q.require(q.recipe.name == "megatron" || q.recipe.name == "pure_bf16" || q.recipe.name == "fp32",
            "recipe=" + q.recipe.name,
            "recipe=megatron (sums and a copy of the weights in f32), pure_bf16 or fp32",
            "plan with --recipe megatron");
  q.require(job.precision == core::DType::bf16 || q.recipe.name == "fp32",
            fmt::format("precision {}", planner::precision_name(job.precision)), "bf16 or fp32",
            "plan with --precision bf16");
  q.require(job.optimizer == OptimizerKind::adamw || job.optimizer == OptimizerKind::sgd,
            fmt::format("optimizer={}", planner::optimizer(job.optimizer).name), "adamw or sgd",
            "plan with --optimizer adamw");
  q.require(job.attention == "flash2", "attention=" + job.attention, "attention=flash2",
            "plan with --attention flash2");
  q.require(!job.reduce_dtype || *job.reduce_dtype == q.recipe.gradient, "reduce_dtype",
            "gradients summed in their own type", "plan without --reduce-dtype");
  q.require(!job.compile, "compile", "kernels that are not compiled",
            "plan without --compile");
  q.require(job.mtp_layers == 0, fmt::format("mtp={}", job.mtp_layers), "mtp=0",
            "plan with --mtp 0");
  q.require(!s.tp_overlap || s.sequence_parallel, "tp_overlap without sequence_parallel",
            "both: nanotron overlaps scattered rows alone",
            "plan with --pin sequence_parallel=true");
  using enum planner::Degree;
  q.require(q.has_order({tensor, data, pipeline}), q.order_text(),
            "mesh_order=tensor,context,data,pipeline",
            "plan with --pin mesh_order=tensor,context,data,pipeline");
}

std::vector<std::string> notes_for_nanotron(const Question& q) {
  std::vector<std::string> all{"data: random tokens; give data_stages a dataset and tokenizer",
                               "20 steps, and a learning rate of 1e-4: give your own"};
  all.push_back(
      fmt::format("global_batch={}: dp x micro_batch_size x batch_accumulation_per_replica",
                  q.job().global_batch));
  if (q.job().reduce_dtype)
    all.push_back(fmt::format("reduce_dtype={}: the gradients' own type, in which they are summed",
                              core::name(*q.job().reduce_dtype)));
  if (q.s.pipeline > 1)
    all.emplace_back("stages: nanotron divides the layers by its own costs of blocks");
  if (q.s.data > 1 && !q.s.overlap)
    all.emplace_back("overlap=false: gradients are summed as nanotron does it all the same");
  return all;
}

Code model_section(const Question& q) {
  const models::ModelSpec& m = q.model();
  return code(
      "model:\n"
      "  ddp_bucket_cap_mb: {}\n"  // of gradients in 16 bits, which are summed in 32
      "  dtype: {}\n"
      "  init_method:\n"
      "    std: 0.02\n"
      "  make_vocab_size_divisible_by: 1\n"
      "  model_config:\n"
      "    is_llama_config: true\n"
      "    hidden_act: silu\n"
      "    hidden_size: {}\n"
      "    intermediate_size: {}\n"
      "    max_position_embeddings: {}\n"
      "    num_attention_heads: {}\n"
      "    num_hidden_layers: {}\n"
      "    num_key_value_heads: {}\n"
      "    rms_norm_eps: {:f}\n"
      "    rope_theta: {:.1f}\n"
      "    tie_word_embeddings: {}\n"
      "    vocab_size: {}\n",
      std::max<std::int64_t>(q.s.bucket_bytes >> (q.recipe.name == "megatron" ? 21 : 20), 1),
      Code::own(torch_name(q.recipe.compute)), m.hidden, m.ffn_hidden,
      std::max(m.positions, q.job().seq_len), m.heads, q.layers(),
      m.kv_heads == 0 ? m.heads : m.kv_heads, m.layer_norm_epsilon,
      m.variants.rotary_base, yaml_flag(m.tied_embeddings),
      m.vocab);
}

Code optimizer_section(const Question& q) {
  const Code factory =
      Code::own(q.job().optimizer == OptimizerKind::sgd
                    ? "    name: sgd\n"
                    : "    adam_beta1: 0.9\n    adam_beta2: 0.95\n    adam_eps: 0.00000001\n"
                      "    name: adamW\n    torch_adam_is_fused: true\n");
  return code(
      "optimizer:\n"
      "  accumulate_grad_in_fp32: {}\n"
      "  clip_grad: {}\n"
      "  learning_rate_scheduler:\n"
      "    learning_rate: 0.0001\n"
      "    lr_decay_style: linear\n"
      "    lr_warmup_steps: 2\n"
      "    lr_warmup_style: linear\n"
      "    min_decay_lr: 0.00001\n"
      "  optimizer_factory:\n"
      "{}"
      "  weight_decay: 0.01\n"
      "  zero_stage: {}\n",
      yaml_flag(q.recipe.name == "megatron"),
      q.job().clip > 0 ? code("{:f}", q.job().clip) : Code("null"), factory,
      q.s.sharding == Sharding::zero1 ? 1 : 0);
}

}  // namespace

core::Result<Written> nanotron(Question& q) {
  check_for_nanotron(q);
  if (!q.problems.empty()) return q.problems;
  const planner::Strategy& s = q.s;
  Written written;
  written.text = code(
      "# {}\n"
      "general:\n"
      "  project: planner\n"
      "  run: planned\n"
      "  seed: 42\n"
      "checkpoints:\n"
      "  checkpoint_interval: 1000000\n"
      "  checkpoints_path: checkpoints\n"
      "  save_final_state: false\n"
      "data_stages:\n"
      "- data:\n"
      "    dataset: null\n"
      "    num_loading_workers: 1\n"
      "    seed: 42\n"
      "  name: all\n"
      "  start_training_step: 1\n"
      "logging:\n"
      "  iteration_step_info_interval: 1\n"
      "{}{}"
      "parallelism:\n"
      "  dp: {}\n"
      "  pp: {}\n"
      "  tp: {}\n"
      "  pp_engine: {}\n"
      "  recompute_layer: {}\n"
      "  tp_linear_async_communication: {}\n"
      "  tp_mode: {}\n"
      "tokens:\n"
      "  batch_accumulation_per_replica: {}\n"
      "  micro_batch_size: {}\n"
      "  sequence_length: {}\n"
      "  train_steps: 20\n",
      q.title(), model_section(q), optimizer_section(q), s.data, s.pipeline, s.tensor,
      Code::own(s.schedule == Schedule::gpipe ? "afab" : "1f1b"),
      yaml_flag(s.checkpoint != Checkpoint::none), yaml_flag(s.tp_overlap),
      Code::own(s.sequence_parallel ? "REDUCE_SCATTER" : "ALL_REDUCE"), s.grad_accum, s.micro_batch,
      q.job().seq_len);
  written.notes = notes_for_nanotron(q);
  written.setup = "export CUDA_DEVICE_MAX_CONNECTIONS=1\n";  // as run_train.py asks for
  written.program = R"(run_train.py --config-file "$config" "$@")";
  written.file_name = "nanotron.yaml";
  written.place = "a checkout of nanotron";
  written.framework = "nanotron";
  return written;
}

}  // namespace reports::emit
