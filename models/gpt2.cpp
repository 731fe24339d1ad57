// GPT-2 [gpt2]: pre-norm decoder blocks, learned positions, GELU in its tanh form, output matrix
// tied to the token table. Tensor parallelism is Megatron's [megatron]: the first matrix of a pair
// divided by columns of the result, the second by columns of the input, the vocabulary by rows;
// what a rank computes alone ends in an all-reduce (tensor_reduce), whose counterpart in the
// backward pass is tensor_copy.
#include <algorithm>
#include <cmath>

#include "models/builder.hpp"

namespace models {

namespace {

constexpr double kInitStddev = 0.02;  // [gpt2] as released: every matrix; residual ones / sqrt(2 L)

class Gpt2Builder {
 public:
  Gpt2Builder(const ModelSpec& spec, const GraphOptions& options)
      : spec_(spec), options_(options), s_(options.seq_len), h_(spec.hidden), t_(options.tensor),
        frozen_(options.lora_rank > 0) {}

  Segment prologue() const;
  Segment layer() const;
  Segment epilogue() const;

 private:
  SegmentBuilder begin(const char* name) const { return {name, options_.inference}; }
  Split columns(std::int64_t groups = 1) const { return {0, t_, groups}; }  // of the result
  Split inner() const { return {1, t_, 1}; }                                // of the input

  ParameterIndex matrix(SegmentBuilder& b, const char* name, std::int64_t out, std::int64_t in,
                        Split split = {}, double stddev = kInitStddev) const;
  ParameterIndex vector(SegmentBuilder& b, const std::string& name, std::int64_t n, Init init,
                        Split split = {}) const;
  TensorIndex norm(SegmentBuilder& b, const std::string& name, TensorIndex x) const;
  // A norm's output enters a matrix divided by columns: f where there is more than one rank.
  TensorIndex enter(SegmentBuilder& b, const std::string& name, TensorIndex x) const;
  TensorIndex row_parallel(SegmentBuilder& b, const char* name, TensorIndex x, std::int64_t inputs,
                           const std::vector<std::string>& adapted = {}) const;
  TensorIndex adapt(SegmentBuilder& b, const std::string& name, TensorIndex x, TensorIndex base,
                    std::int64_t inputs, const std::vector<std::string>& targets) const;
  TensorIndex attention_branch(SegmentBuilder& b, TensorIndex x) const;
  TensorIndex mlp_branch(SegmentBuilder& b, TensorIndex x) const;

  const ModelSpec& spec_;
  const GraphOptions& options_;
  const std::int64_t s_, h_, t_;
  const bool frozen_;  // LoRA: base parameters do not train
};

ParameterIndex Gpt2Builder::matrix(SegmentBuilder& b, const char* name, std::int64_t out,
                                   std::int64_t in, Split split, double stddev) const {
  Parameter p = make_parameter(name, {out, in}, split, Init::normal, stddev);
  p.trainable = !frozen_;
  return b.parameter(std::move(p));
}

ParameterIndex Gpt2Builder::vector(SegmentBuilder& b, const std::string& name, std::int64_t n,
                                   Init init, Split split) const {
  Parameter p = make_parameter(name, {n}, split, init);
  p.trainable = !frozen_;
  return b.parameter(std::move(p));
}

TensorIndex Gpt2Builder::norm(SegmentBuilder& b, const std::string& name, TensorIndex x) const {
  const ParameterIndex gamma = vector(b, name + ".weight", h_, Init::one);
  const ParameterIndex beta = vector(b, name + ".bias", h_, Init::zero);
  return layer_norm(b, name, x, s_, h_, {gamma, beta});
}

TensorIndex Gpt2Builder::enter(SegmentBuilder& b, const std::string& name, TensorIndex x) const {
  if (t_ == 1 || options_.inference) return x;  // f matters to the backward pass alone
  return tensor_copy(b, name + ".copy", x, s_, h_);
}

// y = x W^T, summed over ranks, + bias: the bias must not be summed t times, so with t > 1 it
// follows the reduction.
TensorIndex Gpt2Builder::row_parallel(SegmentBuilder& b, const char* name, TensorIndex x,
                                      std::int64_t inputs,
                                      const std::vector<std::string>& adapted) const {
  const std::string base = name;
  const double stddev = kInitStddev / std::sqrt(2.0 * static_cast<double>(spec_.layers));
  const ParameterIndex weight = matrix(b, (base + ".weight").c_str(), h_, inputs, inner(), stddev);
  const ParameterIndex bias = vector(b, base + ".bias", h_, Init::zero);
  const LinearShape shape{s_, h_, inputs / t_};
  TensorIndex y = linear(b, base, x, shape, weight, t_ == 1 ? bias : -1);
  y = adapt(b, base, x, y, inputs, adapted);
  if (t_ == 1) return y;
  y = tensor_reduce(b, base + ".reduce", y, s_, h_);
  return bias_add(b, base + ".bias_add", y, s_, h_, bias);
}

// LoRA [lora] on the chosen column blocks of `base` (q, k, v: blocks 0, 1, 2; o: the only one):
// one down projection for all of them, since they read the same input. Starts at the identity.
TensorIndex Gpt2Builder::adapt(SegmentBuilder& b, const std::string& name, TensorIndex x,
                               TensorIndex base, std::int64_t inputs,
                               const std::vector<std::string>& targets) const {
  const std::int64_t r = options_.lora_rank;
  std::vector<std::int64_t> offsets;
  for (std::size_t block = 0; block < targets.size(); ++block) {
    if (r > 0 && std::ranges::count(options_.lora_targets, targets[block]) > 0)
      offsets.push_back(static_cast<std::int64_t>(block) * h_);
  }
  if (offsets.empty()) return base;
  const auto groups = static_cast<std::int64_t>(offsets.size());
  Parameter a = make_parameter(name + ".lora_a", {groups * r, inputs}, {}, Init::normal,
                               kInitStddev);
  Parameter up = make_parameter(name + ".lora_b", {groups, h_, r}, {}, Init::zero);
  a.adapter = up.adapter = true;
  const ParameterIndex down_weight = b.parameter(std::move(a));
  const ParameterIndex up_weight = b.parameter(std::move(up));
  const TensorIndex u =
      linear(b, name + ".lora_down", x, {s_, groups * r, inputs}, down_weight);
  return lora_up(b, name + ".lora_up", base, u, {s_, h_, r}, up_weight, std::move(offsets));
}

TensorIndex Gpt2Builder::attention_branch(SegmentBuilder& b, TensorIndex x) const {
  const TensorIndex normed = enter(b, "attn", norm(b, "ln_1", x));
  const ParameterIndex weight = matrix(b, "attn.qkv.weight", 3 * h_, h_, columns(3));
  const ParameterIndex bias = vector(b, "attn.qkv.bias", 3 * h_, Init::zero, columns(3));
  TensorIndex qkv = linear(b, "attn.qkv", normed, {s_, 3 * h_ / t_, h_}, weight, bias);
  qkv = adapt(b, "attn.qkv", normed, qkv, h_, {"q", "k", "v"});
  const TensorIndex y =
      attention(b, "attn.core", qkv, s_, spec_.heads / t_, h_ / spec_.heads);
  return row_parallel(b, "attn.proj", y, h_, {"o"});
}

TensorIndex Gpt2Builder::mlp_branch(SegmentBuilder& b, TensorIndex x) const {
  const std::int64_t f = spec_.ffn_hidden;
  const TensorIndex normed = enter(b, "mlp", norm(b, "ln_2", x));
  const ParameterIndex weight = matrix(b, "mlp.fc.weight", f, h_, columns());
  const ParameterIndex bias = vector(b, "mlp.fc.bias", f, Init::zero, columns());
  const TensorIndex up = linear(b, "mlp.fc", normed, {s_, f / t_, h_}, weight, bias);
  return row_parallel(b, "mlp.proj", gelu(b, "mlp.gelu", up, s_, f / t_), f);
}

Segment Gpt2Builder::prologue() const {
  SegmentBuilder b = begin("prologue");
  const TensorIndex tokens = b.tensor("tokens", TensorRole::tokens, s_);
  const ParameterIndex wte = matrix(b, "wte.weight", spec_.vocab, h_, columns());
  const ParameterIndex wpe = matrix(b, "wpe.weight", spec_.positions, h_);
  TensorIndex x = token_embedding(b, "wte", tokens, s_, wte);
  if (t_ > 1) x = tensor_reduce(b, "wte.reduce", x, s_, h_);
  x = position_embedding(b, "wpe", x, s_, wpe);
  return std::move(b).finish(tokens, x);
}

Segment Gpt2Builder::layer() const {
  SegmentBuilder b = begin("layer");
  const TensorIndex x = b.tensor("x", TensorRole::activation, s_ * h_);
  const TensorIndex middle = add(b, "attn.add", x, attention_branch(b, x), s_, h_);
  const TensorIndex y = add(b, "mlp.add", middle, mlp_branch(b, middle), s_, h_);
  return std::move(b).finish(x, y);
}

Segment Gpt2Builder::epilogue() const {
  SegmentBuilder b = begin("epilogue");
  const TensorIndex x = b.tensor("x", TensorRole::activation, s_ * h_);
  const TensorIndex normed = enter(b, "head", norm(b, "ln_f", x));
  Parameter head = make_parameter("lm_head.weight", {spec_.vocab, h_}, columns(), Init::normal,
                                  kInitStddev);
  head.trainable = !frozen_;
  if (spec_.tied_embeddings) head.tied_to = "wte.weight";
  const std::int64_t columns_here = head.shape[0];
  const ParameterIndex weight = b.parameter(std::move(head));
  const TensorIndex logits =
      linear(b, "head", normed, {s_, columns_here, h_}, weight, -1, TensorRole::logits);
  if (options_.inference) return std::move(b).finish(x, logits);
  const TensorIndex targets = b.tensor("targets", TensorRole::tokens, s_);
  cross_entropy_loss(b, logits, targets, s_, columns_here, t_);
  return std::move(b).finish(x, kNoTensor);
}

}  // namespace

ModelGraph build_gpt2(const ModelSpec& spec, const GraphOptions& options) {
  ModelGraph graph;
  graph.spec = spec;
  graph.options = options;
  const Gpt2Builder builder(graph.spec, graph.options);
  graph.prologue = builder.prologue();
  graph.templates.push_back(builder.layer());
  graph.layer_template.assign(static_cast<std::size_t>(spec.layers), 0);
  graph.epilogue = builder.epilogue();
  return graph;
}

}  // namespace models
