// Options of Megatron-LM, core_v0.13 (megatron/training/arguments.py). Its own data are random
// tokens: --mock-data, so that the script can be timed as it is.
#include <algorithm>
#include <array>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "models/layer_kinds.hpp"
#include "reports/emit/megatron_layers.hpp"
#include "reports/emit/megatron_parts.hpp"

namespace reports::emit {
namespace {

using core::Code;
using core::code;

using planner::Checkpoint;
using planner::Sharding;

// As the shell reads it.
Code shell_value(std::string_view text) {
  return Code::shell(text);
}
template <class Number>
requires std::is_arithmetic_v<Number> Code shell_value(Number number) {
  return code("{}", number);
}

// Options in lines of a shell array.
class Options {
 public:
  void group(const Code& name) { text_ += code("{}=(\n", name); }
  void close() { text_ += ")\n"; }
  // option: written as it stands here, several words perhaps.
  template <class... Values>
  void add(const Code& option, const Values&... values) {
    text_ += code("  {}", option);
    ((text_ += code(" {}", shell_value(values))), ...);
    text_ += "\n";
  }
  void add_if(bool is, const Code& option) {
    if (is) add(option);
  }
  Code text() && { return std::move(text_); }

 private:
  Code text_;
};

// Attention over latents [deepseekv2], whose norms are --qk-layernorm.
void add_latents(Options& o, const models::ModelSpec& m, const models::Variants& v) {
  o.add("--multi-latent-attention");
  o.add("--kv-lora-rank", v.kv_rank);
  if (v.q_rank > 0) o.add("--q-lora-rank", v.q_rank);
  o.add("--qk-head-dim", models::head_dim_of(m) - v.rope_dim);
  o.add("--qk-pos-emb-head-dim", v.rope_dim);
  o.add("--v-head-dim", v.value_dim);
  o.add("--qk-layernorm");
  o.add("--rope-type rope");
}

// How experts are chosen and weighed, and the one that every token goes to.
void add_gates(Options& o, const models::Variants& v) {
  const bool sigmoid = v.scoring == models::Scoring::sigmoid;
  o.add_if(sigmoid, "--moe-router-score-function sigmoid");
  o.add_if(has_softmax_before_choice(v), "--moe-router-pre-softmax");
  if (v.gate_scale != 1)
    o.add("--moe-router-topk-scaling-factor", fmt::format("{}", v.gate_scale));
  if (v.expert_groups > 0) {
    o.add("--moe-router-num-groups", v.expert_groups);
    o.add("--moe-router-group-topk", v.groups_per_token);
  }
  if (v.shared_ffn > 0) o.add("--moe-shared-expert-intermediate-size", v.shared_ffn);
  o.add_if(v.shared_gate, "--moe-shared-expert-gate");
}

void add_model(Options& o, const Question& q) {
  const models::ModelSpec& m = q.model();
  const MegatronLayers layers = megatron_layers(m);
  const models::Variants& v = layers.variants;
  o.group("MODEL");
  o.add("--num-layers", models::layers_of(m));
  o.add("--hidden-size", m.hidden);
  o.add("--ffn-hidden-size", layers.ffn_hidden);
  o.add("--num-attention-heads", m.heads);
  const std::int64_t head_dim = v.kv_rank > 0 ? v.value_dim : models::head_dim_of(m);
  if (head_dim * m.heads != m.hidden) o.add("--kv-channels", head_dim);
  if (v.kv_rank > 0) add_latents(o, m, v);
  if (m.kv_heads != m.heads) o.add("--group-query-attention --num-query-groups", m.kv_heads);
  o.add("--seq-length", q.job().seq_len);
  o.add("--max-position-embeddings", std::max(m.positions, q.job().seq_len));
  const bool rotary = v.position_kind == models::Positions::rotary;
  o.add("--position-embedding-type", rotary ? "rope" : "learned_absolute");
  if (rotary) o.add("--rotary-base", fmt::format("{:.0f}", v.rotary_base));
  if (rotary && v.rotary_fraction < 1) o.add("--rotary-percent", v.rotary_fraction);
  if (!layers.unrotated.empty()) o.add("--no-rope-freq", layers.unrotated);
  if (layers.window > 0) o.add("--window-size", fmt::format("{},0", layers.window - 1));
  if (!layers.windowed.empty()) o.add("--window-attn-skip-freq", layers.windowed);
  o.add("--normalization", v.norm == models::Norm::rms_norm ? "RMSNorm" : "LayerNorm");
  o.add("--norm-epsilon", m.layer_norm_epsilon);
  o.add_if(v.ffn == models::Ffn::swiglu, "--swiglu");
  o.add_if(v.ffn == models::Ffn::clamped_swiglu,
           "--quick-geglu --glu-linear-offset 1.0 --activation-func-clamp-value 7.0");
  o.add_if(v.sinks, "--softmax-type learnable");
  o.add_if(!has_biases(v), "--disable-bias-linear");
  o.add_if(!has_biases(v) && v.qkv_bias, "--add-qkv-bias");
  o.add_if(v.qk_norm == models::QkNorm::heads, "--qk-layernorm");
  o.add_if(!m.tied_embeddings, "--untie-embeddings-and-output-weights");
  if (v.experts > 0) {
    o.add("--num-experts", v.experts);
    o.add("--moe-router-topk", v.experts_per_token);
    if (!layers.mixtures.empty()) o.add("--moe-layer-freq", layers.mixtures);
    if (layers.expert_ffn_hidden > 0) o.add("--moe-ffn-hidden-size", layers.expert_ffn_hidden);
    add_gates(o, v);
    o.add("--moe-grouped-gemm");
    o.add("--moe-token-dispatcher-type alltoall");
    o.add("--moe-router-force-load-balancing");
  }
  if (q.job().mtp_layers > 0) o.add("--mtp-num-layers", q.job().mtp_layers);
  o.add("--attention-dropout 0.0 --hidden-dropout 0.0");
  o.close();
}

void add_parallelism(Options& o, const Question& q) {
  const planner::Strategy& s = q.s;
  o.group("PARALLELISM");
  o.add("--tensor-model-parallel-size", s.tensor);
  o.add_if(s.sequence_parallel, "--sequence-parallel");
  o.add("--pipeline-model-parallel-size", s.pipeline);
  const bool uneven = q.uneven();
  if (uneven) o.add("--pipeline-model-parallel-layout", megatron_layout(s, q.job().mtp_layers));
  if (s.virtual_stages > 1 && !uneven)
    o.add("--num-virtual-stages-per-pipeline-rank", s.virtual_stages);
  o.add("--context-parallel-size", s.context);
  if (s.context > 1)
    o.add("--cp-comm-type", megatron_context_method(s));
  o.add_if(maps_stages_before_data(q), "--use-tp-pp-dp-mapping");
  if (s.expert > 1) o.add("--expert-model-parallel-size", s.expert);
  if (models::has_experts(q.model()))
    o.add("--expert-tensor-parallel-size", s.expert_over_tensor() ? 1 : s.tensor);
  // On one data rank it divides nothing; offloading asks for it.
  o.add_if(s.sharding == Sharding::zero1 || s.offloads("optimizer"),
           "--use-distributed-optimizer");
  o.add_if(s.overlap && s.data_ranks() > 1, "--overlap-grad-reduce");
  o.add_if(s.overlap && s.sharding == Sharding::zero1, "--overlap-param-gather");
  o.add_if(s.tp_overlap, "--tp-comm-overlap");
  o.add_if(s.expert_dispatch == planner::ExpertDispatch::deepep,
           "--moe-token-dispatcher-type flex --moe-enable-deepep");
  o.add_if(s.expert_overlap, "--overlap-moe-expert-parallel-comm");
  o.add_if(s.offloads("optimizer"), "--optimizer-cpu-offload");
  o.add_if(s.offloads("optimizer"), "--optimizer-offload-fraction 1.0");
  const bool narrow = has_narrow_moments(q);
  o.add_if(s.offloads("optimizer") || narrow, "--use-precision-aware-optimizer");
  o.add_if(narrow, "--exp-avg-dtype bf16 --exp-avg-sq-dtype bf16");
  if (s.checkpoint == Checkpoint::every_k)
    o.add("--recompute-granularity full --recompute-method uniform --recompute-num-layers",
          s.checkpoint_every);
  if (s.checkpoint == Checkpoint::first_k)
    o.add("--recompute-granularity full --recompute-method block --recompute-num-layers",
          s.checkpoint_every);
  if (s.checkpoint == Checkpoint::selective) o.add("--recompute-granularity selective");
  if (s.checkpoint == Checkpoint::modules)
    o.add("--recompute-granularity selective --recompute-modules " +
          Code::own(fmt::format("{}", fmt::join(models::names_of(s.recompute_modules), " "))));
  o.close();
}

// Releases before core_v0.18 count a token more than --vocab-size, later ones do not. Both sizes
// are padded to the planned one, a multiple of the tensor ranks, by a factor of its parts.
std::int64_t vocabulary_factor(const Question& q) {
  const std::int64_t part = program::padded(q.model().vocab, q.s.tensor) / q.s.tensor;
  for (std::int64_t factor = 2; factor * factor <= part; ++factor)
    if (part % factor == 0) return factor;
  return part;
}

void add_job(Options& o, const Question& q) {
  const planner::Job& job = q.job();
  o.group("JOB");
  o.add("--micro-batch-size", q.s.micro_batch);
  o.add("--global-batch-size", job.global_batch);
  o.add("--optimizer", job.optimizer == planner::OptimizerKind::sgd ? "sgd" : "adam");
  const bool f8 = job.precision == core::DType::f8;
  if (q.recipe.compute == core::DType::bf16) o.add("--bf16");
  if (q.recipe.compute == core::DType::f16) o.add("--fp16");
  if (job.loss_scale > 0) o.add("--loss-scale", fmt::format("{}", job.loss_scale));
  if (f8) o.add("--fp8-format hybrid");
  if (f8) o.add("--fp8-recipe", job.fp8_scaling);
  o.add_if(job.precision == core::DType::f4, "--fp4-format e2m1 --fp4-recipe nvfp4");
  o.add_if(job.in_few_bits("params"), "--fp8-param-gather");
  // Its buffer of gradients has the type in which they are reduced.
  const core::DType reduced = megatron_sums(q);
  o.add_if(q.recipe.compute == core::DType::bf16 && reduced == core::DType::bf16,
           "--grad-reduce-in-bf16");
  // Of bf16 it is the default.
  o.add_if(q.recipe.compute == core::DType::f16 && reduced == core::DType::f32,
           "--accumulate-allreduce-grads-in-fp32");
  o.add("--attention-backend", megatron_attention(q));
  o.add_if(job.attention == "unfused", "--no-masked-softmax-fusion");
  o.add("--clip-grad", fmt::format("{}", job.clip));
  o.add("--lr 1.0e-4 --train-iters 20 --log-interval 1 --eval-iters 0");
  o.add("--cross-entropy-loss-fusion");
  o.add("--mock-data --tokenizer-type NullTokenizer --vocab-size", q.model().vocab - 1);
  o.add("--make-vocab-size-divisible-by", vocabulary_factor(q));
  o.close();
}

// Options that core_v0.13.0 does not know, and the release that brought them
// (megatron/training/arguments.py and megatron/core/transformer/transformer_config.py of each).
constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kLaterOptions{
    {{"--rope-type", "0.14.0"},
     {"--overlap-moe-expert-parallel-comm", "0.14.0"},
     {"--window-size", "0.15.0"},
     {"--softmax-type", "0.15.0"},
     {"--quick-geglu", "0.15.0"},
     {"--moe-shared-expert-gate", "0.16.0"}}};

void note_release(std::string_view options, std::vector<std::string>& notes) {
  const auto last = std::find_if(
      kLaterOptions.rbegin(), kLaterOptions.rend(),
      [&](const auto& one) { return options.find(one.first) != std::string_view::npos; });
  if (last != kLaterOptions.rend())
    notes.push_back(fmt::format("Megatron-LM core_v{} or later: earlier releases do not know {}",
                                last->second, last->first));
}

}  // namespace

core::Result<Written> megatron(Question& q) {
  check_for_megatron(q);
  if (!q.problems.empty()) return q.problems;
  Options o;
  add_model(o, q);
  add_parallelism(o, q);
  add_job(o, q);
  Written written;
  written.notes = notes_for_megatron(q, kMegatronScript);
  written.setup = code("export CUDA_DEVICE_MAX_CONNECTIONS=1\n{}", std::move(o).text());
  note_release(written.setup.text(), written.notes);
  written.program =
      R"(pretrain_gpt.py "${MODEL[@]}" "${PARALLELISM[@]}" "${JOB[@]}" "$@")";
  written.place = "a checkout of Megatron-LM";
  written.framework = "Megatron-LM";
  const std::int64_t per_node = std::min(q.plan.gpus, q.plan.gpus_per_node);
  written.text = code(
      "#!/usr/bin/env bash\n"
      "# {}\n"
      "# Start in {}, once on each node (NODE_RANK, MASTER_ADDR).\n"
      "set -euo pipefail\n"
      "{}"
      "torchrun --nproc_per_node {} --nnodes {} --node_rank \"${{NODE_RANK:-0}}\" \\\n"
      "  --master_addr \"${{MASTER_ADDR:-localhost}}\" --master_port \"${{MASTER_PORT:-29500}}\" "
      "\\\n"
      "  {}\n",
      q.title(), written.place, written.setup, per_node, q.plan.nodes, written.program);
  return written;
}

}  // namespace reports::emit
