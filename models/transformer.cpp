// Transformers: GPT-2 [gpt2] and what its descendants changed, which Variants states. Tensor
// parallelism is Megatron's [megatron]: the first matrix of a pair divided by columns of the
// result, the second by columns of the input, the vocabulary by rows; what a rank computes alone
// ends in an all-reduce (tensor_reduce), whose counterpart in the backward pass is tensor_copy.
//
// Two hooks hold what surrounds a divided pair: `enter` before its first matrix, `leave` after its
// second.
#include <algorithm>
#include <cmath>

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

TensorIndex TransformerBuilder::norm(SegmentBuilder& b, const std::string& name,
                                     TensorIndex x) const {
  const ParameterIndex gamma = vector(b, name + ".weight", h_, Init::one);
  if (v_.norm == Norm::rms_norm) return rms_norm(b, name, x, r_, h_, gamma);
  const ParameterIndex beta = bias(b, v_.norm_bias, name + ".bias", h_);
  return layer_norm(b, name, x, r_, h_, {gamma, beta});
}

// x enters a matrix divided by columns: f where there is more than one rank, or all rows where each
// rank has some.
TensorIndex TransformerBuilder::enter(SegmentBuilder& b, const std::string& name,
                                      TensorIndex x) const {
  if (split_rows_) return sequence_gather(b, name + ".gather", x, s_, h_);
  if (t_ == 1 || options_.inference) return x;  // f matters to the backward pass alone
  return tensor_copy(b, name + ".copy", x, s_, h_);
}

// y = x W^T, W divided by columns of the input. The bias must not be summed t times, so with t > 1
// it follows the reduction.
Branch TransformerBuilder::row_matrix(SegmentBuilder& b, const char* name, TensorIndex x,
                                      std::int64_t inputs, bool with_bias,
                                      const std::vector<std::string>& adapted) const {
  const std::string base = name;
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
    const std::string of = b.parameter_at(branch.bias).name;  // "attn.proj.bias"
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

// Queries, keys and values in one matrix, each divided over the ranks by itself.
TensorIndex TransformerBuilder::qkv(SegmentBuilder& b, TensorIndex normed) const {
  const std::int64_t q = spec_.heads * d_, kv = spec_.kv_heads * d_, n = q + 2 * kv;
  const Split split = columns(q == kv ? 3 : 1);
  const auto with_blocks = [&](Parameter p) {
    if (q != kv) p.split_blocks = {q, kv, kv};
    p.trainable = !frozen_;
    return b.parameter(std::move(p));
  };
  const ParameterIndex weight = with_blocks(
      make_parameter("attn.qkv.weight", {n, h_}, split, Init::normal, kInitStddev));
  const ParameterIndex own =
      v_.qkv_bias ? with_blocks(make_parameter("attn.qkv.bias", {n}, split, Init::zero)) : -1;
  const TensorIndex y = linear(b, "attn.qkv", normed, {s_, n / t_, h_}, weight, own);
  return adapt(b, "attn.qkv", normed, y, h_, {{"q", 0, q}, {"k", q, kv}, {"v", q + kv, kv}},
               By::columns);
}

Branch TransformerBuilder::attention_branch(SegmentBuilder& b, TensorIndex entered) const {
  const HeadShape shape{spec_.heads / t_, spec_.kv_heads / t_, d_};
  TensorIndex x = qkv(b, entered);
  if (v_.qk_norm) {  // one head wide and shared by all heads, of which each rank has some
    const auto gamma = [&](const char* of) { return vector(b, of, d_, Init::one, {}, t_ > 1); };
    const ParameterIndex q = gamma("attn.q_norm.weight"), k = gamma("attn.k_norm.weight");
    x = qk_norm(b, "attn.qk_norm", x, s_, shape, q, k);
  }
  if (v_.position_kind == Positions::rotary) {
    const double share = v_.rotary_fraction * static_cast<double>(d_);
    x = rope(b, "attn.rope", x, s_, shape, static_cast<std::int64_t>(share));
  }
  const bool alibi = v_.position_kind == Positions::alibi;
  TensorIndex y = kNoTensor;
  if (options_.exchange_heads && options_.context > 1) {
    const std::int64_t c = options_.context;
    const TensorIndex all_rows = head_exchange(b, "attn.to_heads", x, s_, shape);
    y = attention(b, "attn.core", all_rows, options_.seq_len,
                  {shape.heads / c, shape.kv_heads / c, d_}, {v_.causal, alibi, 0});
    y = row_exchange(b, "attn.to_rows", y, s_, shape);
  } else {
    y = attention(b, "attn.core", x, s_, shape, {v_.causal, alibi, options_.seq_len});
  }
  return row_matrix(b, "attn.proj", y, spec_.heads * d_, v_.output_bias, {"o"});
}

Branch TransformerBuilder::ffn_branch(SegmentBuilder& b, TensorIndex entered) const {
  const std::int64_t f = ffn_hidden_;
  TensorIndex y = kNoTensor;
  if (v_.ffn == Ffn::swiglu) {
    const ParameterIndex weight = matrix(b, "mlp.gate_up.weight", 2 * f, h_, columns(2));
    const ParameterIndex own = bias(b, v_.ffn_bias, "mlp.gate_up.bias", 2 * f, columns(2));
    const TensorIndex both =
        adapt(b, "mlp.gate_up", entered,
              linear(b, "mlp.gate_up", entered, {s_, 2 * f / t_, h_}, weight, own), h_,
              {{"gate", 0, f}, {"up", f, f}}, By::columns);
    y = swiglu(b, "mlp.swiglu", both, s_, f / t_);
  } else {
    const ParameterIndex weight = matrix(b, "mlp.fc.weight", f, h_, columns());
    const ParameterIndex own = bias(b, v_.ffn_bias, "mlp.fc.bias", f, columns());
    const TensorIndex up =
        adapt(b, "mlp.fc", entered, linear(b, "mlp.fc", entered, {s_, f / t_, h_}, weight, own),
              h_, {{"up", 0, f}}, By::columns);
    const bool plain = spec_.activation == Activation::relu;
    y = plain ? unary(b, "mlp.relu", OpKind::relu, up, s_, f / t_, {.in_place = true})
              : unary(b, "mlp.gelu", OpKind::gelu, up, s_, f / t_, {.form = spec_.activation});
  }
  return row_matrix(b, "mlp.proj", y, f, v_.ffn_bias, {"down"});
}

// Mixture of experts [mixtral]. A tensor rank's outputs are partial sums, and so is what its gates
// are told. Their gradients add up over the ranks (tensor_copy) before a router that reads all
// rows; with sequence parallelism a router reads its rank's rows, the logits are gathered, and
// their gradients, linear in those of the gates, add up on the way back.
TensorIndex TransformerBuilder::experts_branch(SegmentBuilder& b, TensorIndex normed) const {
  const std::int64_t e = v_.experts, k = v_.experts_per_token;
  const ParameterIndex router = matrix(b, "moe.router.weight", e, h_);
  TensorIndex logits = wide_linear(b, "moe.router", normed, {r_, e, h_}, router);
  if (split_rows_) logits = sequence_gather(b, "moe.router.gather", logits, s_, e);
  Routing routing = top_k(b, "moe.top_k", logits, s_, e, k);
  if (t_ > 1 && !split_rows_ && !options_.inference)
    routing.gates = tensor_copy(b, "moe.gates.copy", routing.gates, s_, k);
  const TensorIndex entered = enter(b, "moe", normed);
  const ExpertsShape shape{.rows = s_, .hidden = h_, .ffn_hidden = ffn_hidden_, .experts = e,
                           .chosen = k, .tensor = t_, .ways = options_.expert};
  const double stddev = kInitStddev / std::sqrt(2.0 * static_cast<double>(spec_.layers));
  return leave(b, "moe", experts(b, entered, routing, shape, {kInitStddev, stddev, frozen_}), {});
}

TensorIndex TransformerBuilder::pre_norm_layer(SegmentBuilder& b, TensorIndex x) const {
  const TensorIndex first = enter(b, "attn", norm(b, "ln_1", x));
  const TensorIndex attended = row_parallel(b, "attn.proj", attention_branch(b, first));
  const TensorIndex middle = add(b, "attn.add", x, attended, r_, h_);
  const TensorIndex second = norm(b, "ln_2", middle);
  const TensorIndex fed =
      v_.experts > 0 ? experts_branch(b, second)
                     : row_parallel(b, "mlp.proj", ffn_branch(b, enter(b, "mlp", second)));
  return add(b, "mlp.add", middle, fed, r_, h_);
}

// [gpt_neox]: both branches read x, and one reduction sums both. The norms come first, so that in
// the backward pass both branches are done with the gradient of the sum before a norm adds to it.
TensorIndex TransformerBuilder::parallel_layer(SegmentBuilder& b, TensorIndex x) const {
  const TensorIndex first = norm(b, "ln_1", x), second = norm(b, "ln_2", x);
  const Branch attended = attention_branch(b, enter(b, "attn", first));
  const Branch fed = ffn_branch(b, enter(b, "mlp", second));
  const TensorIndex sum = add(b, "branches.add", attended.y, fed.y, s_, h_);
  return add(b, "layer.add", x, leave(b, "branches", sum, {attended, fed}), r_, h_);
}

// [bert], as in the first transformer.
TensorIndex TransformerBuilder::post_norm_layer(SegmentBuilder& b, TensorIndex x) const {
  const Branch attended = attention_branch(b, enter(b, "attn", x));
  const TensorIndex sum = add(b, "attn.add", x, row_parallel(b, "attn.proj", attended), r_, h_);
  const TensorIndex middle = norm(b, "ln_1", sum);
  const Branch fed = ffn_branch(b, enter(b, "mlp", middle));
  const TensorIndex both = add(b, "mlp.add", middle, row_parallel(b, "mlp.proj", fed), r_, h_);
  return norm(b, "ln_2", both);
}

Segment TransformerBuilder::prologue() const {
  if (v_.token_features > 0) return token_encoder(spec_, options_);
  SegmentBuilder b = begin("prologue");
  const TensorIndex tokens = b.tensor("tokens", TensorRole::tokens, s_);
  const ParameterIndex wte = matrix(b, "wte.weight", spec_.vocab, h_, columns());
  const bool table = v_.position_kind == Positions::learned;
  const ParameterIndex wpe = table ? matrix(b, "wpe.weight", spec_.positions, h_) : -1;
  TensorIndex x = token_embedding(b, "wte", tokens, s_, wte);
  if (split_rows_)
    x = sequence_scatter(b, "wte.scatter", x, s_, h_, t_);
  else if (t_ > 1)
    x = tensor_reduce(b, "wte.reduce", x, s_, h_);
  if (table) x = position_embedding(b, "wpe", x, r_, wpe);
  if (v_.token_types > 0) {
    const TensorIndex types = b.tensor("token_types", TensorRole::tokens, s_);
    x = type_embedding(b, "wtt", x, types, r_, matrix(b, "wtt.weight", v_.token_types, h_));
  }
  if (v_.embedding_norm) x = norm(b, "ln_e", x);
  return std::move(b).finish(tokens, x);
}

Segment TransformerBuilder::layer() const {
  SegmentBuilder b = begin("layer");
  const TensorIndex x = b.tensor("x", TensorRole::activation, r_ * h_);
  TensorIndex y = kNoTensor;
  switch (v_.residual) {
    case Residual::pre: y = pre_norm_layer(b, x); break;
    case Residual::parallel: y = parallel_layer(b, x); break;
    case Residual::post: y = post_norm_layer(b, x); break;
  }
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

Segment TransformerBuilder::epilogue() const {
  if (v_.decoder_hidden > 0) return cell_decoder(spec_, options_);
  SegmentBuilder b = begin("epilogue");
  const TensorIndex x = b.tensor("x", TensorRole::activation, r_ * h_);
  if (v_.pooler) pool_first(b, x);
  const TensorIndex last = v_.residual == Residual::post ? x : norm(b, "ln_f", x);
  const TensorIndex normed = enter(b, "head", last);
  Parameter head = make_parameter("lm_head.weight", {spec_.vocab, h_}, columns(), Init::normal,
                                  kInitStddev);
  head.trainable = !frozen_;
  if (spec_.tied_embeddings) head.tied_to = "wte.weight";
  const std::int64_t columns_here = head.shape[0];
  const ParameterIndex weight = b.parameter(std::move(head));
  const TensorIndex logits =
      wide_linear(b, "head", normed, {s_, columns_here, h_}, weight, TensorRole::logits);
  if (options_.inference) return std::move(b).finish(x, logits);
  const TensorIndex targets = b.tensor("targets", TensorRole::tokens, s_);
  cross_entropy_loss(b, logits, targets, s_, columns_here, t_);
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
