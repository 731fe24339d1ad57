#pragma once
// Private to the readers of Hugging Face's config.json: what they share, and the readers of
// hugging_face_decoders.cpp. Each reads the keys of one model_type that change the arithmetic or
// the sizes, and names at its key what is not supported.

#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "core/json_reader.hpp"
#include "models/spec.hpp"

namespace models::hf {

inline constexpr std::int64_t kTokensPerStep = 4 * 1024 * 1024;  // of later models: Llama 2's
inline constexpr core::IntRange kWidthRange{1, kMaxWidth};

// Keys whose other value computes something else.
struct Fixed {
  std::string_view key;
  bool supported;
};
void refuse(core::JsonReader& r, std::initializer_list<Fixed> fixed);
void set_family(ModelSpec& spec, Family family);
// Samples of as many tokens as positions, at most 8192, and a batch of so many tokens.
void set_defaults(ModelSpec& spec, std::int64_t tokens, std::int64_t most_samples);
void read_gelu(core::JsonReader& r, std::string_view key, ModelSpec& spec);
// The keys that most of transformers' later configurations share.
void read_common(core::JsonReader& r, ModelSpec& spec,
                 std::string_view ffn_hidden = "intermediate_size");
// LlamaConfig and what was derived from it.
void read_llama(core::JsonReader& r, ModelSpec& spec, Family family);
// The same of another activation.
void read_llama_sizes(core::JsonReader& r, ModelSpec& spec, Family family);

// hugging_face_rotary.cpp: the base of angles, of every layer that turns by position. After what
// says which layers have windows.
void read_rotary_base(core::JsonReader& r, ModelSpec& spec, std::string_view type);

// hugging_face_unread.cpp: the keys that no reader asked for, without those that are known to
// change neither a plan nor a run.
std::vector<std::string> left_over(const core::JsonReader& r);

void read_olmo2(core::JsonReader& r, ModelSpec& spec);
void read_cohere(core::JsonReader& r, ModelSpec& spec);
void read_falcon(core::JsonReader& r, ModelSpec& spec);
void read_phi(core::JsonReader& r, ModelSpec& spec);
void read_granite(core::JsonReader& r, ModelSpec& spec);
void read_starcoder2(core::JsonReader& r, ModelSpec& spec);
void read_stablelm(core::JsonReader& r, ModelSpec& spec);
void read_qwen2_moe(core::JsonReader& r, ModelSpec& spec);
void read_gemma(core::JsonReader& r, ModelSpec& spec, bool third);
void read_gpt_oss(core::JsonReader& r, ModelSpec& spec);
void read_glm4_moe(core::JsonReader& r, ModelSpec& spec);
void read_llama4(core::JsonReader& r, ModelSpec& spec);
void read_deepseek(core::JsonReader& r, ModelSpec& spec, Scoring scoring);

}  // namespace models::hf
