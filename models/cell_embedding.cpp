// The ends of a transformer that embeds cells [uce]: tokens arrive as features, and the result is
// one embedding of each sample. Neither end is divided over tensor ranks.
#include "models/builder.hpp"

namespace models {

namespace {

class EndBuilder {
 public:
  EndBuilder(const char* name, const GraphOptions& options)
      : b_(name, options.inference), frozen_(options.lora_rank > 0), rows_(options.seq_len) {}

  SegmentBuilder& segment() { return b_; }

  TensorIndex linear(const std::string& name, TensorIndex x, std::int64_t to, std::int64_t from) {
    const ParameterIndex weight = add(
        make_parameter(name + ".weight", {to, from}, {}, Init::normal, kInitStddev));
    const ParameterIndex bias = add(make_parameter(name + ".bias", {to}, {}, Init::zero));
    return models::linear(b_, name, x, {rows_, to, from}, weight, bias);
  }
  TensorIndex norm(const std::string& name, TensorIndex x, std::int64_t n) {
    const ParameterIndex gamma = add(make_parameter(name + ".weight", {n}, {}, Init::one));
    const ParameterIndex beta = add(make_parameter(name + ".bias", {n}, {}, Init::zero));
    return layer_norm(b_, name, x, rows_, n, {gamma, beta});
  }
  TensorIndex gelu(const std::string& name, TensorIndex x, std::int64_t n) {
    return unary(b_, name, OpKind::gelu, x, rows_, n, {.form = Activation::gelu_erf});
  }

 private:
  ParameterIndex add(Parameter p) {
    p.trainable = !frozen_;
    return b_.parameter(std::move(p));
  }

  SegmentBuilder b_;
  const bool frozen_;  // LoRA adapts the blocks alone
  const std::int64_t rows_;
};

}  // namespace

// [uce] model.py, `encoder`: what a token arrives as, to the width of the blocks.
Segment token_encoder(const ModelSpec& spec, const GraphOptions& options) {
  EndBuilder end("prologue", options);
  const std::int64_t n = spec.variants.token_features, h = spec.hidden;
  const TensorIndex features =
      end.segment().tensor("features", TensorRole::features, options.seq_len * n);
  const TensorIndex x = end.linear("encoder", features, h, n);
  const TensorIndex y = end.norm("encoder.norm", end.gelu("encoder.gelu", x, h), h);
  return std::move(end.segment()).finish(features, y);
}

// [uce] model.py, `decoder`: three blocks of linear, norm and GELU and a last linear, for every
// token; the first token's is the sample's embedding. The loss compares it with a target: the
// binary task over genes that trains it is not published with its sizes, and is left out.
Segment cell_decoder(const ModelSpec& spec, const GraphOptions& options) {
  EndBuilder end("epilogue", options);
  SegmentBuilder& b = end.segment();
  const std::int64_t h = spec.hidden;
  const TensorIndex x = b.tensor("x", TensorRole::activation, options.seq_len * h);
  TensorIndex y = x;
  const std::int64_t widths[] = {h, spec.variants.decoder_hidden, h, h};
  for (int i = 0; i < 3; ++i) {
    const std::string name = "decoder." + std::to_string(i);
    const std::int64_t to = widths[i + 1];
    y = end.norm(name + ".norm", end.linear(name, y, to, widths[i]), to);
    y = end.gelu(name + ".gelu", y, to);
  }
  y = end.linear("decoder.3", y, h, h);
  const TensorIndex cell = first_token(b, "cell", y, h);
  if (options.inference) return std::move(b).finish(x, cell);
  squared_error_loss(b, cell, b.tensor("targets", TensorRole::features, h), h);
  return std::move(b).finish(x, kNoTensor);
}

}  // namespace models
