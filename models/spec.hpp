#pragma once
// ModelSpec: what is trained, as plain numbers. Comes from the zoo (models/zoo/*.json), from a
// Hugging Face config.json, or from our own model JSON; goes whole into the plan file, so a plan
// never needs the file that it was made from. Value type, thread-compatible.

#include <cstdint>
#include <string>
#include <vector>

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

  // Feed-forward chains: widths[0] inputs, then one dense layer per further entry.
  std::vector<std::int64_t> widths;
  Activation activation = Activation::gelu_tanh;  // of the hidden layers; the last is identity
                                                  // under cross_entropy
  Loss loss = Loss::cross_entropy;

  // Defaults of a job on this model.
  std::int64_t default_seq_len = 1;     // tokens per sample; 1 for chains
  std::int64_t default_global_batch = 1;  // samples per step

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

}  // namespace models
