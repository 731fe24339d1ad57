#pragma once
// Builds one Segment operator by operator. The vertex order is the order of calls, edges are drawn
// from the producers of an operator's inputs, so a segment is a DAG by construction. Private to
// models/; used by one thread.

#include <map>
#include <span>
#include <string>
#include <vector>

#include "models/graph.hpp"

namespace models {

// How a parameter is divided over the ranks of a tensor-parallel group.
struct Split {
  int axis = -1;             // -1: replicated
  std::int64_t ways = 1;     // ranks
  std::int64_t groups = 1;   // blocks of the axis, each divided by itself (3: fused q, k, v)
};

// A parameter of this rank; ranks that do not divide the axis store ceil(size / ways).
// Weight decay applies to what has two axes or more, the convention of GPT-2 reproductions.
Parameter make_parameter(std::string name, std::vector<std::int64_t> full_shape, Split split,
                         Init init, double init_stddev = 0.0);

class SegmentBuilder {
 public:
  SegmentBuilder(std::string name, bool inference, KeptBeside beside = {})
      : kept(beside), inference_(inference) {
    segment_.name = std::move(name);
  }

  const KeptBeside kept;
  // Gives the operator, before it is added, an output of `bytes` per sample that its backward
  // reads. None under inference or where there are none.
  void keep_beside(Operator& op, double bytes, TensorRole role = TensorRole::bytes);

  // Returns what a reader of x keeps for its backward pass. That is a copy of `bytes` bytes per
  // sample, which the operator that makes x writes as a further output. It is x itself if bytes is
  // 0, if another operator keeps x anyway, or if no operator of this segment makes x.
  TensorIndex kept_as(TensorIndex x, double bytes);
  // The same of y, which `op` makes, before op is added.
  TensorIndex kept_as(Operator& op, TensorIndex y, double bytes);
  // Gives the operator that makes x a further output of `bytes` bytes per sample, and returns it.
  // REQUIRES: an operator of this segment makes x.
  TensorIndex written_beside(TensorIndex x, double bytes);

  // What a product in 8 bits keeps of its input x for its weight gradient: x where something keeps
  // it anyway or nothing here makes it; else a copy of kept.product_input bytes per element, which
  // is an output of the operator that makes x. Of rows gathered from tensor ranks, the copy is of
  // this rank's rows, and x is gathered again.
  TensorIndex kept_input(TensorIndex x);

  TensorIndex tensor(const std::string& name, TensorRole role, std::int64_t per_sample,
                     TensorIndex in_place_of = kNoTensor);
  // Of an epilogue, what stands `ahead` places behind the model's input.
  TensorIndex tokens(const std::string& name, std::int64_t rows, std::int64_t ahead);
  // Nothing is trainable under inference.
  ParameterIndex parameter(Parameter parameter);
  // Under inference the operator's saved list and backward work are dropped.
  // REQUIRES: inputs are produced already or come from outside; outputs have no producer.
  void add(Operator op);

  const Parameter& parameter_at(ParameterIndex index) const;
  const Tensor& tensor_at(TensorIndex index) const;

  // Operators that are added from now on belong to these modules, and to those of their kind.
  ModuleSet within = 0;
  // Before the names of what is added from now on, which belongs to a module for multi-token
  // prediction; "": to the model itself.
  std::string prefix;
  std::string without_prefix(const std::string& name) const {
    return name.starts_with(prefix) ? name.substr(prefix.size()) : name;
  }

  bool inference() const { return inference_; }
  Segment finish(TensorIndex input, TensorIndex output) &&;

 private:
  TensorIndex narrow_copy(TensorIndex of, double bytes);
  bool keeps(TensorIndex x) const;     // some operator's backward reads x, or what has its storage
  TensorIndex storage_of(TensorIndex t) const;

  bool inference_;
  Segment segment_;
  std::vector<std::int64_t> producer_;  // per tensor: vertex, or -1
  std::map<TensorIndex, TensorIndex> kept_inputs_;  // of tensors, what readers keep of them
};

// Operators that are added while it lives belong to the module.
class Within {
 public:
  Within(SegmentBuilder& b, Module m) : builder_(b), before_(b.within) {
    b.within = both(b.within, set_of(m));
  }
  ~Within() { builder_.within = before_; }
  Within(const Within&) = delete;
  Within& operator=(const Within&) = delete;

 private:
  SegmentBuilder& builder_;
  const ModuleSet before_;
};

// ---- Operators: each appends one vertex with its shapes, work and saved tensors, and returns its
// output. Work per element is counted in operators.cpp. `rows` is tokens per sample.

// y[rows,n] = wte[token]; the table is this rank's shard of the vocabulary.
TensorIndex token_embedding(SegmentBuilder& b, const std::string& name, TensorIndex tokens,
                            std::int64_t rows, ParameterIndex table);
TensorIndex position_embedding(SegmentBuilder& b, const std::string& name, TensorIndex x,
                               std::int64_t rows, ParameterIndex table);
struct NormParameters { ParameterIndex gamma, beta; };  // beta -1: none
// row_length: as Operator's.
struct LinearShape { std::int64_t rows, n, k, row_length = 0; };

TensorIndex layer_norm(SegmentBuilder& b, const std::string& name, TensorIndex x,
                       std::int64_t rows, std::int64_t n, NormParameters parameters);
// y[rows,n] = x[rows,k] W[n,k]^T (+ bias when >= 0).
TensorIndex linear(SegmentBuilder& b, const std::string& name, TensorIndex x, LinearShape shape,
                   ParameterIndex weight, ParameterIndex bias = -1,
                   TensorRole role = TensorRole::activation);
// The same, never in 8 bits: heads, routers, adapters.
TensorIndex wide_linear(SegmentBuilder& b, const std::string& name, TensorIndex x,
                        LinearShape shape, ParameterIndex weight,
                        TensorRole role = TensorRole::activation, ParameterIndex bias = -1);
// act(x W^T + b). gelu_tanh cannot be undone from y: it becomes a dense identity and a gelu.
TensorIndex dense(SegmentBuilder& b, const std::string& name, TensorIndex x, LinearShape shape,
                  ParameterIndex weight, ParameterIndex bias, Activation activation,
                  TensorRole role);
// base += scale u B^T, one block of columns per offset. B[groups, n, r], u[rows, groups r].
TensorIndex lora_up(SegmentBuilder& b, const std::string& name, TensorIndex base, TensorIndex u,
                    LinearShape per_group, ParameterIndex weight,
                    std::vector<std::int64_t> column_offsets);
// y = x rstd (offset + gamma).
TensorIndex rms_norm(SegmentBuilder& b, const std::string& name, TensorIndex x, std::int64_t rows,
                     std::int64_t n, ParameterIndex gamma, double offset = 0);
// Heads of this rank; a row of qkv has q first, then k, then v, which may be narrower (value_dim 0:
// they are not).
struct HeadShape { std::int64_t heads, kv_heads, head_dim, value_dim = 0; };
struct AttentionUse {
  bool causal = true;
  bool alibi = false;
  std::int64_t keys = 0;  // rows of keys and values; 0: as many as of queries
  std::int64_t origins = 1;             // ranks whose samples it has, of some heads
  std::int64_t window = 0, chunk = 0;   // as Operator's
  double soft_cap = 0, score_scale = 0;
  ParameterIndex sinks = -1;            // [heads]; -1: none
};
// Rotates the first `rotated` dimensions of each query and key head, in place, by angles of `base`.
// origins: ranks whose `rows` it has.
TensorIndex rope(SegmentBuilder& b, const std::string& name, TensorIndex qkv, std::int64_t rows,
                 HeadShape shape, std::int64_t rotated, double base, std::int64_t origins = 1);
TensorIndex attention(SegmentBuilder& b, const std::string& name, TensorIndex qkv,
                      std::int64_t rows, HeadShape shape, AttentionUse use = {});
// Between `rows` of all heads of qkv and all ranks' rows of heads / ranks; and of attention's
// output, back. shape: the heads of all those ranks.
// y has this rank's query heads and one whole head of k and of v, whose columns are made by
// `sharers` tensor ranks.
TensorIndex key_gather(SegmentBuilder& b, const std::string& name, TensorIndex qkv,
                       std::int64_t rows, HeadShape shape, std::int64_t sharers);
TensorIndex head_exchange(SegmentBuilder& b, const std::string& name, TensorIndex qkv,
                          std::int64_t rows, HeadShape shape);
TensorIndex row_exchange(SegmentBuilder& b, const std::string& name, TensorIndex attended,
                         std::int64_t rows, HeadShape shape);
// One function of each element, of a kind that models/ops declares by unary(); in x's place or in
// storage of its own. form: of gelu.
struct UnaryUse {
  bool in_place = false;
  Activation form = Activation::identity;
  double factor = 1.0;                  // of soft_cap: the cap
  TensorRole role = TensorRole::activation;
};
TensorIndex unary(SegmentBuilder& b, const std::string& name, OpKind kind, TensorIndex x,
                  std::int64_t rows, std::int64_t n, UnaryUse use = {});
// y[rows,n] = act(x[:, :n]) x[:, n:], of a kind that models/ops declares by gated().
TensorIndex gated(SegmentBuilder& b, const std::string& name, OpKind kind, TensorIndex x,
                  std::int64_t rows, std::int64_t n);
// y = factor x, in x's place.
TensorIndex scale(SegmentBuilder& b, const std::string& name, TensorIndex x, std::int64_t rows,
                  std::int64_t n, double factor);
// y[rows,n] = sigmoid(gate[rows]) x, or gate x where the gates are open already.
enum class Gate : std::uint8_t { sigmoid, open };
TensorIndex row_gate(SegmentBuilder& b, const std::string& name, TensorIndex x, TensorIndex gate,
                     std::int64_t rows, std::int64_t n, Gate kind = Gate::sigmoid);
// qkv of `shape` from q, kv and the keys' rotated part, of `rotated` columns, that heads share.
TensorIndex latent_join(SegmentBuilder& b, const std::string& name, TensorIndex q, TensorIndex kv,
                        TensorIndex k_rope, std::int64_t rows, HeadShape shape,
                        std::int64_t rotated);
// Queries and keys by an RMS norm each over all heads of all `tensor` ranks [olmo2].
TensorIndex width_norm(SegmentBuilder& b, const std::string& name, TensorIndex qkv,
                       std::int64_t rows, HeadShape shape, ParameterIndex q_gamma,
                       ParameterIndex k_gamma, std::int64_t tensor);
// Mixture of experts: rows are tokens, of which each goes to `chosen` experts.
struct Routing { TensorIndex gates, places; };  // [rows, chosen] each
// dispatch makes `copies` of the rows, chosen of each where routing is balanced.
Routing top_k(SegmentBuilder& b, const std::string& name, TensorIndex logits, std::int64_t rows,
              std::int64_t experts, std::int64_t chosen, const Router& router = {});
TensorIndex dispatch(SegmentBuilder& b, const std::string& name, TensorIndex x, TensorRole role,
                     TensorIndex places, std::int64_t rows, std::int64_t n, std::int64_t chosen,
                     std::int64_t copies);
// Rows of n to and from the ranks that hold the experts. x, and backward y's gradient, is `sent`.
TensorIndex expert_exchange(SegmentBuilder& b, const std::string& name, TensorIndex x,
                            std::int64_t rows, std::int64_t n);
// shape.rows: tokens x chosen, of all experts together. The weight is [experts of this rank, n, k];
// `origins` ranks hold as many of each layer.
TensorIndex expert_linear(SegmentBuilder& b, const std::string& name, TensorIndex x,
                          LinearShape shape, ParameterIndex weight, std::int64_t origins,
                          TensorRole role = TensorRole::activation,
                          ParameterIndex bias = -1, std::int64_t bias_ways = 1,
                          bool last = false);
TensorIndex combine(SegmentBuilder& b, const std::string& name, TensorIndex x, Routing routing,
                    std::int64_t rows, std::int64_t n, std::int64_t chosen, bool weighs = true,
                    TensorIndex kept = kNoTensor);
// All of that but the router: each expert a gated feed-forward, divided over tensor ranks like a
// dense one; `ways` ranks hold experts / ways each, and exchange rows before and after.
struct ExpertsShape {
  // tensor: ranks that divide each expert; ways: that divide the experts; data_ways: those of them
  // that are data ranks.
  std::int64_t rows, hidden, ffn_hidden, experts, chosen, tensor, ways, data_ways;
  OpKind gate = OpKind::swiglu;         // of the kinds that gated() takes
  bool biases = false;                  // of both matrices of each expert
  bool weighs = true;                   // results by their gates
  double load = 1;                      // rows sent and received, by those of equal shares
};
struct ExpertsInit { double first_stddev, second_stddev; bool frozen; };
TensorIndex experts(SegmentBuilder& b, TensorIndex x, const Routing& routing,
                    const ExpertsShape& shape, const ExpertsInit& init);
TensorIndex type_embedding(SegmentBuilder& b, const std::string& name, TensorIndex x,
                           TensorIndex types, std::int64_t rows, ParameterIndex table);
TensorIndex first_token(SegmentBuilder& b, const std::string& name, TensorIndex x, std::int64_t n);
TensorIndex add(SegmentBuilder& b, const std::string& name, TensorIndex x, TensorIndex branch,
                std::int64_t rows, std::int64_t n);
TensorIndex bias_add(SegmentBuilder& b, const std::string& name, TensorIndex x, std::int64_t rows,
                     std::int64_t n, ParameterIndex bias);
// Each query and key head by an RMS norm of its own; gammas {q, k} of head_dim [qwen3], or none.
TensorIndex qk_norm(SegmentBuilder& b, const std::string& name, TensorIndex qkv, std::int64_t rows,
                    HeadShape shape, ParameterIndex q_gamma, ParameterIndex k_gamma,
                    double offset = 0);

// ---- Operators of images.
// The weight is [y.channels, x.channels / groups, kernel, kernel]. origins: ranks whose samples it
// has, as many of each.
TensorIndex convolution(SegmentBuilder& b, const std::string& name, TensorIndex x, ImageShape from,
                        ImageShape to, Window window, std::int64_t groups, ParameterIndex weight,
                        ParameterIndex bias, std::int64_t origins = 1);
enum class Pool : std::uint8_t { maximum, average };
TensorIndex pool(SegmentBuilder& b, const std::string& name, TensorIndex x, ImageShape from,
                 ImageShape to, Window window, Pool kind, std::int64_t origins = 1);
TensorIndex local_response_norm(SegmentBuilder& b, const std::string& name, TensorIndex x,
                                ImageShape shape, std::int64_t window);
// Each channel by its mean and variance over a micro-batch; gamma and beta are of the channels.
TensorIndex batch_norm(SegmentBuilder& b, const std::string& name, TensorIndex x,
                       std::int64_t channels, std::int64_t places, NormParameters parameters);
// The same over the samples of all data ranks: sums, which they add up, and the norm.
TensorIndex synchronised_batch_norm(SegmentBuilder& b, const std::string& name, TensorIndex x,
                                    std::int64_t channels, std::int64_t places,
                                    NormParameters parameters);
// Of n elements of a sample. Without effect at inference: the builder leaves it out. origins: ranks
// whose samples it has, 1 / origins of the columns of each of `rows` rows.
TensorIndex dropout(SegmentBuilder& b, const std::string& name, TensorIndex x, std::int64_t rows,
                    std::int64_t n, std::int64_t origins = 1);
// Inputs of rows x any number of columns.
TensorIndex concat(SegmentBuilder& b, const std::string& name,
                   const std::vector<TensorIndex>& inputs, std::int64_t rows);
// Columns [first, first + n) of each of the rows.
TensorIndex slice(SegmentBuilder& b, const std::string& name, TensorIndex x, std::int64_t rows,
                  std::int64_t first, std::int64_t n);
// y = a + b in storage of its own.
TensorIndex sum(SegmentBuilder& b, const std::string& name, TensorIndex a, TensorIndex c,
                std::int64_t n);
// Between ranks that divide operators (splits.hpp); rows and n are a sample's, of all columns. All
// samples on every rank; of the ranks' sums, this rank's samples; this rank's columns of all
// samples, and back. keeps: x for the backward pass, as what begins a layer does.
TensorIndex sample_gather(SegmentBuilder& b, const std::string& name, TensorIndex x,
                          std::int64_t rows, std::int64_t n, std::int64_t ways, bool keeps);
TensorIndex sample_scatter(SegmentBuilder& b, const std::string& name, TensorIndex x,
                           std::int64_t rows, std::int64_t n, std::int64_t ways);
TensorIndex to_columns(SegmentBuilder& b, const std::string& name, TensorIndex x,
                       std::int64_t rows, std::int64_t n, bool keeps);
TensorIndex to_samples(SegmentBuilder& b, const std::string& name, TensorIndex x,
                       std::int64_t rows, std::int64_t n, bool keeps);
TensorIndex tensor_copy(SegmentBuilder& b, const std::string& name, TensorIndex x,
                        std::int64_t rows, std::int64_t n);
// [korthikanti2022]: g and its conjugate, where the residual stream holds rows / tensor. Both take
// the rows of the whole sequence.
TensorIndex sequence_gather(SegmentBuilder& b, const std::string& name, TensorIndex x,
                            std::int64_t rows, std::int64_t n);
TensorIndex sequence_scatter(SegmentBuilder& b, const std::string& name, TensorIndex x,
                             std::int64_t rows, std::int64_t n, std::int64_t ways);
struct ReduceUse { bool maximum = false; bool loss_traffic = false; };
TensorIndex tensor_reduce(SegmentBuilder& b, const std::string& name, TensorIndex x,
                          std::int64_t rows, std::int64_t n, ReduceUse use = {});
// softmax statistics, their reductions over `tensor` ranks, and the loss. n: local columns.
// weight: of this loss in the sum of several.
void cross_entropy_loss(SegmentBuilder& b, TensorIndex logits, TensorIndex targets,
                        std::int64_t rows, std::int64_t n, std::int64_t tensor,
                        double weight = 1);
void squared_error_loss(SegmentBuilder& b, TensorIndex y, TensorIndex target, std::int64_t n);

// ---- Families.
// [gpt2] as released: every matrix; those that add to the residual stream / sqrt(2 L).
inline constexpr double kInitStddev = 0.02;
// Ends of a transformer whose tokens arrive as features (cell_embedding.cpp).
Segment token_encoder(const ModelSpec& spec, const GraphOptions& options);
Segment cell_decoder(const ModelSpec& spec, const GraphOptions& options);
ModelGraph build_transformer(const ModelSpec& spec, const GraphOptions& options);
ModelGraph build_chain(const ModelSpec& spec, const GraphOptions& options);
ModelGraph build_operator_graph(const ModelSpec& spec, const GraphOptions& options);
Segment graph_prologue(const GraphSpec& spec, const GraphAnalysis& analysis, bool inference);
Segment graph_epilogue(const ModelSpec& spec, const Shape& shape, bool inference);

}  // namespace models
