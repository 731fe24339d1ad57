#pragma once
// The operator graph of one rank: Boost.Graph vertices are operators with shapes, FLOPs (forward,
// input gradient, weight gradient), bytes moved, parameters and the tensors they keep for the
// backward pass; edges carry tensors. Everything above reads the model through this graph: the
// lowering walks it, the planner counts it, issue-wide additions (families, attention kinds) add
// operators and builders, not cases in the lowering.
//
// Sizes are per sample: a micro-batch of b samples of s tokens multiplies `per_sample` by b. The
// graph is built for a tensor-parallel degree: its shapes are those of one rank, and the
// collectives of Megatron's f and g appear as operators of kind tensor_copy and tensor_reduce
// [megatron] section 3.
//
// A model is a prologue, a row of layers, and an epilogue. Layers share a template where their
// shapes agree (all blocks of GPT-2 are one template; the layers of a chain 784-512-512-10 are
// three). Immutable after building; thread-safe to read.

#include <boost/graph/adjacency_list.hpp>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/result.hpp"
#include "core/units.hpp"
#include "models/extent.hpp"
#include "models/modules.hpp"
#include "models/ops/schemas.hpp"
#include "models/spec.hpp"

namespace models {

// Which type of the recipe a tensor is stored in.
enum class TensorRole : std::uint8_t {
  activation,  // recipe's activation type
  statistic,   // f32 (f64 in recipe fp64): mean, rstd, log-sum-exp, softmax statistics
  logits,      // activation type, memory term logits
  tokens,      // i32 inputs and targets (term activations); f32/f64 inputs of chains are `features`
  features,    // activation-typed model input or target (chains, graphs, embeddings)
  sent,        // activation type, memory term communication: on the way to other ranks
  mask,        // one byte: dropout's mask, the place of a maximum in its window
  bytes,       // what a framework keeps beside, in bytes
  logits_bytes,  // the same, memory term logits
  sums,        // f64, memory term communication: of all samples of a micro-batch, added over ranks
};

using TensorIndex = std::int32_t;
using ParameterIndex = std::int32_t;
inline constexpr TensorIndex kNoTensor = -1;

struct Tensor {
  std::string name;
  TensorRole role = TensorRole::activation;
  std::int64_t per_sample = 0;         // elements per sample; of sums: in all
  TensorIndex in_place_of = kNoTensor; // shares the storage of this tensor (y takes x's place)
  // Of tokens that an epilogue reads: how many places behind the model's input they stand.
  std::int64_t ahead = 1;
};

enum class Init : std::uint8_t { zero, one, normal };

struct Parameter {
  std::string name;                    // "attn.qkv.weight": unique in its segment
  std::vector<std::int64_t> shape;     // of this rank's shard
  std::int64_t elements = 0;           // of this rank's shard
  std::int64_t unsharded_elements = 0; // as published: no padding, all shards together
  std::vector<std::int64_t> full_shape;  // unsharded, unpadded
  // Axis of full_shape divided over tensor ranks, also when there is one; -1 replicated. Where
  // ranks do not divide it (vocabulary), each stores ceil(size / ranks) and the last is padded.
  int split_axis = -1;
  std::int64_t split_groups = 1;       // 3 for fused qkv: each of q, k, v is divided by itself
  // Sizes of the axis's blocks, each divided by itself, where they differ (q, k, v of grouped
  // queries); empty: split_groups equal ones.
  std::vector<std::int64_t> split_blocks;
  // Ranks among which an axis is divided: the first one, of experts, or that of an operator that
  // ranks divide (splits.hpp). Each has neighbouring ones of it, shape[ways_axis] of them.
  std::int64_t expert_ways = 1;
  int ways_axis = 0;
  std::int64_t data_ways = 1;          // those of them that are data ranks; the others are tensor's
  // Each tensor rank has a part of the gradient, although it stores the whole parameter: it met
  // some of the rows (sequence parallelism) or of the columns (adapters) alone.
  bool tensor_partial = false;
  bool trainable = true;
  bool adapter = false;                // a LoRA matrix
  bool decays = false;                 // weight decay applies (matrices, not biases and norms)
  Init init = Init::normal;
  double init_stddev = 0.02;
  std::string tied_to;                 // same storage as this parameter of the prologue ("" none)
  bool mtp = false;                    // of a module for multi-token prediction
};

// x[channels, height, width], one value of a sample; windows over it.
struct ImageShape { std::int64_t channels = 0, height = 0, width = 0; };
struct Window { Extent kernel = 1, stride = 1, padding = 0; };

// How a router's logits become gates (schemas_experts.hpp).
struct Router {
  bool sigmoid = false;                // else softmax
  bool normalised = true;              // the gates of a row add up to `scale`
  double scale = 1.0;
  // A row's experts are of so many of equal groups (0: of all), which sets how far rows travel.
  std::int64_t groups = 0, groups_chosen = 0;
  // A softmax over the chosen logits alone is the same as one over all that is then normalised.
  bool chosen_alone() const { return !sigmoid && normalised && scale == 1.0; }
  friend bool operator==(const Router&, const Router&) = default;
};

struct Operator {
  std::string name;                    // "attn.qkv"
  OpKind kind{};
  ModuleSet modules = 0;                // of its layer, that it belongs to
  // In the order of the kind's schema; behind the outputs that it names come copies of them in
  // fewer bits, which readers of the outputs keep.
  std::vector<TensorIndex> inputs;
  std::vector<TensorIndex> outputs;
  std::vector<ParameterIndex> parameters;
  // What backward reads: inputs or outputs of this operator, or narrow copies of its inputs.
  std::vector<TensorIndex> saved;
  // Shape: rows per sample x (n outputs, k inputs), and what the kind needs beside.
  std::int64_t rows = 0, n = 0, k = 0;
  // Elements from one row of the logits to the next, where rows are padded: the head and its loss;
  // 0: n.
  std::int64_t row_length = 0;
  // Calls that a micro-batch's rows are divided over, one behind the other (loss_chunks): rows, and
  // all work below, are those of one call.
  std::int64_t parts = 1;
  std::int64_t heads = 0, kv_heads = 0, head_dim = 0, groups = 1;
  Activation activation = Activation::identity;
  double scale = 1.0;
  // First column of y: that each group adds to (lora_up), of each input (concat); of x (slice).
  std::vector<std::int64_t> column_offsets;
  ImageShape image;                    // convolution, pools: the input's
  Window window;                       // the same
  // Ranks whose rows it has, as many of each: expert_linear, and what is divided along `out` or
  // `in` of convolutions, pools, attention and dropout (whose images are those of one rank).
  std::int64_t origins = 1;
  bool causal = true, alibi = false;   // attention
  // attention: keys that a query sees, the last `window` or those of its chunk of so many; 0: all.
  std::int64_t window_keys = 0, chunk_keys = 0;
  double soft_cap = 0;                 // attention: of its scores; 0: none
  double score_scale = 0;              // attention: 0: 1 / sqrt(head_dim)
  std::int64_t value_dim = 0;          // of a head's values; 0: head_dim
  Router router{};                     // top_k
  bool adds_last_bias = false;         // expert_linear: it makes the experts' results, with a bias
  bool weighs = true;                  // combine: by the gates; else rows were weighed before
  double gamma_offset = 0;             // norms: added to gamma
  double rotary_base = 10000;          // rope
  std::int64_t keys = 0;               // attention: rows of keys that exist, of all context ranks
  // attention over keys that come block by block round a ring of context ranks: those of the rank
  // `ring_step` places before this one. ring_steps 0: all keys at once.
  std::int64_t ring_step = 0, ring_steps = 0;
  bool reduce_max = false;             // tensor_reduce takes the maximum, not the sum
  bool loss_traffic = false;           // tensor_reduce counts as traffic "loss", not "tensor"
  // Work per sample. Embedding and in-place reuse included; collectives have bytes 0 here (their
  // cost is the wire's).
  core::Flops flops_forward{}, flops_input_gradient{}, flops_weight_gradient{};
  bool is_gemm = false;                // counts into model FLOPs (mfu)
  // Elements read and written per sample (activations) and per call (parameters), forward; the
  // backward passes read and write about twice that, stated separately.
  std::int64_t elements_forward = 0, elements_backward = 0, parameter_elements = 0;
};

// Width of a head's values.
inline std::int64_t value_dim_of(const Operator& op) {
  return op.value_dim > 0 ? op.value_dim : op.head_dim;
}
// Columns of q, k and v together.
inline std::int64_t qkv_columns(const Operator& op) {
  return (op.heads + op.kv_heads) * op.head_dim + op.kv_heads * value_dim_of(op);
}
// Keys that a query of attention sees on average, twice over where the mask is causal: all that
// exist, as the convention of FLOPs counts the square of causal attention; of a window w of k keys
// w (2 k - w) / k; of chunks their own squares.
double reach(const Operator& attention);

struct TensorEdge { TensorIndex tensor = kNoTensor; };

// Directed from producer to consumer.
using OperatorGraph = boost::adjacency_list<boost::vecS, boost::vecS, boost::bidirectionalS,
                                            Operator, TensorEdge>;

struct Segment {
  std::string name;                    // "prologue", "layer", "epilogue"
  OperatorGraph graph;
  std::vector<Tensor> tensors;
  std::vector<Parameter> parameters;
  TensorIndex input = kNoTensor;       // boundary in (prologue: the tokens or features)
  TensorIndex output = kNoTensor;      // boundary out (epilogue: none)
  // An addition may hand one gradient buffer to both of its inputs: nothing adds to either before
  // the other is done with it. The builders of transformers see to that; arbitrary graphs do not.
  bool shares_gradients = true;
};

// Vertices in a topological order, ties by vertex number (the builder's order). O(V log V + E).
std::vector<OperatorGraph::vertex_descriptor> topological_order(const Segment& segment);

// What a framework's kernels keep for the backward pass beside the tensors of the operators, in
// bytes per element of what they make; a kernel for each operator keeps nothing more.
struct KeptBeside {
  double norm = 0;                     // copies of an RMS norm made of several kernels
  double gated = 0;                    // silu(gate), apart from its product
  double rotary = 0;                   // keys and values as they were, where heads are not grouped
  double scores = 0;                   // attention over stored scores
  double activated = 0;                // what an activation reads: half of it, where it is even
  double logits = 0;                   // wider copies, gradient; while the loss is computed
  // What products in 8 bits keep of their input instead of it, where nothing else keeps it; 0: it.
  // Inputs that the modules `again` make are made again instead.
  double product_input = 0;
  ModuleSet again = 0;
  // Of what activations of feed-forwards read and of what the attention core makes, per element,
  // and of each row that experts send back to be weighed, kept in their places; 0: they themselves.
  double activation_input = 0, attention_output = 0, returned_row = 0;
  bool gathered_logits = false;        // those of all tensor ranks, on each
  // Rows of logits begin at multiples of kRowAlignment elements, where that adds under 1 %.
  bool aligned_logits = false;
  friend bool operator==(const KeptBeside&, const KeptBeside&) = default;
};

// Of rows of 16-bit logits: 128 bytes, a line of a GPU's cache. Matrix products on tensor cores
// want 16 bytes [cuBLAS, "Tensor Core Usage"].
inline constexpr std::int64_t kRowAlignment = 64;

// Elements from one row of n logits to the next.
std::int64_t logit_row(std::int64_t n, const KeptBeside& kept);

struct GraphOptions {
  std::int64_t seq_len = 1;
  std::int64_t tensor = 1;             // tensor-parallel degree
  std::int64_t lora_rank = 0;
  std::vector<std::string> lora_targets{};  // of lora_targets_of; read when lora_rank > 0
  bool inference = false;
  bool sequence_parallel = false;      // norms and residuals on 1 / tensor of the rows
  KeptBeside kept{};
  std::int64_t context = 1;            // ranks that divide the sequence: rows of one of them
  bool exchange_heads = false;         // attention has all rows of heads / context instead
  std::int64_t expert = 1;             // ranks that divide the experts of each layer
  // Ranks that divide the operators of an operator graph, and how: annotations (splits.hpp).
  std::int64_t split = 1;
  std::vector<std::string> splits{};
  // Batch norms take the samples of all data ranks together.
  bool synchronised_norms = false;
  std::int64_t expert_tensor = 0;      // ranks that divide each expert: 0, all tensor ranks; or 1
  // Modules for multi-token prediction that are trained, of the spec's mtp_layers.
  std::int64_t mtp = 0;
  // Rows of the busiest expert rank, which the others wait for, by those of an equal share.
  double expert_load = 1;
  // Expert ranks are drawn from the tensor ranks first, which all have different experts.
  bool expert_over_tensor() const { return expert_tensor == 1 && tensor > 1 && expert > 1; }
  friend bool operator==(const GraphOptions&, const GraphOptions&) = default;
};

// Factor of the mean loss of modules for multi-token prediction; that of the model's own loss is 1.
// It is Megatron-LM's mtp_loss_scaling_factor (d98e8a6); [deepseekv3] takes 0.3, then 0.1.
inline constexpr double kMtpLossWeight = 0.1;

// The matrices of a layer that adapters may be put on: q, k, v, o, and of a dense feed-forward gate
// (of SwiGLU), up and down. Experts take none.
std::vector<std::string_view> lora_targets_of(const ModelSpec& spec);

struct ModelGraph {
  ModelSpec spec;
  GraphOptions options;
  Segment prologue;                    // may be empty (no operators): a chain
  std::vector<Segment> templates;
  std::vector<int> layer_template;     // layer -> index into templates; size = layers
  Segment epilogue;                    // head and loss
  // Elements of one boundary tensor (output of layer l-1 = input of layer l), per sample.
  std::int64_t boundary_elements(std::int64_t layer) const;
};

// Errors: a spec that does not hold (check_spec), tensor does not divide heads, kv_heads or
// ffn_hidden, seq_len beyond a table of positions, unknown lora target, a chain or an operator
// graph with tensor > 1, another model with split > 1, splits that do not hold, and sizes beyond
// what 64-bit counts of bytes hold. Inference: nothing is trainable, nothing saved, no backward
// work; the epilogue ends in its logits (transformers) or is empty (chains and graphs), and its
// output is the model's.
core::Result<ModelGraph> build_graph(const ModelSpec& spec, const GraphOptions& options);

// One of the parts that an operator graph is cut into (graph_cut.hpp): one layer of its operators,
// with cut_send and cut_receive where values cross, in the whole graph's order. The part that makes
// the result has the loss. parts: of each operator of the spec, from 1; part: from 1.
// REQUIRES: check_spec and cut_problems find nothing.
ModelGraph build_part(const ModelSpec& spec, const GraphOptions& options,
                      const std::vector<std::int64_t>& parts, std::int64_t part);

// The whole model as one graph (every layer instantiated, boundary edges joined): for partitioners,
// counting and drawing. An edge's tensor indexes the tensors of the producer's segment. O(layers).
OperatorGraph expand(const ModelGraph& graph);

// The prologue, every layer in order, the epilogue.
void for_each_segment(const ModelGraph& graph, const std::function<void(const Segment&)>& visit);

// Total, unpadded, unsharded, tied storage counted once; adapters not counted unless asked, and
// modules for multi-token prediction never, as models are published.
std::int64_t parameter_count(const ModelGraph& graph, bool with_adapters = false);
// Of the spec's modules for multi-token prediction, whether the graph trains them or not: each has
// two norms and a final one, a projection of 2h to h, and a layer of the last one's kind. Embedding
// and head are the model's and not counted again. 0: none.
std::int64_t mtp_parameter_count(const ModelGraph& graph);
// GEMM FLOPs of the forward pass of one sample, attention not halved for causality, LM head once
// (the mfu convention of the plan file). Of one rank: build with tensor = 1 for the whole model.
core::Flops forward_gemm_flops(const ModelGraph& graph);
// Of a step of one sample by the same convention: forward once, backward once for each of a
// product's two operands, no recomputation; weights that take no gradient (LoRA's base) have none.
// Of a graph for inference, the forward pass alone.
core::Flops step_gemm_flops(const ModelGraph& graph);
// By the same convention, of the spec's modules for multi-token prediction: layer, projection and
// head. REQUIRES: a graph without them (GraphOptions::mtp 0).
core::Flops mtp_step_gemm_flops(const ModelGraph& graph);
// Of step_gemm_flops, what a causal mask leaves out and kernels do not compute: half of causal
// attention.
core::Flops masked_step_flops(const ModelGraph& graph);

}  // namespace models
