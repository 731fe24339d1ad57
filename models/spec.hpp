#pragma once
// ModelSpec: what is trained, as plain numbers. Comes from the zoo (models/zoo/*.json), from a
// Hugging Face config.json, or from our own model JSON; goes whole into the plan file, so a plan
// never needs the file that it was made from. Value type, thread-compatible.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/result.hpp"

namespace models {

enum class Family : std::uint8_t { gpt2, chain };
enum class Activation : std::uint8_t { identity, relu, tanh, gelu_tanh };
enum class Loss : std::uint8_t { cross_entropy, squared_error };

struct ModelSpec {
  std::string name;
  Family family = Family::gpt2;
  std::string source;                   // where the numbers come from, with citation

  // Transformers (gpt2): decoder blocks, learned positions, tied embeddings, GELU (tanh form).
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t ffn_hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t positions = 0;           // rows of the position table
  bool tied_embeddings = true;
  double layer_norm_epsilon = 1e-5;

  // Feed-forward chains: widths[0] inputs, then one dense layer per further entry; `layers` is
  // their number, or 0.
  std::vector<std::int64_t> widths;
  // Of the hidden layers; the last is the identity: the loss overwrites its output by the gradient,
  // so nothing may need that output afterwards.
  Activation activation = Activation::gelu_tanh;
  Loss loss = Loss::cross_entropy;

  // Defaults of a job on this model.
  std::int64_t default_seq_len = 1;     // tokens per sample; 1 for chains
  std::int64_t default_global_batch = 1;  // samples per step

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

std::string_view name(Family family);
std::string_view name(Activation activation);
std::string_view name(Loss loss);
std::optional<Family> family_from_name(std::string_view text);
std::optional<Activation> activation_from_name(std::string_view text);
std::optional<Loss> loss_from_name(std::string_view text);

// Every problem of a spec: sizes out of range, heads that do not divide hidden, more parameters
// than kMaxParameters. Empty: build_graph accepts it. Touches no memory beyond its messages.
core::Problems check_spec(const ModelSpec& spec);

// Limits of check_spec: far beyond any model, small enough that every count of bytes of a step
// stays below 2^63.
inline constexpr std::int64_t kMaxLayers = 65'536;
inline constexpr std::int64_t kMaxWidth = std::int64_t{1} << 26;
inline constexpr double kMaxParameters = 1e15;

}  // namespace models
