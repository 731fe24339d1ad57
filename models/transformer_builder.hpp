#pragma once
// Private to the builders of transformers: one kind of layer and the model's ends, appended to
// segments. Holds references to the spec and the options, which outlive it; thread-safe to read.

#include <string>
#include <vector>

#include "models/builder.hpp"
#include "models/layer_kinds.hpp"

namespace models {

struct AdaptedBlock {                   // columns of a matrix's result that LoRA may adapt
  std::string target;                   // q, k, v or o
  std::int64_t offset = 0, width = 0;
};

inline constexpr const char* kTokenTable = "wte.weight";  // the prologue's

struct Branch {                         // what a rank computed alone, and what follows the sum
  TensorIndex y = kNoTensor;
  ParameterIndex bias = -1;             // not added yet; -1: none, or added
};

class TransformerBuilder {
 public:
  TransformerBuilder(const ModelSpec& spec, const LayerView& kind, const GraphOptions& options)
      : spec_(spec),
        v_(kind.variants),
        ffn_hidden_(kind.ffn_hidden),
        options_(options),
        s_(options.seq_len / options.context),
        h_(spec.hidden),
        d_(head_dim_of(spec)),
        t_(options.tensor),
        split_rows_(options.sequence_parallel && options.tensor > 1),
        r_(split_rows_ ? s_ / options.tensor : s_),
        frozen_(options.lora_rank > 0) {}

  Segment prologue() const;
  Segment layer() const;
  Segment epilogue() const;

 private:
  SegmentBuilder begin(const char* name) const {
    return {name, options_.inference, options_.kept};
  }
  Split columns(std::int64_t groups = 1) const { return {0, t_, groups}; }  // of the result
  Split inner() const { return {1, t_, 1}; }                                // of the input

  ParameterIndex matrix(SegmentBuilder& b, const std::string& name, std::int64_t out,
                        std::int64_t in, Split split = {}, double stddev = kInitStddev) const;
  ParameterIndex vector(SegmentBuilder& b, const std::string& name, std::int64_t n, Init init,
                        Split split = {}, bool partial = false) const;
  ParameterIndex bias(SegmentBuilder& b, bool wanted, const std::string& name, std::int64_t n,
                      Split split = {}) const {
    return wanted ? vector(b, name, n, Init::zero, split) : -1;
  }
  TensorIndex norm(SegmentBuilder& b, const std::string& name, TensorIndex x,
                   std::int64_t n) const;
  TensorIndex norm(SegmentBuilder& b, const std::string& name, TensorIndex x) const {
    return norm(b, name, x, h_);
  }
  TensorIndex enter(SegmentBuilder& b, const std::string& name, TensorIndex x,
                    std::int64_t n) const;
  TensorIndex enter(SegmentBuilder& b, const std::string& name, TensorIndex x) const {
    return enter(b, name, x, h_);
  }
  Branch row_matrix(SegmentBuilder& b, const std::string& base, TensorIndex x, std::int64_t inputs,
                    bool with_bias, const std::vector<std::string>& adapted = {}) const;
  TensorIndex leave(SegmentBuilder& b, const std::string& name, TensorIndex y,
                    const std::vector<Branch>& branches) const;
  TensorIndex row_parallel(SegmentBuilder& b, const std::string& name, const Branch& branch) const;
  enum class By : std::uint8_t { columns, inner };  // how the adapted matrix is divided
  TensorIndex adapt(SegmentBuilder& b, const std::string& name, TensorIndex x, TensorIndex base,
                    std::int64_t inputs, const std::vector<AdaptedBlock>& blocks, By by) const;
  TensorIndex adapt_equal(SegmentBuilder& b, const std::string& name, TensorIndex x,
                          TensorIndex base, std::int64_t inputs,
                          const std::vector<AdaptedBlock>& blocks, By by) const;

  // transformer_attention.cpp
  Branch attend(SegmentBuilder& b, TensorIndex normed) const;
  Branch attention_branch(SegmentBuilder& b, TensorIndex entered) const;
  Branch latent_branch(SegmentBuilder& b, TensorIndex normed) const;
  TensorIndex qkv(SegmentBuilder& b, TensorIndex normed) const;
  TensorIndex normed_heads(SegmentBuilder& b, TensorIndex x, const HeadShape& shape) const;
  TensorIndex core(SegmentBuilder& b, TensorIndex x, const HeadShape& shape) const;
  TensorIndex latent(SegmentBuilder& b, const std::string& name, TensorIndex normed,
                     std::int64_t rank) const;

  // transformer_feed_forward.cpp
  struct Feed {                         // a dense feed-forward; adapts: LoRA may
    std::string name;
    std::int64_t width = 0;
    bool adapts = true;
  };
  Feed dense_feed() const { return {"mlp", ffn_hidden_, true}; }
  Branch feed(SegmentBuilder& b, TensorIndex normed) const;
  Branch dense_branch(SegmentBuilder& b, TensorIndex entered) const;
  Branch ffn_branch(SegmentBuilder& b, TensorIndex entered, const Feed& of) const;
  TensorIndex activated(SegmentBuilder& b, TensorIndex entered, const Feed& of) const;
  TensorIndex mixture(SegmentBuilder& b, TensorIndex normed) const;
  TensorIndex experts_branch(SegmentBuilder& b, TensorIndex normed) const;
  TensorIndex whole_experts_branch(SegmentBuilder& b, TensorIndex normed) const;
  ExpertsShape experts_shape(std::int64_t rows) const;
  ExpertsInit experts_init() const;
  Router router() const {
    return {v_.scoring == Scoring::sigmoid, v_.normalised_gates, v_.gate_scale, v_.expert_groups,
            v_.groups_per_token};
  }
  TensorIndex shared_expert(SegmentBuilder& b, TensorIndex normed, TensorIndex entered) const;
  TensorIndex whole_shared_expert(SegmentBuilder& b, TensorIndex normed) const;
  TensorIndex router_logits(SegmentBuilder& b, const std::string& name, TensorIndex normed,
                            std::int64_t n, bool with_bias) const;

  // transformer_mtp.cpp
  struct Head {                         // of the vocabulary
    ParameterIndex weight = -1, bias = -1;
    std::int64_t columns = 0;           // on this rank
  };
  void predict_further(SegmentBuilder& b, TensorIndex x, Head& head) const;
  ParameterIndex token_table(SegmentBuilder& b, Head& head) const;

  ParameterIndex head_weight(SegmentBuilder& b, Head& head) const;
  TensorIndex logits(SegmentBuilder& b, TensorIndex last, Head& head) const;
  TensorIndex embedded(SegmentBuilder& b, TensorIndex tokens, ParameterIndex table) const;
  TensorIndex branches(SegmentBuilder& b, TensorIndex x) const;
  TensorIndex joined(SegmentBuilder& b, const std::string& name, const std::string& norm_name,
                     TensorIndex x, TensorIndex y) const;
  TensorIndex serial_layer(SegmentBuilder& b, TensorIndex x) const;
  TensorIndex parallel_layer(SegmentBuilder& b, TensorIndex x) const;
  TensorIndex post_norm_layer(SegmentBuilder& b, TensorIndex x) const;
  void pool_first(SegmentBuilder& b, TensorIndex x) const;

  const ModelSpec& spec_;
  const Variants& v_;
  const std::int64_t ffn_hidden_;
  const GraphOptions& options_;
  const std::int64_t s_, h_, d_, t_;
  const bool split_rows_;  // sequence parallelism
  const std::int64_t r_;   // rows of the residual stream on this rank
  const bool frozen_;  // LoRA: base parameters do not train
};

}  // namespace models
