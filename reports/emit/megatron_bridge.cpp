// A recipe of Megatron-Bridge (067f987, August 2026): a function that returns a ConfigContainer
// (megatron/bridge/training/config.py) with Megatron Core's own fields. Its own data are random
// tokens, so that it can be timed as it is.
#include <algorithm>

#include "models/layer_kinds.hpp"
#include "reports/emit/megatron_layers.hpp"
#include "reports/emit/megatron_parts.hpp"
#include "reports/emit/python_words.hpp"

namespace reports::emit {
namespace {

using core::Code;
using core::code;
using planner::Checkpoint;
using planner::Sharding;

constexpr std::string_view word(std::string_view text) { return text; }

// The expression of a list with an entry for each layer.
void set_pattern(PythonArguments& a, const Code& name, const std::string& pattern) {
  if (!pattern.empty()) a.set_code(name, Code::own(pattern));
}

void add_latents(PythonArguments& a, const models::ModelSpec& m, const models::Variants& v) {
  a.set("multi_latent_attention", true);   // the provider's own default is false
  a.set("kv_lora_rank", v.kv_rank);
  a.set_code("q_lora_rank", v.q_rank > 0 ? literal(v.q_rank) : Code("None"));
  a.set("qk_head_dim", models::head_dim_of(m) - v.rope_dim);
  a.set("qk_pos_emb_head_dim", v.rope_dim);
  a.set("v_head_dim", v.value_dim);
  a.set("rope_type", word("rope"));
}

void add_experts(PythonArguments& a, const MegatronLayers& layers, const planner::Strategy& s) {
  const models::Variants& v = layers.variants;
  const bool sigmoid = v.scoring == models::Scoring::sigmoid;
  const bool deepep = s.expert_dispatch == planner::ExpertDispatch::deepep;
  a.set("num_moe_experts", v.experts);
  a.set("moe_router_topk", v.experts_per_token);
  set_pattern(a, "moe_layer_freq", layers.mixtures);
  a.set("moe_ffn_hidden_size",
        layers.expert_ffn_hidden > 0 ? layers.expert_ffn_hidden : layers.ffn_hidden);
  a.set_if(sigmoid, "moe_router_score_function", word("sigmoid"));
  a.set_if(has_softmax_before_choice(v), "moe_router_pre_softmax", true);
  a.set_if(v.gate_scale != 1, "moe_router_topk_scaling_factor", v.gate_scale);
  a.set_if(v.expert_groups > 0, "moe_router_num_groups", v.expert_groups);
  a.set_if(v.expert_groups > 0, "moe_router_group_topk", v.groups_per_token);
  a.set_if(v.shared_ffn > 0, "moe_shared_expert_intermediate_size", v.shared_ffn);
  a.set_if(v.shared_gate, "moe_shared_expert_gate", true);
  a.set("moe_grouped_gemm", true);
  a.set("moe_token_dispatcher_type", word(deepep ? "flex" : "alltoall"));
  a.set_if(deepep, "moe_flex_dispatcher_backend", word("deepep"));
  a.set("moe_router_force_load_balancing", true);
}

void add_recomputation(PythonArguments& a, const planner::Strategy& s) {
  if (counts_layers(s.checkpoint)) {
    a.set("recompute_granularity", word("full"));
    a.set("recompute_method", word(s.checkpoint == Checkpoint::every_k ? "uniform" : "block"));
    a.set("recompute_num_layers", s.checkpoint_every);
  }
  if (s.checkpoint == Checkpoint::selective || s.checkpoint == Checkpoint::modules)
    a.set("recompute_granularity", word("selective"));
  if (s.checkpoint == Checkpoint::modules)
    a.set_code("recompute_modules",
               Code::json(core::Json::array_of(models::names_of(s.recompute_modules)), 0));
}

void add_degrees(PythonArguments& a, const Question& q, bool experts) {
  const planner::Strategy& s = q.s;
  a.set("tensor_model_parallel_size", s.tensor);
  a.set("sequence_parallel", s.sequence_parallel);
  a.set("pipeline_model_parallel_size", s.pipeline);
  if (q.uneven())
    a.set("pipeline_model_parallel_layout",
          std::string_view(megatron_layout(s, q.job().mtp_layers)));
  if (s.virtual_stages > 1) {
    if (!q.uneven()) a.set("virtual_pipeline_model_parallel_size", s.virtual_stages);
    a.set("overlap_p2p_comm", true);
    a.set("batch_p2p_comm", false);
  }
  a.set("tp_comm_overlap", s.tp_overlap);
  a.set("context_parallel_size", s.context);
  if (s.context > 1) a.set("cp_comm_type", megatron_context_method(s));
  if (!experts) return;
  a.set("expert_model_parallel_size", s.expert);
  a.set("expert_tensor_parallel_size", s.expert_over_tensor() ? std::int64_t{1} : s.tensor);
  a.set_if(s.expert_overlap, "overlap_moe_expert_parallel_comm", true);
}

bool takes_blocks(const MegatronLayers& layers) {
  return layers.variants.kv_rank > 0 || layers.variants.experts > 0;
}

Code model_of(const Question& q) {
  const models::ModelSpec& m = q.model();
  const MegatronLayers layers = megatron_layers(m);
  const models::Variants& v = layers.variants;
  const bool rotary = v.position_kind == models::Positions::rotary;
  const bool clamped = v.ffn == models::Ffn::clamped_swiglu, latent = v.kv_rank > 0;
  const bool gated = v.ffn == models::Ffn::swiglu || clamped;
  PythonArguments a;
  a.set("num_layers", models::layers_of(m));
  a.set("hidden_size", m.hidden);
  a.set("ffn_hidden_size", layers.ffn_hidden);
  a.set("num_attention_heads", m.heads);
  a.set("kv_channels", latent ? v.value_dim : models::head_dim_of(m));
  if (latent) add_latents(a, m, v);
  else a.set("num_query_groups", m.kv_heads);
  a.set("seq_length", q.job().seq_len);
  a.set("vocab_size", m.vocab);
  a.set("make_vocab_size_divisible_by", 1);
  a.set("share_embeddings_and_output_weights", m.tied_embeddings);
  a.set("position_embedding_type", word(rotary ? "rope" : "learned_absolute"));
  if (rotary) a.set_code("rotary_base", code("{:.0f}", v.rotary_base));
  a.set_if(rotary && v.rotary_fraction < 1, "rotary_percent", v.rotary_fraction);
  set_pattern(a, "no_rope_freq", layers.unrotated);
  if (layers.window > 0) a.set_code("window_size", code("({}, 0)", layers.window - 1));
  set_pattern(a, "window_attn_skip_freq", layers.windowed);
  a.set("normalization", word(v.norm == models::Norm::rms_norm ? "RMSNorm" : "LayerNorm"));
  a.set("layernorm_epsilon", m.layer_norm_epsilon);
  a.set("gated_linear_unit", gated);
  a.set_code("activation_func",
             Code::own(clamped ? "quick_gelu" : gated ? "F.silu" : "F.gelu"));
  if (clamped) {
    a.set("glu_linear_offset", 1.0);
    a.set("activation_func_clamp_value", 7.0);
  }
  a.set_if(v.sinks, "softmax_type", word("learnable"));
  a.set("add_bias_linear", has_biases(v));
  a.set("add_qkv_bias", v.qkv_bias);
  a.set("qk_layernorm", latent || v.qk_norm == models::QkNorm::heads);
  if (v.experts > 0) add_experts(a, layers, q.s);
  a.set_if(q.job().mtp_layers > 0, "mtp_num_layers", q.job().mtp_layers);
  a.set("attention_dropout", 0.0);
  a.set("hidden_dropout", 0.0);
  a.set_code("attention_backend", code("AttnBackend.{}", Code::own(megatron_attention(q))));
  a.set("masked_softmax_fusion", q.job().attention != "unfused");
  a.set("bias_activation_fusion", gated || has_biases(v));
  a.set("bias_dropout_fusion", true);
  a.set("persist_layer_norm", true);
  a.set("apply_rope_fusion", rotary && !latent);
  a.set("cross_entropy_loss_fusion", true);
  // The provider's own layers are all alike, and have no latents.
  if (takes_blocks(layers))
    a.set_code("transformer_layer_spec",
               "partial(get_gpt_decoder_block_spec, use_transformer_engine=True)");
  add_degrees(a, q, v.experts > 0);
  add_recomputation(a, q.s);
  return a.text();
}

bool divides_optimizer(const Question& q) {
  return q.s.sharding == Sharding::zero1 || q.s.offloads("optimizer");
}
bool sums_behind(const Question& q) { return q.s.overlap && q.s.data_ranks() > 1; }
bool gathers_behind(const Question& q) { return q.s.overlap && q.s.sharding == Sharding::zero1; }

double decay_of(const Question& q) {
  return q.job().optimizer == planner::OptimizerKind::adamw ? 0.01 : 0.0;
}

Code optimizer_of(const Question& q) {
  const planner::OptimizerKind kind = q.job().optimizer;
  const bool narrow = has_narrow_moments(q), offloads = q.s.offloads("optimizer");
  PythonArguments a;
  a.set("optimizer", word(kind == planner::OptimizerKind::sgd ? "sgd" : "adam"));
  a.set("lr", 1e-4);
  a.set("min_lr", 0.0);
  a.set("weight_decay", decay_of(q));
  a.set("clip_grad", q.job().clip);
  a.set("use_distributed_optimizer", divides_optimizer(q));
  a.set("overlap_param_gather", gathers_behind(q));
  a.set_if(offloads, "optimizer_cpu_offload", true);
  a.set_if(offloads, "optimizer_offload_fraction", 1.0);
  a.set_if(offloads || narrow, "use_precision_aware_optimizer", true);
  if (narrow) {
    a.set_code("exp_avg_dtype", "torch.bfloat16");
    a.set_code("exp_avg_sq_dtype", "torch.bfloat16");
  }
  return a.text();
}

Code exchange_of(const Question& q) {
  PythonArguments a;
  a.set("use_distributed_optimizer", divides_optimizer(q));
  a.set("overlap_grad_reduce", sums_behind(q));
  a.set("overlap_param_gather", gathers_behind(q));
  return a.text();
}

// It overwrites what model, optimizer and exchange say of types.
Code precision_of(const Question& q) {
  const core::DType compute = q.recipe.compute;
  if (compute == core::DType::f32) return "None";
  PythonArguments a;
  a.set("bf16", compute == core::DType::bf16);
  a.set("fp16", compute == core::DType::f16);
  const Code type = code("torch.{}", Code::own(torch_name(compute)));
  a.set_code("params_dtype", type);
  a.set_code("pipeline_dtype", type);
  a.set("grad_reduce_in_fp32", megatron_sums(q) == core::DType::f32);
  a.set_if(q.job().loss_scale > 0, "loss_scale", q.job().loss_scale);
  const bool f8 = q.job().precision == core::DType::f8;
  if (f8) a.set("fp8", word("hybrid"));
  a.set_code("fp8_recipe", f8 ? literal(std::string_view(q.job().fp8_scaling)) : Code("None"));
  a.set("fp8_param_gather", q.job().in_few_bits("params"));
  const bool f4 = q.job().precision == core::DType::f4;
  a.set_if(f4, "fp4", word("e2m1"));
  a.set_if(f4, "fp4_recipe", word("nvfp4"));
  return code("MixedPrecisionConfig(\n{}        )", a.text());
}

// {0} head, {1} provider's module, {2} provider, {3} model, {4} training, {5} optimizer,
// {6} exchange of gradients, {7} types, {8} decay of weights, {9} samples' length, {10} vocabulary,
// {11} mapping of ranks, {12} and {13} what layers of several kinds are made by
constexpr std::string_view kRecipe =
    R"py({0}{12}import torch
import torch.nn.functional as F

{13}from megatron.core.transformer.enums import AttnBackend

from megatron.bridge.models.{1} import {2}
from megatron.bridge.training.config import (
    CheckpointConfig,
    ConfigContainer,
    DistributedDataParallelConfig,
    DistributedInitConfig,
    LoggerConfig,
    MockGPTDatasetConfig,
    OptimizerConfig,
    SchedulerConfig,
    TokenizerConfig,
    TrainingConfig,
    ValidationConfig,
)
from megatron.bridge.training.gpt_step import forward_step
from megatron.bridge.training.mixed_precision import MixedPrecisionConfig
from megatron.bridge.training.pretrain import pretrain


def planned() -> ConfigContainer:
    return ConfigContainer(
        env_vars={{"CUDA_DEVICE_MAX_CONNECTIONS": "1"}},
        model={2}(
{3}        ),
        train=TrainingConfig(
{4}        ),
        validation=ValidationConfig(eval_iters=0),
        optimizer=OptimizerConfig(
{5}        ),
        scheduler=SchedulerConfig(
            lr_decay_style="constant", start_weight_decay={8}, end_weight_decay={8}
        ),
        ddp=DistributedDataParallelConfig(
{6}        ),
        mixed_precision={7},
        dataset=MockGPTDatasetConfig(
            seq_length={9},
            random_seed=1234,
            reset_position_ids=False,
            reset_attention_mask=False,
            eod_mask_loss=False,
            dataloader_type="single",
        ),
        tokenizer=TokenizerConfig(
            tokenizer_type="NullTokenizer",
            vocab_size={10},
            use_tokenizer_vocab_size=True,
        ),
        logger=LoggerConfig(log_interval=1),
        checkpoint=CheckpointConfig(save=None, load=None),
        dist=DistributedInitConfig(use_tp_pp_dp_mapping={11}),
    )


if __name__ == "__main__":
    pretrain(planned(), forward_step)
)py";

Code training_of(const Question& q) {
  PythonArguments a;
  a.set("train_iters", 20);
  a.set("micro_batch_size", q.s.micro_batch);
  a.set("global_batch_size", q.job().global_batch);
  return a.text();
}

// How it is started, as its first comment says.
Code head_of(const Question& q) {
  return code("# {}\n# For Megatron-Bridge (067f987, August 2026):\n#   {}\n{}", q.title(),
              torchrun_command(q, "planned.py"),
              q.plan.nodes > 1 ? Code("# on each node.\n") : Code());
}

}  // namespace

core::Result<Written> megatron_bridge(Question& q) {
  check_for_megatron(q);
  if (!q.problems.empty()) return q.problems;
  const MegatronLayers layers = megatron_layers(q.model());
  const bool latent = layers.variants.kv_rank > 0, blocks = takes_blocks(layers),
             clamped = layers.variants.ffn == models::Ffn::clamped_swiglu;
  Written written;
  written.notes = notes_for_megatron(q, kMegatronBridge);
  if (layers.variants.position_kind == models::Positions::learned &&
      q.model().positions != q.job().seq_len)
    written.notes.push_back(fmt::format("positions: Megatron-Bridge learns as many as seq_len, {}; "
                                        "the model has {}",
                                        q.job().seq_len, q.model().positions));
  written.text = code(kRecipe, head_of(q), Code::own(latent ? "mla_provider" : "gpt_provider"),
                      Code::own(latent ? "MLAModelProvider" : "GPTModelProvider"), model_of(q),
                      training_of(q), optimizer_of(q), exchange_of(q), precision_of(q),
                      literal(decay_of(q)), q.job().seq_len, q.model().vocab,
                      literal(maps_stages_before_data(q)),
                      Code::own(blocks ? "from functools import partial\n\n" : ""),
                      Code::own(clamped ? "from megatron.core.fusions.fused_bias_geglu import "
                                          "quick_gelu\n"
                                        : "") +
                          Code::own(blocks ? "from megatron.core.models.gpt.gpt_layer_specs import "
                                             "get_gpt_decoder_block_spec\n"
                                           : ""));
  written.program = R"("$config" "$@")";
  written.file_name = "planned.py";
  written.place = "the folder of that file";
  written.framework = "Megatron-Bridge";
  return written;
}

}  // namespace reports::emit
