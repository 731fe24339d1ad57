#pragma once
// ModelSpec as text: our own model file (schema "model/1", also the `spec` of a plan file) and
// Hugging Face's config.json. Every problem of a text is reported at once with line, column and
// JSON pointer. Stateless, thread-safe.

#include <string>
#include <string_view>

#include "core/result.hpp"
#include "models/spec.hpp"

namespace models {

// Reads either form, told apart by "model_type" (Hugging Face) or "schema" (ours), and checks it
// (check_spec). source_name: what problems call the text, usually its path. name: of a Hugging Face
// model, whose file does not hold one. like: a model_type as which one that is not known is read.
//
// Ours is strict: unknown keys are refused. Absent kv_heads is heads, ffn_hidden 4 hidden, head_dim
// hidden / heads; an absent variant (spec.hpp) is the family's.
// An operator graph's layers follow from its operators.
// Hugging Face: model_type gpt2, llama, mistral, qwen2, qwen3, mixtral, mpt, bert and gpt_neox;
// absent keys have transformers' defaults where it has them. Options that change the mathematics to
// something that no builder makes are refused; a sliding window is left out (attention is full, the
// source says so); dropout and modules for multi-token prediction are read, for planner to say that
// it leaves them out; keys that nobody knows are named (ModelSpec::not_read), those that
// concern neither shape nor arithmetic are passed over.
// Default batch: gpt2 as many samples as make 524,288 tokens, at most 512;
// bert 131,072; others 4,194,304 tokens of sequences of at most 8192.
core::Result<ModelSpec> parse_spec(std::string_view text, const std::string& source_name,
                                   const std::string& name = "model",
                                   const std::string& like = "");

// A chain's layers are written as its widths; reading sets `layers` from them. indent as in
// core::dump. REQUIRES: check_spec(spec) is empty.
std::string spec_to_json(const ModelSpec& spec, int indent = 2);

}  // namespace models
