// Transformers: GPT-2 [gpt2] and what its descendants changed, which Variants states. Tensor
// parallelism is Megatron's [megatron]: the first matrix of a pair divided by columns of the
// result, the second by columns of the input, the vocabulary by rows; what a rank computes alone
// ends in an all-reduce (tensor_reduce), whose counterpart in the backward pass is tensor_copy.
//
// Two hooks hold what surrounds a divided pair: `enter` before its first matrix, `leave` after its
// second.
#include <algorithm>
#include <cmath>
#include <utility>

#include "models/transformer_builder.hpp"

namespace models {

ParameterIndex TransformerBuilder::matrix(SegmentBuilder& b, const std::string& name,
                                          std::int64_t out, std::int64_t in, Split split,
                                          double stddev) const {
  Parameter p = make_parameter(name, {out, in}, split, Init::normal, stddev);
  p.trainable = !frozen_;
  p.tensor_partial = split_rows_ && split.axis < 0;
  return b.parameter(std::move(p));
}

ParameterIndex TransformerBuilder::vector(SegmentBuilder& b, const std::string& name,
                                          std::int64_t n, Init init, Split split,
                                          bool partial) const {
  Parameter p = make_parameter(name, {n}, split, init);
  p.trainable = !frozen_;
  p.tensor_partial = partial || (split_rows_ && split.axis < 0);
  return b.parameter(std::move(p));
}

TensorIndex TransformerBuilder::norm(SegmentBuilder& b, const std::string& name, TensorIndex x,
                                     std::int64_t n) const {
  const ParameterIndex gamma =
      vector(b, name + ".weight", n, v_.norm_offset ? Init::zero : Init::one);
  if (v_.norm == Norm::rms_norm)
    return rms_norm(b, name, x, r_, n, gamma, v_.norm_offset ? 1 : 0);
  const ParameterIndex beta = bias(b, v_.norm_bias, name + ".bias", n);
  return layer_norm(b, name, x, r_, n, {gamma, beta});
}

// x enters a matrix divided by columns: f where there is more than one rank, or all rows where each
// rank has some.
TensorIndex TransformerBuilder::enter(SegmentBuilder& b, const std::string& name, TensorIndex x,
                                      std::int64_t n) const {
  if (split_rows_) return sequence_gather(b, name + ".gather", x, s_, n);
  if (t_ == 1 || options_.inference) return x;  // f matters to the backward pass alone
  return tensor_copy(b, name + ".copy", x, s_, n);
}

// y = x W^T, W divided by columns of the input. The bias must not be summed t times, so with t > 1
// it follows the reduction.
Branch TransformerBuilder::row_matrix(SegmentBuilder& b, const std::string& base, TensorIndex x,
                                      std::int64_t inputs, bool with_bias,
                                      const std::vector<std::string>& adapted) const {
  const double stddev = kInitStddev / std::sqrt(2.0 * static_cast<double>(spec_.layers));
  const ParameterIndex weight = matrix(b, base + ".weight", h_, inputs, inner(), stddev);
  const ParameterIndex own = bias(b, with_bias, base + ".bias", h_);
  const LinearShape shape{s_, h_, inputs / t_};
  TensorIndex y = linear(b, base, x, shape, weight, t_ == 1 ? own : -1);
  std::vector<AdaptedBlock> blocks;
  for (const std::string& target : adapted) blocks.push_back({target, 0, h_});
  y = adapt(b, base, x, y, inputs, blocks, By::inner);
  return {y, t_ == 1 ? -1 : own};
}

// Sums what each rank computed alone, and adds the biases that waited for it.
TensorIndex TransformerBuilder::leave(SegmentBuilder& b, const std::string& name, TensorIndex y,
                                      const std::vector<Branch>& branches) const {
  if (t_ == 1) return y;
  y = split_rows_ ? sequence_scatter(b, name + ".scatter", y, s_, h_, t_)
                  : tensor_reduce(b, name + ".reduce", y, s_, h_);
  for (const Branch& branch : branches) {
    if (branch.bias < 0) continue;
    const std::string of = b.without_prefix(b.parameter_at(branch.bias).name);  // "attn.proj.bias"
    y = bias_add(b, of + "_add", y, r_, h_, branch.bias);
  }
  return y;
}

TensorIndex TransformerBuilder::row_parallel(SegmentBuilder& b, const std::string& name,
                                             const Branch& branch) const {
  return leave(b, name, branch.y, {branch});
}

// LoRA [lora] on column blocks of `base` (q, k, v; gate, up; o and down each are a whole matrix):
// one down projection for blocks of one width, which read the same input. Starts at the identity.
// Divided like its matrix: A by its input or B by its result; the other's gradients are summed.
TensorIndex TransformerBuilder::adapt_equal(SegmentBuilder& b, const std::string& name,
                                            TensorIndex x, TensorIndex base, std::int64_t inputs,
                                            const std::vector<AdaptedBlock>& blocks,
                                            By by) const {
  const bool columns_divided = by == By::columns;
  const std::int64_t r = options_.lora_rank, ways = columns_divided ? t_ : 1;
  const std::int64_t full_width = blocks.front().width, width = full_width / ways;
  std::vector<std::int64_t> offsets;
  for (const AdaptedBlock& block : blocks) offsets.push_back(block.offset / ways);
  const auto groups = static_cast<std::int64_t>(offsets.size());
  Parameter a = make_parameter(name + ".lora_a", {groups * r, inputs},
                               columns_divided ? Split{} : inner(), Init::normal, kInitStddev);
  Parameter up = make_parameter(name + ".lora_b", {groups, full_width, r},
                                columns_divided ? Split{1, t_, 1} : Split{}, Init::zero);
  a.adapter = up.adapter = true;
  (columns_divided ? a : up).tensor_partial = t_ > 1;
  const ParameterIndex down_weight = b.parameter(std::move(a));
  const ParameterIndex up_weight = b.parameter(std::move(up));
  const std::int64_t inputs_here = columns_divided ? inputs : inputs / t_;
  const TensorIndex u =
      wide_linear(b, name + ".lora_down", x, {s_, groups * r, inputs_here}, down_weight);
  return lora_up(b, name + ".lora_up", base, u, {s_, width, r}, up_weight, std::move(offsets));
}

TensorIndex TransformerBuilder::adapt(SegmentBuilder& b, const std::string& name, TensorIndex x,
                                      TensorIndex base, std::int64_t inputs,
                                      const std::vector<AdaptedBlock>& blocks, By by) const {
  std::vector<AdaptedBlock> wide, narrow;  // queries; keys and values of grouped queries
  for (const AdaptedBlock& block : blocks) {
    if (options_.lora_rank == 0 || std::ranges::count(options_.lora_targets, block.target) == 0)
      continue;
    (block.width == blocks.front().width ? wide : narrow).push_back(block);
  }
  if (!wide.empty()) base = adapt_equal(b, name, x, base, inputs, wide, by);
  if (!narrow.empty()) base = adapt_equal(b, name + ".kv", x, base, inputs, narrow, by);
  return base;
}

// What a branch adds to the residual stream: normed where norms follow branches, and scaled.
TensorIndex TransformerBuilder::joined(SegmentBuilder& b, const std::string& name,
                                       const std::string& norm_name, TensorIndex x,
                                       TensorIndex y) const {
  const bool after = v_.residual == Residual::post_branch || v_.residual == Residual::sandwich;
  if (after) y = norm(b, norm_name, y);
  if (v_.residual_scale != 1) y = scale(b, name + ".scale", y, r_, h_, v_.residual_scale);
  return add(b, name + ".add", x, y, r_, h_);
}

// One branch after the other; of post_branch [olmo2] no norm stands before them.
TensorIndex TransformerBuilder::serial_layer(SegmentBuilder& b, TensorIndex x) const {
  const bool before = v_.residual != Residual::post_branch;
  const TensorIndex first = before ? norm(b, "ln_1", x) : x;
  const TensorIndex attended = row_parallel(b, "attn.proj", attend(b, first));
  const TensorIndex middle = joined(b, "attn", before ? "ln_1_post" : "ln_1", x, attended);
  const TensorIndex second = before ? norm(b, "ln_2", middle) : middle;
  const TensorIndex fed = v_.experts > 0 ? mixture(b, second)
                                         : row_parallel(b, "mlp.proj", feed(b, second));
  return joined(b, "mlp", before ? "ln_2_post" : "ln_2", middle, fed);
}

// [gpt_neox]: both branches read x, and one reduction sums both. The norms come first, so that in
// the backward pass both branches are done with the gradient of the sum before a norm adds to it.
// Of a shared norm [cohere] both read one result, which enters their matrices once.
TensorIndex TransformerBuilder::parallel_layer(SegmentBuilder& b, TensorIndex x) const {
  const TensorIndex first = norm(b, "ln_1", x);
  const bool shared = v_.shared_norm && v_.kv_rank == 0;
  const TensorIndex second = v_.shared_norm ? first : norm(b, "ln_2", x);
  const TensorIndex entered = shared ? enter(b, "attn", first) : kNoTensor;
  const Branch attended = shared ? attention_branch(b, entered) : attend(b, first);
  const Branch fed = shared ? dense_branch(b, entered) : feed(b, second);
  const TensorIndex sum = add(b, "branches.add", attended.y, fed.y, s_, h_);
  return joined(b, "layer", "", x, leave(b, "branches", sum, {attended, fed}));
}

// [bert], as in the first transformer.
TensorIndex TransformerBuilder::post_norm_layer(SegmentBuilder& b, TensorIndex x) const {
  const TensorIndex sum =
      joined(b, "attn", "", x, row_parallel(b, "attn.proj", attend(b, x)));
  const TensorIndex middle = norm(b, "ln_1", sum);
  const TensorIndex both =
      joined(b, "mlp", "", middle, row_parallel(b, "mlp.proj", feed(b, middle)));
  return norm(b, "ln_2", both);
}

// Each rank looks up the tokens of its part of the vocabulary; the sum over ranks has all.
TensorIndex TransformerBuilder::embedded(SegmentBuilder& b, TensorIndex tokens,
                                         ParameterIndex table) const {
  TensorIndex x = token_embedding(b, "wte", tokens, s_, table);
  if (split_rows_)
    x = sequence_scatter(b, "wte.scatter", x, s_, h_, t_);
  else if (t_ > 1)
    x = tensor_reduce(b, "wte.reduce", x, s_, h_);
  return v_.embedding_scale == 1 ? x : scale(b, "wte.scale", x, r_, h_, v_.embedding_scale);
}

Segment TransformerBuilder::prologue() const {
  if (v_.token_features > 0) return token_encoder(spec_, options_);
  SegmentBuilder b = begin("prologue");
  const TensorIndex tokens = b.tensor("tokens", TensorRole::tokens, s_);
  const ParameterIndex wte = matrix(b, kTokenTable, spec_.vocab, h_, columns());
  const bool table = v_.position_kind == Positions::learned;
  const ParameterIndex wpe = table ? matrix(b, "wpe.weight", spec_.positions, h_) : -1;
  TensorIndex x = embedded(b, tokens, wte);
  if (table) x = position_embedding(b, "wpe", x, r_, wpe);
  if (v_.token_types > 0) {
    const TensorIndex types = b.tensor("token_types", TensorRole::tokens, s_);
    x = type_embedding(b, "wtt", x, types, r_, matrix(b, "wtt.weight", v_.token_types, h_));
  }
  if (v_.embedding_norm) x = norm(b, "ln_e", x);
  return std::move(b).finish(tokens, x);
}

TensorIndex TransformerBuilder::branches(SegmentBuilder& b, TensorIndex x) const {
  switch (v_.residual) {
    case Residual::parallel: return parallel_layer(b, x);
    case Residual::post: return post_norm_layer(b, x);
    default: return serial_layer(b, x);
  }
}

Segment TransformerBuilder::layer() const {
  SegmentBuilder b = begin("layer");
  const TensorIndex x = b.tensor("x", TensorRole::activation, r_ * h_);
  const TensorIndex y = branches(b, x);
  return std::move(b).finish(x, y);
}

// The pooled token feeds a sentence task that is not part of this loss: it is computed, and its
// parameters take no gradient.
void TransformerBuilder::pool_first(SegmentBuilder& b, TensorIndex x) const {
  const TensorIndex first = first_token(b, "pooler.first", x, h_);
  const ParameterIndex weight = matrix(b, "pooler.weight", h_, h_);
  const ParameterIndex own = vector(b, "pooler.bias", h_, Init::zero);
  dense(b, "pooler", first, {1, h_, h_}, weight, own, Activation::tanh, TensorRole::activation);
}

// The head's matrix is the model's own or the table of embeddings, and made where it is first asked
// for.
ParameterIndex TransformerBuilder::head_weight(SegmentBuilder& b, Head& head) const {
  if (head.weight >= 0) return head.weight;
  Parameter weight = make_parameter("lm_head.weight", {spec_.vocab, h_}, columns(), Init::normal,
                                    kInitStddev);
  weight.trainable = !frozen_;
  if (spec_.tied_embeddings) weight.tied_to = kTokenTable;
  head.columns = weight.shape[0];
  const std::string prefix = std::exchange(b.prefix, {});  // whoever asks, it is the model's
  head.weight = b.parameter(std::move(weight));
  head.bias = bias(b, v_.head_bias, "lm_head.bias", spec_.vocab, columns());
  b.prefix = prefix;
  return head.weight;
}

// Logits of a normed result.
TensorIndex TransformerBuilder::logits(SegmentBuilder& b, TensorIndex last, Head& head) const {
  const TensorIndex normed = enter(b, "head", last);
  const ParameterIndex weight = head_weight(b, head);
  // A bias, operators between the head and its loss, and readers of an inference want no gaps.
  const bool plain = v_.logit_scale == 1 && v_.logit_soft_cap == 0 && head.bias < 0 &&
                     !options_.inference;
  const std::int64_t row = plain ? logit_row(head.columns, options_.kept) : head.columns;
  TensorIndex y = wide_linear(b, "head", normed, {s_, head.columns, h_, row}, weight,
                              TensorRole::logits, head.bias);
  if (v_.logit_scale != 1) y = scale(b, "head.scale", y, s_, head.columns, v_.logit_scale);
  if (v_.logit_soft_cap > 0)
    y = unary(b, "head.cap", OpKind::soft_cap, y, s_, head.columns,
              {.factor = v_.logit_soft_cap, .role = TensorRole::logits});
  return y;
}

Segment TransformerBuilder::epilogue() const {
  if (v_.decoder_hidden > 0) return cell_decoder(spec_, options_);
  SegmentBuilder b = begin("epilogue");
  const TensorIndex x = b.tensor("x", TensorRole::activation, r_ * h_);
  if (v_.pooler) pool_first(b, x);
  Head head;
  if (options_.mtp > 0) predict_further(b, x, head);
  const TensorIndex last = v_.residual == Residual::post ? x : norm(b, "ln_f", x);
  const TensorIndex y = logits(b, last, head);
  if (options_.inference) return std::move(b).finish(x, y);
  cross_entropy_loss(b, y, b.tokens("targets", s_, 1), s_, head.columns, t_);
  return std::move(b).finish(x, kNoTensor);
}

ModelGraph build_transformer(const ModelSpec& spec, const GraphOptions& options) {
  ModelGraph graph;
  graph.spec = spec;
  graph.options = options;
  const TransformerBuilder ends(graph.spec, {{}, spec.ffn_hidden, graph.spec.variants},
                                graph.options);
  graph.prologue = ends.prologue();
  for_each_kind(graph.spec, [&](const LayerView& kind) {
    graph.templates.push_back(TransformerBuilder(graph.spec, kind, graph.options).layer());
  });
  graph.layer_template = kind_of_layers(graph.spec);
  graph.epilogue = ends.epilogue();
  return graph;
}

}  // namespace models
