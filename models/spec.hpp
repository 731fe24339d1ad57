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
#include "models/graph_spec.hpp"

namespace models {

// A family of transformers is a preset of Variants (variants_of) and a builder that reads them.
enum class Family : std::uint8_t {
  gpt2, opt, bloom, llama, qwen2, qwen3, mixtral, mpt, gpt_neox, bert, uce, chain, graph
};
// gelu_tanh and gelu_erf: the two forms of GELU; they differ in the fourth decimal. relu_squared:
// max(x, 0)^2.
enum class Activation : std::uint8_t { identity, relu, tanh, gelu_tanh, gelu_erf, relu_squared };
enum class Loss : std::uint8_t { cross_entropy, squared_error };

enum class Norm : std::uint8_t { layer_norm, rms_norm };
enum class Positions : std::uint8_t { learned, rotary, alibi, none };
// gelu: two matrices with the spec's activation between; swiglu, geglu (its gate a gelu of the tanh
// form) and clamped_swiglu [gpt-oss]: gate, up and down.
enum class Ffn : std::uint8_t { gelu, swiglu, geglu, clamped_swiglu };
// pre: x + f(norm x), one branch after the other; parallel: x + attention(norm x) + ffn(norm' x);
// post: norm(x + f(x)); post_branch: x + norm f(x) [olmo2]; sandwich: x + norm f(norm' x) [gemma2].
enum class Residual : std::uint8_t { pre, parallel, post, post_branch, sandwich };
// Of queries and keys: each head by an RMS norm [qwen3]; the same without gammas [llama4]; all
// heads together by one norm [olmo2].
enum class QkNorm : std::uint8_t { none, heads, plain, width };
// What a router makes of its logits: a softmax over all experts, or each logit's sigmoid.
enum class Scoring : std::uint8_t { softmax, sigmoid };

// How the blocks of a transformer differ from GPT-2's, which are the default. The model's ends read
// some of these: check_spec names those in which kinds of layers must agree.
struct Variants {
  Norm norm = Norm::layer_norm;
  Positions position_kind = Positions::learned;
  Ffn ffn = Ffn::gelu;
  Residual residual = Residual::pre;
  bool qkv_bias = true, output_bias = true, ffn_bias = true, norm_bias = true;
  bool causal = true;                   // false: every token sees every other
  bool embedding_norm = false;          // a norm between the embeddings and the first block
  bool pooler = false;                  // dense and tanh on the first token [bert]
  std::int64_t token_types = 0;         // rows of the segment table [bert]
  QkNorm qk_norm = QkNorm::none;
  // Tokens arrive as so many features, not as numbers of a vocabulary [uce]; 0: they are looked up.
  std::int64_t token_features = 0;
  // Width of the first layer of a decoder to an embedding of each sample, in place of a head over
  // the vocabulary [uce]; 0: none.
  std::int64_t decoder_hidden = 0;
  double rotary_fraction = 1.0;         // of each head's dimensions that are rotated
  double rotary_base = 10000;           // pair i of n turns by base^(-i / n) a position [rope]
  std::int64_t experts = 0;             // feed-forward experts of a layer; 0: one dense
  std::int64_t experts_per_token = 0;
  // Attention: keys that a token sees, the last so many or those of its own chunk; 0: all before.
  std::int64_t window = 0, chunk = 0;
  double attention_soft_cap = 0;        // scores become cap tanh(score / cap); 0: none
  double score_scale = 0;               // of scores; 0: 1 / sqrt(head_dim)
  bool sinks = false;                   // a logit of each head that has no value [gpt-oss]
  // Latent attention [deepseekv2]: keys and values come from a latent of kv_rank, 0: they do not;
  // queries from one of q_rank, 0: from the residual stream. Of a head's head_dim dimensions
  // rope_dim turn by position; those of the keys are shared by all heads. Values have value_dim.
  std::int64_t kv_rank = 0, q_rank = 0, rope_dim = 0, value_dim = 0;
  bool head_bias = false;               // of the head over the vocabulary [phi]
  bool shared_norm = false;             // of parallel branches: both read one norm [cohere]
  bool norm_offset = false;             // RMS norms multiply by 1 + gamma, gamma from 0 [gemma]
  // Factors of embeddings, of what a branch adds to the residual stream, and of logits; and the
  // cap of logits, 0: none.
  double embedding_scale = 1, residual_scale = 1, logit_scale = 1, logit_soft_cap = 0;
  // Mixtures: gates from scores of the chosen experts, which are divided by their sum or not, times
  // a factor.
  Scoring scoring = Scoring::softmax;
  bool normalised_gates = true;
  double gate_scale = 1;
  // Experts are chosen from so many of equal groups alone, 0: from all [deepseekv2].
  std::int64_t expert_groups = 0, groups_per_token = 0;
  bool gated_inputs = false;            // gates weigh what goes in, not what comes out [llama4]
  bool router_bias = false, expert_bias = false;
  // Width of an expert that every token goes to, 0: none; and whether a sigmoid of its own gates it
  // [qwen2-moe].
  std::int64_t shared_ffn = 0;
  bool shared_gate = false;
  friend bool operator==(const Variants&, const Variants&) = default;
};

// What a layer is like, where layers are of several kinds.
struct LayerKind {
  std::string name;                     // "dense": unique in its model
  std::int64_t ffn_hidden = 0;          // of one expert
  Variants variants;
  friend bool operator==(const LayerKind&, const LayerKind&) = default;
};

// A row of layers, `times` times over: five local layers and a global one, ten times.
struct LayerRun {
  std::vector<int> kinds;               // indexes into ModelSpec::kinds
  std::int64_t times = 1;
  friend bool operator==(const LayerRun&, const LayerRun&) = default;
};

struct ModelSpec {
  std::string name;
  Family family = Family::gpt2;
  std::string source;                   // where the numbers come from, with citation

  // Transformers: GPT-2's blocks but for the variants.
  std::int64_t layers = 0;
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;            // fewer than heads: grouped queries; heads is a multiple
  std::int64_t head_dim = 0;            // 0: hidden / heads
  std::int64_t ffn_hidden = 0;          // of one expert
  std::int64_t vocab = 0;
  std::int64_t positions = 0;           // rows of the position table; else the context trained on
  bool tied_embeddings = true;
  double layer_norm_epsilon = 1e-5;     // of either norm
  Variants variants;
  // Layers of several kinds: two or more, and the runs in which they follow each other, `layers`
  // in all. Both empty: every layer is what ffn_hidden and variants say. Not empty: those two
  // describe no layer, but the model's ends and what a model file's kinds have unless they say
  // otherwise. layer_kinds.hpp answers for both forms.
  std::vector<LayerKind> kinds;
  std::vector<LayerRun> runs;

  // Feed-forward chains: widths[0] inputs, then one dense layer per further entry; `layers` is
  // their number, or 0.
  std::vector<std::int64_t> widths;
  // Operator graphs (family graph): `layers` is what it divides into, or 0.
  GraphSpec graph;

  // Of the hidden layers (of transformers: of a gelu ffn); a chain's last is the identity: the loss
  // overwrites its output by the gradient, so nothing may need that output afterwards.
  Activation activation = Activation::gelu_tanh;
  Loss loss = Loss::cross_entropy;

  // What its own definition has and the graph here leaves out; planner says so: the probability of
  // dropout; 0: none.
  double dropout = 0;
  // Modules that predict further tokens, one a depth [deepseekv3] section 2.2; how many of them are
  // trained is the question's (GraphOptions::mtp).
  std::int64_t mtp_layers = 0;
  // Keys of its configuration that nobody read and that may matter; planner says which. Not kept in
  // files.
  std::vector<std::string> not_read{};
  // How its configuration was read, where a plan is to say it. Not kept in files.
  std::vector<std::string> read_notes{};

  // Defaults of a job on this model.
  std::int64_t default_seq_len = 1;     // tokens per sample; 1 for chains and graphs
  std::int64_t default_global_batch = 1;  // samples per step

  friend bool operator==(const ModelSpec&, const ModelSpec&) = default;
};

// Of the others a sample is one input (a row of features, an image), not a sequence: seq_len is 1.
inline bool is_transformer(Family family) {
  return family != Family::chain && family != Family::graph;
}
// Whether its loss is a cross-entropy over a vocabulary, of every token.
inline bool has_language_head(const ModelSpec& spec) {
  return is_transformer(spec.family) && spec.variants.decoder_hidden == 0;
}
// Layers, also of a spec that leaves `layers` 0. REQUIRES: check_spec accepts it.
std::int64_t layers_of(const ModelSpec& spec);
// What the family's name says of its blocks.
Variants variants_of(Family family);
// The activation of the family's ffn, where a file names none.
Activation activation_of(Family family);
// Whether a feed-forward has a gate: three matrices, not two.
inline bool is_gated(Ffn ffn) { return ffn != Ffn::gelu; }
// Width of one head. REQUIRES: a transformer that check_spec accepts.
std::int64_t head_dim_of(const ModelSpec& spec);
// The fewest tokens that every expert can have as many of: routing is balanced in windows of so
// many, so that ranks with whole windows of a sample route as one rank with all of it.
// REQUIRES: experts >= chosen >= 1, of which each token takes `chosen`.
std::int64_t routing_window(std::int64_t experts, std::int64_t chosen);

std::string_view name(Family family);
std::string_view name(Activation activation);
std::string_view name(Loss loss);
std::string_view name(Norm norm);
std::string_view name(Positions positions);
std::string_view name(Ffn ffn);
std::string_view name(Residual residual);
std::string_view name(QkNorm norm);
std::string_view name(Scoring scoring);
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
inline constexpr std::int64_t kMaxExperts = 65'536;
inline constexpr std::int64_t kMaxLayerKinds = 64;
inline constexpr std::int64_t kMaxMtpLayers = 16;
inline constexpr double kMaxParameters = 1e15;
inline constexpr double kMaxRotaryBase = 1e12;

}  // namespace models
