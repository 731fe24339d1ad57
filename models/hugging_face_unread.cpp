// What a Hugging Face config.json says that no reader asked for.
#include <algorithm>
#include <array>

#include "models/hugging_face_parts.hpp"

namespace models::hf {
namespace {

// Of tokens, files, generation, initial values and tasks on sentences; stretching of
// rotations, which changes values and not how many there are; epsilons; dropout that read_dropout
// does not ask for; and the losses of routers, which are a few numbers a token.
constexpr std::array<std::string_view, 69> kHarmless{
    "_attn_implementation", "_name_or_path", "architectures", "attn_implementation", "auto_map",
    "aux_loss_alpha", "begin_suppress_tokens", "bos_token_id", "cache_implementation",
    "classifier_dropout", "cls_token_id", "decoder_start_token_id", "dtype", "embedding_dropout",
    "eos_token_id", "ep_size", "finetuning_task", "gradient_checkpointing", "id2label",
    "init_device", "initializer_factor", "initializer_range", "is_encoder_decoder", "label2id",
    "layer_norm_eps", "layer_norm_epsilon", "layerdrop", "mask_token_id", "max_length",
    "max_position_embeddings", "model_max_length", "n_ctx", "n_positions", "norm_eps",
    "norm_epsilon", "original_max_position_embeddings", "output_attentions", "output_hidden_states",
    "output_past", "output_router_logits", "pad_token_id", "pretraining_tp", "problem_type",
    "pruned_heads", "reorder_and_upcast_attn", "return_dict", "rms_norm_eps", "rope_interleave",
    "rope_scaling", "router_aux_loss_coef", "router_jitter_noise", "sep_token_id", "seq_aux",
    "seq_length",
    "summary_activation", "summary_first_dropout", "summary_proj_to_labels", "summary_type",
    "summary_use_proj", "task_specific_params", "tokenizer_class", "topk_method", "torch_dtype",
    "torchscript", "transformers_version", "type_vocab_size", "unk_token_id", "use_bfloat16",
    "use_cache"};

}  // namespace

std::vector<std::string> left_over(const core::JsonReader& r) {
  std::vector<std::string> keys = r.unknown();
  std::erase_if(keys, [](const std::string& key) {
    return std::ranges::find(kHarmless, key) != kHarmless.end();
  });
  return keys;
}

}  // namespace models::hf
